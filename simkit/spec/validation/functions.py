"""Missing functions that files name, found without running any module.

A module is searched where a run would search it, and its file is parsed. If the file does not show
which names the module has, nothing is reported.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from simkit.language.yaml import SourcePath, near
from simkit.spec.pipeline.model import Pipeline
from simkit.spec.scenario.model import Scenario
from simkit.spec.scenario.replies import ReplyLine, lines_of
from simkit.spec.validation.problems import Flaw

Named = tuple[SourcePath, str]
"""A function's name, and its path."""

_ANY: Final = frozenset("*")
"""The names of a module that cannot be known without running it."""
_DYNAMIC: Final = ("globals(", "exec(", "sys.modules", "__path__")


def missing_functions(pipeline: Pipeline) -> Iterator[Flaw]:
    """Yield VAL-26: an agent, a tool or a reducer names a missing function."""
    agents, tools = pipeline.agents.items(), pipeline.tools.items()
    yield from _flaws(
        (("agents", name, "function"), agent.function or "") for name, agent in agents
    )
    yield from _flaws((("tools", name, "function"), agent.function or "") for name, agent in tools)
    for name, channel in pipeline.channels.items():
        yield from _flaws([(("channels", name, "reducer"), channel.reducer_name)])


def missing_in_scenario(scenario: Scenario) -> Iterator[Flaw]:
    """Yield VAL-26: a reply line or a `satisfies` names a missing function."""
    yield from _flaws(_satisfies(("expect", "satisfies"), scenario.expect.satisfies))
    for index, turn in enumerate(scenario.turns):
        at: SourcePath = ("turns", index)
        yield from _flaws(_satisfies((*at, "expect", "satisfies"), turn.expect.satisfies))
        for agent, reply_lines in turn.replies.items():
            yield from _flaws(_in_lines((*at, "replies", agent), reply_lines))


def _satisfies(at: SourcePath, names: str | Sequence[str] | None) -> Iterator[Named]:
    if isinstance(names, str):
        yield at, names
    else:
        yield from (((*at, index), name) for index, name in enumerate(names or ()))


def _in_lines(at: SourcePath, reply_lines: ReplyLine | tuple[ReplyLine, ...]) -> Iterator[Named]:
    for index, line in enumerate(lines_of(reply_lines)):
        where = (*at, index) if isinstance(reply_lines, tuple) else at
        yield (*where, "function"), line.function or ""


def _flaws(named: Iterable[Named]) -> Iterator[Flaw]:
    for path, name in named:
        if ":" in name and (lack := _lack(name, str(Path.cwd()))):
            yield Flaw("VAL-26", path, f"function `{name}`: {lack}")


@lru_cache(maxsize=1024)
def _lack(name: str, folder: str) -> str:
    """Return why a function is missing; empty if it exists, or if that cannot be known."""
    module, _, function = name.partition(":")
    file = _file(module, folder)
    if file is None:
        return f"there is no module {module!r}"
    names = _names(file) if file.suffix == ".py" else _ANY
    if isinstance(names, SyntaxError):
        return f"{file.name}, line {names.lineno}, is no Python: {names.msg}"
    if function in names or names & _ANY:
        return ""
    nearest = near(function, names)
    hint = f"; did you mean {nearest!r}?" if nearest else ""
    return f"module {module!r} has no function {function!r}{hint}"


def _file(module: str, search_folder: str) -> Path | None:
    """Return a module's file, some other path if it has none; None if there is no such module."""
    head, *rest = module.split(".")
    spec = _spec(head, search_folder)
    if spec is None:
        return None
    if not rest:
        return Path(spec.origin or search_folder)
    if spec.submodule_search_locations is None:
        return None
    for folder in spec.submodule_search_locations:
        place = Path(folder, *rest)
        for file in (place.with_name(f"{place.name}.py"), place / "__init__.py"):
            if file.is_file():
                return file
        if place.is_dir() or any(place.parent.glob(f"{place.name}.*")):
            return place
    # A package can load its modules from elsewhere.
    is_plain = spec.origin is None or _names(Path(spec.origin)) != _ANY
    return None if is_plain else Path(search_folder)


def _spec(head: str, folder: str) -> ModuleSpec | None:
    try:
        return PathFinder.find_spec(head, [folder]) or find_spec(head)
    except ValueError:
        # It is imported, and does not show from where.
        return ModuleSpec(head, None)


def _names(file: Path) -> frozenset[str] | SyntaxError:
    """Return the names that a module binds when it is run, or its syntax error."""
    try:
        text = file.read_text(encoding="utf-8")
        body = ast.parse(text).body
    except SyntaxError as problem:
        return problem
    except (OSError, ValueError):
        return _ANY
    names = frozenset(_bound(body))
    return _ANY if "__getattr__" in names or any(word in text for word in _DYNAMIC) else names


def _bound(body: Iterable[ast.AST]) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.alias):
            yield (node.asname or node.name).partition(".")[0]
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        else:
            yield from _bound(ast.iter_child_nodes(node))
