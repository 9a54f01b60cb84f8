"""Break random lines of simkit, and count how many of them the tests near them notice.

`nox -s mutants -- --seed N --count 25`. It works on a copy of the tree. A line that survives shows
a module with weak tests, or a change that nobody can observe: the printed diff says which.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.near import ROOT, near_tests

SWAPS: Final[dict[type[ast.AST], type[ast.AST]]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
}
OWN_ENVIRONMENT: Final = tuple(
    f"simkit/adapters/{each}" for each in ("crewai.", "google_adk/", "llama_index.")
)
"""Their tests have environments of their own."""
UNREACHABLE: Final = ("assert_never", "NotImplementedError", "warn")
"""Statements with these words are not dropped: no test can see that."""


@dataclass(frozen=True)
class Mutant:
    """One changed piece of a source file."""

    file: str
    line: int
    start: int
    end: int
    text: str

    def apply(self, source: bytes) -> bytes:
        """Return the source with the piece replaced."""
        return source[: self.start] + self.text.encode() + source[self.end :]


def mutants_of(file: str, source: str) -> Iterator[Mutant]:
    """Yield every change of a line inside a function that still compiles."""
    starts = [0]
    for line in source.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    functions = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and not any("overload" in ast.unparse(part) for part in node.decorator_list)
    ]
    past: set[tuple[int, int, str]] = set()
    for function in functions:
        for statement in function.body:
            for node, text in _changes(statement):
                start = starts[node.lineno - 1] + node.col_offset
                end = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
                mutant = Mutant(file, node.lineno, start, end, text)
                if (start, end, text) not in past and _compiles(mutant.apply(source.encode())):
                    past.add((start, end, text))
                    yield mutant


def _changes(node: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    """Yield nodes and the text that replaces them."""
    match node:
        case ast.JoinedStr() | ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return  # Positions inside f-strings are wrong before Python 3.12.
        case ast.Expr(value=ast.Constant()):
            return
        case ast.Expr() if not any(word in ast.unparse(node) for word in UNREACHABLE):
            yield node, "pass"
        case ast.AugAssign() | ast.Continue() | ast.Break():
            yield node, "pass"
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield node, "return None"
        case ast.If() | ast.While() | ast.IfExp():
            yield node.test, f"(not ({ast.unparse(node.test)}))"
        case ast.UnaryOp(op=ast.Not()):
            yield node, f"({ast.unparse(node.operand)})"
        case ast.Compare(ops=[op]) if type(op) in SWAPS:
            yield node, f"({ast.unparse(_swapped(node, 'ops', [SWAPS[type(op)]()]))})"
        case ast.BoolOp() | ast.BinOp() if type(node.op) in SWAPS:
            yield node, f"({ast.unparse(_swapped(node, 'op', SWAPS[type(node.op)]()))})"
        case ast.Constant(value=bool() as value):
            yield node, str(not value)
        case ast.Constant(value=int() as value):
            yield node, str(value + 1)
        case ast.Constant(value=str() as value):
            yield node, repr(f"{value}~")
        case _:
            pass
    for name, field in ast.iter_fields(node):
        if name not in ("annotation", "returns"):
            for child in field if isinstance(field, list) else [field]:
                if isinstance(child, ast.AST):
                    yield from _changes(child)


def _swapped(node: ast.expr, field: str, value: object) -> ast.expr:
    values = {name: getattr(node, name) for name in node._fields}
    return type(node)(**{**values, field: value})


def _compiles(source: bytes) -> bool:
    try:
        compile(source, "mutant", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return True


def drawn(seed: int, count: int, under: str) -> list[Mutant]:
    """Return mutants on random lines: each line that can be changed is as likely as any other."""
    random_lines = random.Random(seed)
    lines: dict[tuple[str, int], None] = {}
    paths = [ROOT / under] if under.endswith(".py") else sorted((ROOT / under).rglob("*.py"))
    texts = {str(path.relative_to(ROOT)): path.read_text("utf-8") for path in paths}
    sources = {file: text for file, text in texts.items() if not file.startswith(OWN_ENVIRONMENT)}
    for file, source in sources.items():
        for function in ast.walk(ast.parse(source)):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                for statement in function.body:
                    for node, _ in _changes(statement):
                        lines[file, node.lineno] = None
    mutants: list[Mutant] = []
    for file, line in random_lines.sample(list(lines), len(lines)):
        on_line = [each for each in mutants_of(file, sources[file]) if each.line == line]
        if on_line:
            mutants.append(random_lines.choice(on_line))
        if len(mutants) == count:
            break
    return mutants


def outcome(mutant: Mutant, tree: Path, limit_s: float) -> str:
    """Return what noticed: `killed by TEST`, `killed by the time limit`, or `SURVIVED`.

    Tests that fail without the change, too, notice nothing: they are left out.
    """
    path = tree / mutant.file
    original = path.read_bytes()
    broken: list[str] = []
    while True:
        _write(path, mutant.apply(original))
        try:
            failed = _first_failure(near_tests(mutant.file), broken, tree, limit_s)
        except subprocess.TimeoutExpired:
            return "killed by the time limit"
        finally:
            _write(path, original)
        if failed is None:
            return "SURVIVED"
        if _first_failure([failed], [], tree, limit_s) is None:
            return f"killed by {failed}"
        broken.append(failed)


def _write(path: Path, source: bytes) -> None:
    path.write_bytes(source)
    # Python recompiles a file if its time or size differs, and both may be those of the last one.
    modified = path.stat().st_mtime + random.uniform(1, 1_000_000)
    os.utime(path, (modified, modified))


def _first_failure(tests: list[str], left_out: list[str], tree: Path, limit_s: float) -> str | None:
    """Return the first test that fails, or the file that cannot be collected; None if all pass.

    The limit is one of the processor's time, so that other work on the machine kills no mutant; a
    mutant that waits for ever ends after thirty times as long.
    """
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider"]
    deselected = [word for name in left_out for word in ("--deselect", name)]
    done = subprocess.run(
        [*command, "--no-header", "--tb=no", *deselected, *tests],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
        check=False,
        timeout=30 * limit_s,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (int(limit_s), -1)),
    )
    if done.returncode == 0:
        return None
    if done.returncode == -signal.SIGXCPU:
        raise subprocess.TimeoutExpired(command, limit_s)
    for line in done.stdout.splitlines():
        if line.startswith(("FAILED ", "ERROR ")):
            return line.partition(" ")[2].partition(" - ")[0]
    return tests[0]


def _copy_of_the_tree(folder: Path) -> Path:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    return folder


def main() -> None:
    """Draw mutants, run the tests near each, and print what noticed it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=25)
    parser.add_argument("--under", default="simkit", help="a folder or file: simkit/runtime")
    parser.add_argument("--limit", type=float, default=600, help="CPU seconds for a run of tests")
    options = parser.parse_args()
    killed = 0
    with TemporaryDirectory() as scratch:
        tree = _copy_of_the_tree(Path(scratch).resolve())
        mutants = drawn(options.seed, options.count, options.under)
        for number, mutant in enumerate(mutants, start=1):
            source = (tree / mutant.file).read_bytes()
            before = " ".join(source[mutant.start : mutant.end].decode().split())
            print(f"{number:2} {mutant.file}:{mutant.line}: {before[:80]} → {mutant.text[:90]}")
            started = time.monotonic()
            verdict = outcome(mutant, tree, options.limit)
            killed += verdict != "SURVIVED"
            print(f"   {verdict} ({time.monotonic() - started:.0f} s)", flush=True)
    print(f"{killed} of {len(mutants)} killed")


if __name__ == "__main__":
    main()
