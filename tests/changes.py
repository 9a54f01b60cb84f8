"""Which tests a change may break: `nox -s changed` runs them, against `main` or another commit.

They are the tests near changed modules, or those of the folder if none has a module's name or
imports it; the further ones of CONTRIBUTING's table; tests and pages with words that a change adds
or removes, and tests that name a changed file. What a change does without a different word is not
found.
"""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final

from tests.near import ROOT, near_tests, nearest_tests

TEXTS: Final = ("README.md", "docs", "features", "scenarios", "tests")
ENDINGS: Final = (".feature", ".json", ".md", ".py", ".txt", ".yaml")
MOST_FILES: Final = 5
"""Words that more files contain point at none of them."""
MOST_NEAR: Final = 12
"""Tests that are nearer come first; many import what everything uses, and quick runs have all."""
LETTERS: Final = 14
"""Three shorter words ("of the module") stand anywhere."""
JOINED: Final = re.compile(r"""["']\s*\n\s*[rf]*["']""")
DEFINITIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
Words = set[tuple[str, ...]]


def words_of(text: str) -> Words:
    """Return each three words in a row that say something; a shorter text as a whole."""
    words = re.findall(r"[\w-]+", text)
    if len(words) < 3:
        return {tuple(words)} if len(text) >= 8 or re.search(r"\w-\d", text) else set()
    rows = zip(words, words[1:], words[2:], strict=False)
    return {row for row in rows if sum(map(len, row)) >= LETTERS}


def words_of_module(file: str, source: str) -> Words:
    """Return the words of all texts in a module, and the names that it defines.

    Docstrings are texts where pages are made of them.
    """
    nodes = list(ast.walk(ast.parse(source)))
    docs = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    if file.startswith("simkit/spec/"):
        docs = set()
    texts = [
        node.value for node in nodes if isinstance(node, ast.Constant) and id(node) not in docs
    ]
    names = [node.name for node in nodes if isinstance(node, DEFINITIONS)]
    return {words for text in (*texts, *names) if isinstance(text, str) for words in words_of(text)}


def changed_words(file: str, before: str, after: str) -> Words:
    """Return the words that are gone, and names of one or two words that are new."""
    old, new = (
        words_of_module(file, text) if file.endswith(".py") else words_of(text)
        for text in (before, after)
    )
    return (old - new) | {words for words in new - old if len(words) < 3}


def contained(changed: Words, text: str) -> Words:
    """Return which changed words a text contains, over the ends of lines and of literals."""
    words = re.findall(r"[\w-]+", JOINED.sub("", text))
    pairs = pairwise(words)
    threes = zip(words, words[1:], words[2:], strict=False)
    return changed & {*((word,) for word in words), *pairs, *threes}


def find_files_with(changed: Words) -> dict[Path, Words]:
    """Return the files that contain changed words, except words that too many files contain."""
    tops = [ROOT / name for name in TEXTS]
    files = [file for top in tops for file in ([top] if top.is_file() else sorted(top.rglob("*")))]
    by_file = {
        file: contained(changed, file.read_text("utf-8"))
        for file in files
        if file.suffix in ENDINGS and not {"upstream", "decisions"} & {*file.parts}
    }
    count = Counter(each for words in by_file.values() for each in words)
    rare = {each for each, number in count.items() if number <= MOST_FILES}
    return {file: words & rare for file, words in by_file.items() if words & rare}


def find_tests_with(file: Path, words: Words) -> list[str]:
    """Return what to run for a file with changed words: its tests with them, or all of them.

    For a page, a golden text or an application these are the test files that name it.
    """
    name = str(file.relative_to(ROOT))
    if name.startswith(("features/", "scenarios/")):
        return [name] if file.suffix in (".feature", ".yaml") else []
    if name.startswith("docs/") and not name.startswith("docs/reference/"):
        return []
    if not file.name.startswith("test_"):
        module = ".".join(Path(name).with_suffix("").parts)
        names = (file.name, module, f"{file.stem}:") if file.suffix == ".py" else (file.name,)
        named = {test: None for part in names for test in find_tests_naming(part)}
        return list(named) or find_tests_naming(f'"{file.parent.name}"')
    source = file.read_text("utf-8")
    results = []
    for node in ast.parse(source).body:
        if contained(words, ast.get_source_segment(source, node) or ""):
            if not (isinstance(node, DEFINITIONS) and node.name.lower().startswith("test")):
                return [name]
            results.append(f"{name}::{node.name}")
    return results or [name]


def find_tests_naming(name: str) -> list[str]:
    """Return the tests, and the scenarios of applications, that contain a file's name.

    `tests/test_docs.py` is none of them: it is run for the pages that changed.
    """
    end = r"\w" if name.endswith(":") else r"(?![\w-])"
    named = re.compile(rf"(?<![\w-]){re.escape(name)}{end}")
    tests = ROOT / "tests"
    files = [*sorted(tests.rglob("test_*.py")), *sorted(tests.glob("apps/*.scenario.yaml"))]
    names = [str(file.relative_to(ROOT)) for file in files if named.search(file.read_text("utf-8"))]
    return [each for each in names if each != "tests/test_docs.py"]


def changes_since(base: str) -> Iterator[tuple[str, str, str]]:
    """Yield each changed file with its text before and now; empty where there was or is none."""
    start = _git("merge-base", base, "HEAD").strip()
    for file in _git("diff", "--name-only", start).split():
        path = ROOT / file
        if path.suffix in ENDINGS:
            now = path.read_text("utf-8") if path.exists() else ""
            yield file, _git("show", f"{start}:{file}"), now


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout


def list_runs(changes: list[tuple[str, str, str]]) -> list[list[str]]:
    """Return the arguments of each run of pytest, and print why each file is among them."""
    near: dict[str, None] = {}
    texts: dict[str, None] = {}
    changed: Words = set()
    pages = set()
    for file, before, after in changes:
        if file.startswith("simkit/"):
            changed |= changed_words(file, before, after)
            if file.endswith(".py"):
                nearest, listed = nearest_tests(file), near_tests(file)
                further = [name for name in listed[len(nearest) :] if name.endswith(".py")]
                near |= dict.fromkeys([*(nearest[:MOST_NEAR] or listed[:1]), *further])
        elif file.startswith(TEXTS) and after:
            is_test = Path(file).name.startswith("test_")
            texts |= dict.fromkeys([file] if is_test else find_tests_with(ROOT / file, set()))
            pages |= {Path(file).name} if file.endswith(".md") else set()
    for path, words_here in (find_files_with(changed) if changed else {}).items():
        examples = "; ".join(" ".join(each) for each in sorted(words_here)[:3])
        print(f"{path.relative_to(ROOT)} contains: {examples}", file=sys.stderr)
        texts |= dict.fromkeys(find_tests_with(path, words_here))
        pages |= {path.name} if path.suffix == ".md" else set()
    whole = [name for name in texts if "::" not in name]
    of_texts = [*whole, *(name for name in texts if name.partition("::")[0] not in whole)]
    runs = [[name for name in near if name not in whole]] if near else []
    runs += [["-m", "", *of_texts]] if of_texts else []
    of_pages = ["-m", "", "tests/test_docs.py", "-k", " or ".join(sorted(pages))]
    return [*runs, of_pages] if pages else runs


if __name__ == "__main__":
    for run in list_runs(list(changes_since(*(sys.argv[1:] or ["main"])))):
        print(shlex.join(run))
