"""Which tests to run for a module of simkit: `nox -s near -- simkit/runtime/turn.py` runs them.

CONTRIBUTING.md has the rule; `tests/test_near.py` checks that it fits every module.
"""

from __future__ import annotations

import ast
import functools
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
FURTHER: Final = {
    "simkit/": ["scenarios", "features"],
    "simkit/adapters/": ["tests/testing/test_conformance.py", "tests/frameworks/test_adapters.py"],
    "simkit/adapters/google_adk/": ["tests/testing/test_google_adk.py"],
    "simkit/adapters/langgraph/": ["tests/testing/test_langgraph.py"],
    "simkit/adapters/openai_agents/": ["tests/testing/test_openai_agents.py"],
    "simkit/adapters/pydantic_ai/": ["tests/testing/test_pydantic_ai.py"],
    "simkit/checks/": ["tests/checks/test_golden.py"],
    "simkit/checks/coverage/": ["tests/cli/test_coverage.py", "tests/cli/test_sessions.py"],
    "simkit/providers/": ["tests/providers/test_rendering.py", "tests/providers/test_failing.py"],
    "simkit/runtime/": ["tests/oracle/test_oracle.py", "tests/testing/test_conformance.py"],
    "simkit/spec/": ["tests/test_bad_input.py"],
    "simkit/testing/": ["tests/testing/test_langgraph.py"],
}
"""Tests of other folders, by the beginning of a module's path."""


def near_tests(module: str) -> list[str]:
    """Return the test files and folders of a module, the nearest first.

    They are the tests of its name, those that import it, those of its folder, those beside the
    folder that name it, and `FURTHER` ones.
    """
    folder = _folder(Path(module))
    same_folder = [folder, *_naming(folder)] if folder != ROOT / "tests" else []
    rows = [
        ROOT / name
        for start, names in reversed(FURTHER.items())
        if module.startswith(start)
        for name in names
    ]
    further = [str(path.relative_to(ROOT)) for path in [*same_folder, *rows]]
    return list(dict.fromkeys([*nearest_tests(module), *further]))


def nearest_tests(module: str) -> list[str]:
    """Return the test files of a module's name, then those that import it."""
    path = Path(module)
    stem = path.parent.name if path.name == "__init__.py" else path.stem
    folder = _folder(path)
    by_name = [
        *sorted(folder.glob(f"test_{stem}.py")),
        *sorted(folder.glob(f"test_{stem}_*.py")),
        *sorted(file for file in _test_files(stem) if not _tested_beside(file, stem)),
    ]
    dotted = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
    importing = [file for file, names in _imports().items() if dotted in names]
    return [str(path.relative_to(ROOT)) for path in dict.fromkeys([*by_name, *importing])]


@functools.cache
def _all_test_files() -> list[Path]:
    return sorted((ROOT / "tests").rglob("test_*.py"))


def _test_files(stem: str) -> list[Path]:
    """Return the test files of a name, in whatever folder."""
    return [file for file in _all_test_files() if file.stem == f"test_{stem}"]


def _tested_beside(file: Path, stem: str) -> bool:
    """Return whether a module of that name belongs to the folder of the test file."""
    package = ROOT / "simkit" / file.parent.relative_to(ROOT / "tests")
    return (package / f"{stem}.py").exists() or (package / stem).is_dir()


def _folder(module: Path) -> Path:
    """Return the folder of tests that mirrors the module's package, or the nearest one above."""
    folder = ROOT.joinpath("tests", *module.parent.parts[1:])
    while folder not in _folders():
        folder = folder.parent
    return folder


@functools.cache
def _naming(folder: Path) -> list[Path]:
    """Return the test files beside a folder with its name in them, as `openai_agents`.

    An adapter's package is run by tests of all adapters. A name of one word says too little.
    """
    name = re.compile(folder.name.replace("_", "[_ ]"))
    files = sorted(folder.parent.glob("test_*.py")) if "_" in folder.name else []
    return [file for file in files if name.search(file.read_text("utf-8"))]


@functools.cache
def _folders() -> set[Path]:
    """Return the folders with tests in them, or in a folder in them."""
    return {parent for file in _all_test_files() for parent in file.parents}


@functools.cache
def _imports() -> dict[Path, set[str]]:
    """Return the modules that each test file imports by name."""
    return {
        file: {name for node in import_statements(file.read_text("utf-8")) for name in _names(node)}
        for file in _all_test_files()
        if "apps" not in file.parts
    }


def import_statements(source: str, indents: str = " *") -> Iterator[ast.stmt]:
    """Yield the imports of a source, also those in functions, without parsing all of it."""
    pattern = rf"^{indents}(?:from [\w.]+ )?import (?:\([^)]*\)|.*)"
    for hit in re.finditer(pattern, source, re.MULTILINE):
        with suppress(SyntaxError):  # A line of a text that begins so.
            yield from ast.parse(hit[0].strip()).body


def _names(node: ast.AST) -> list[str]:
    if isinstance(node, ast.ImportFrom) and node.module:
        return [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return [alias.name for alias in node.names] if isinstance(node, ast.Import) else []


if __name__ == "__main__":
    print(*dict.fromkeys(name for module in sys.argv[1:] for name in near_tests(module)))
