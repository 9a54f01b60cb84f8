"""The house's numbers: short files, plain functions, no source that is made at run time."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LINES_MAX = 500
WAYS_MAX = 15
MAKES_SOURCE = {
    # Replace the code of a function, wherever it was imported to.
    "simkit/adapters/toolbox.py",
    "simkit/core/determinism/library_rng.py",
    # Runs a program in the globals of its module, as `python -m` does.
    "simkit/adapters/programs/program.py",
}
BRANCHES = re.compile(r"\b(?:if|elif|else|for|while|and|or|except|assert|case)\b")
"""A function of few ways has few of these words, which is quicker to see."""
Function = ast.FunctionDef | ast.AsyncFunctionDef


def sources() -> Iterator[tuple[str, str]]:
    """Yield each module's path and source."""
    for path in sorted((ROOT / "simkit").rglob("*.py")):
        yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")


def ways_through(function: Function) -> int:
    """Return a function's cyclomatic complexity, as radon counts it."""
    count = 1
    for node in nodes_in(function):
        match node:
            case ast.If() | ast.IfExp() | ast.ExceptHandler() | ast.Assert():
                count += 1
            case ast.For() | ast.AsyncFor() | ast.While():
                count += 1 + bool(node.orelse)
            case ast.Try():
                count += bool(node.orelse)
            case ast.comprehension():
                count += 1 + len(node.ifs)
            case ast.BoolOp():
                count += len(node.values) - 1
            case ast.Match():
                has_default = any(
                    isinstance(case.pattern, ast.MatchAs) and case.pattern.name is None
                    for case in node.cases
                )
                count += len(node.cases) - has_default
    return count


def nodes_in(parent: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function, without those of functions and classes inside it."""
    for node in ast.iter_child_nodes(parent):
        if not isinstance(node, Function | ast.ClassDef):
            yield node
            yield from nodes_in(node)


TOP = re.compile(r"^(?=(?:async )?def |class )", re.MULTILINE)
METHOD = re.compile(r"^(?=    (?:async )?def )", re.MULTILINE)


def may_wind(source: str) -> bool:
    """Return whether a function may have many ways, so that the file is worth parsing."""
    parts = (
        METHOD.split(each) if each.startswith("class ") else [each] for each in TOP.split(source)
    )
    return any(len(BRANCHES.findall(part)) >= WAYS_MAX for each in parts for part in each)


def functions_in(parent: ast.AST) -> Iterator[Function]:
    """Yield the functions below a node; they stand in statements, so no expression is read."""
    for node in ast.iter_child_nodes(parent):
        if isinstance(node, Function):
            yield node
        if isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
            yield from functions_in(node)


def test_files_are_short() -> None:
    lengths = {path: len(source.splitlines()) for path, source in sources()}

    long = {path: length for path, length in lengths.items() if length > LINES_MAX}
    assert not long


def test_functions_are_plain() -> None:
    functions = {
        f"{path}:{node.lineno} {node.name}": ways_through(node)
        for path, source in sources()
        if may_wind(source)
        for lines in [source.splitlines()]
        for node in functions_in(ast.parse(source))
        if len(BRANCHES.findall(" ".join(lines[node.lineno - 1 : node.end_lineno]))) >= WAYS_MAX
    }

    winding = {name: ways for name, ways in functions.items() if ways > WAYS_MAX}
    assert not winding


def test_few_modules_make_source() -> None:
    making = {
        path
        for path, source in sources()
        if "exec(" in source or "eval(" in source
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("exec", "eval")
    }

    assert making <= MAKES_SOURCE


@pytest.mark.parametrize(
    ("body", "ways"),
    [
        ("return a", 1),
        ("if a and b or c:\n  return 1\nelif d:\n  return 2\nelse:\n  return 3", 5),
        ("for x in a:\n  pass\nelse:\n  pass\nreturn [y for y in a if y]", 5),
        ("try:\n  pass\nexcept A:\n  pass\nexcept B:\n  pass\nelse:\n  pass", 4),
        ("match a:\n  case 1:\n    pass\n  case _:\n    pass", 2),
        ("def inner():\n  if a:\n    pass\nreturn b if a else c", 2),
    ],
)
def test_ways_through_a_function_are_counted(body: str, ways: int) -> None:
    source = "def f():\n" + "\n".join(f"  {line}" for line in body.splitlines())
    (function,) = ast.parse(source).body

    assert isinstance(function, ast.FunctionDef)
    assert ways_through(function) == ways
