"""Findings of validation: a flaw at a path of its document, and a problem at a place of a file;
functions that files name, and that are missing."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import msgspec
from pydantic import BaseModel

from simkit.core.errors import SourceError
from simkit.core.text import guess
from simkit.language.yaml import Document, SourcePath, path_text
from simkit.spec.lint_catalogue import CODES, PREFIX
from simkit.spec.loading import validated
from simkit.spec.pipeline.model import Pipeline
from simkit.spec.pipeline.models import WHOLE, names_place, places_off
from simkit.spec.scenario.files import Library
from simkit.spec.scenario.model import Scenario, Shared
from simkit.spec.scenario.replies import placed_lines
from simkit.spec.scenario.simulations import Simulation

_OF_FOLDERS: Final = ("VAL-14", "VAL-25", "VAL-30", "VAL-31", "VAL-32")
"""Findings that are only reported for a folder that is checked as a whole."""


class Flaw(msgspec.Struct, frozen=True):
    """One flaw of a document."""

    code: str
    path: SourcePath
    what: str
    advice: str = ""
    """The advice; empty if the catalogue's text is enough."""
    key: bool = False
    """Whether the key at the path is wrong, not its value."""


class Problem(msgspec.Struct, frozen=True):
    """One problem of a file."""

    code: str
    where: str
    """``file:line:column``."""
    what: str
    at: str = ""
    """The path inside the document."""
    near: str = ""
    known: tuple[str, ...] = ()
    advice: str = ""

    @property
    def severity(self) -> str:
        """Return ``E`` or ``W``."""
        return CODES[self.code].severity

    @property
    def text(self) -> str:
        """Return the whole text, in the form of every error of a file."""
        lead = "warning " if self.severity == "W" else ""
        problem = f"{lead}{self.code}: {self.what}"
        return str(SourceError(self.where, problem, self.at, self.near, self.known, self.advice))


class Report(msgspec.Struct, frozen=True):
    """The number of checked files, and their problems."""

    files: int
    scenarios: int
    """The number of scenarios; rows of tables count one by one."""
    problems: tuple[Problem, ...]
    """The problems in the order of files and lines."""
    turned_off: int = 0
    """The number of findings that the files turn off."""

    def count(self, severity: str) -> int:
        """Return the number of problems of a severity."""
        return sum(problem.severity == severity for problem in self.problems)


class Problems:
    """A collection of problems, each once, without those that their document turns off."""

    def __init__(self) -> None:
        self._problems_found: dict[Problem, None] = {}
        self._off: set[tuple[str, int, str, SourcePath]] = set()
        self._documents: dict[tuple[str, int], Document] = {}
        self._used: set[tuple[str, int, str, str]] = set()
        """Document, code and place of each entry under ``lints`` that turned a finding off."""

    def refuse(self, code: str, problem: SourceError) -> None:
        """Add the error that keeps a file from running."""
        p = problem
        self._problems_found[Problem(code, p.where, p.what, p.at, p.near, p.known, p.advice)] = None

    def add(self, document: Document, flaws: Iterable[Flaw]) -> None:
        """Add the flaws of a document."""
        waivers = waivers_of(document)
        key = document.file, document.index
        self._documents[key] = document
        for flaw in flaws:
            where = document.position(flaw.path, flaw.key)
            places = [
                place
                for place in waivers.get(flaw.code, ())
                if place == WHOLE or names_place((where, flaw.what, path_text(flaw.path)), place)
            ]
            if places:
                self._off.add((*key, flaw.code, flaw.path))
                self._used.update((*key, flaw.code, place) for place in places)
                continue
            self._tell(document, flaw)

    def _tell(self, document: Document, flaw: Flaw) -> None:
        where = document.position(flaw.path, flaw.key)
        # A flaw in a repeated turn is reported once.
        at = path_text(document.written_at(flaw.path))
        advice = flaw.advice or CODES[flaw.code].fix
        self._problems_found[Problem(flaw.code, where, flaw.what, at, advice=advice)] = None

    def report(self, files: Iterable[str], scenarios: int) -> Report:
        """Return the report, in the order of the files; other files come last."""
        order = {file: number for number, file in enumerate(files)}
        for key, document in self._documents.items():
            for code, named in places_off(waivers_of(document)):
                is_told = code.startswith(PREFIX) and code not in _OF_FOLDERS
                if is_told and (*key, code, named) not in self._used:
                    note = f"`{code}` was not found at `{named}`, so nothing is turned off there"
                    self._tell(document, Flaw("VAL-33", ("lints", code, named), note, key=True))

        def place(problem: Problem) -> tuple[int, str, int, int]:
            file, line, column = place_of(problem.where)
            return order.get(file, len(order)), file, line, column

        return Report(
            len(order), scenarios, tuple(sorted(self._problems_found, key=place)), len(self._off)
        )


def waivers_of(document: Document) -> dict[str, dict[str, str]]:
    """Return a document's waivers, by code and place."""
    lints = document.data.get("lints") if isinstance(document.data, Mapping) else None
    if not isinstance(lints, Mapping):
        return {}
    return {
        str(code): dict(off) if isinstance(off, Mapping) else {WHOLE: str(off)}
        for code, off in lints.items()
    }


def place_of(where: str) -> tuple[str, int, int]:
    """Return file, line and column of `file:line:column`; 0 for a missing number."""
    file, *numbers = where.rsplit(":", 2)
    if len(numbers) == 2 and all(number.isdigit() for number in numbers):
        return file, int(numbers[0]), int(numbers[1])
    return where, 0, 0


# The code of an error that keeps a file from running, by its place and its kind


_NAMES: Final = ("there is no ", "has no tool ", "leads nowhere", "in this file")
"""Beginnings of errors about names that list no known ones."""


def code_of(problem: SourceError, library: Library) -> str:
    """Return the code of an error; only used for files with errors."""
    file, _, _ = place_of(problem.where)
    try:
        documents = library.documents(file)
    except SourceError:
        return "VAL-01"
    if any(_is_of_shape(problem, document) for document in documents):
        return "VAL-02"
    if not problem.at:
        return "VAL-01"
    if problem.known or problem.near or any(words in problem.what for words in _NAMES):
        return "VAL-03"
    return "VAL-04" if problem.at.startswith("flow.graph") else "VAL-05"


def _is_of_shape(problem: SourceError, document: Document) -> bool:
    try:
        validated(_model_of(document), document)
    except SourceError as other:
        return (other.where, other.what) == (problem.where, problem.what)
    return False


def _model_of(document: Document) -> type[BaseModel]:
    data = document.data
    if not isinstance(data, Mapping) or "scenario" in data:
        return Scenario
    if "simulation" in data:
        return Simulation
    return Pipeline if "pipeline" in data else Shared


# Missing functions that files name, found without running any module.
#
# A module is searched where a run would search it, and its file is parsed. If the file does not
# show which names the module has, nothing is reported.


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
            lines = placed_lines(reply_lines, (*at, "replies", agent))
            yield from _flaws(((*path, "function"), line.function or "") for path, line in lines)


def _satisfies(at: SourcePath, names: str | Sequence[str] | None) -> Iterator[Named]:
    if isinstance(names, str):
        yield at, names
    else:
        yield from (((*at, index), name) for index, name in enumerate(names or ()))


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
    hint = guess(function, names, "; did you mean `{}`?")
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
        path = Path(folder, *rest)
        for file in (path.with_name(f"{path.name}.py"), path / "__init__.py"):
            if file.is_file():
                return file
        if path.is_dir() or any(path.parent.glob(f"{path.name}.*")):
            return path
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
