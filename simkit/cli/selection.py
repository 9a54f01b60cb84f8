"""Selection of scenarios: paths, ``PATH::NAME``, ``-k``, the last failed ones; and of pipelines."""

from __future__ import annotations

import ast
import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from simkit.checks.findings import CLAIM, Finding
from simkit.core.errors import SimkitError, SourceError
from simkit.core.text import late_pattern
from simkit.language.yaml import Document, DocumentCache, near, text_of
from simkit.report.results import Result
from simkit.spec.scenario import items as scenario_items
from simkit.spec.scenario.apps import HOLDS, App, Standing, standing
from simkit.spec.scenario.files import Library, Prepared
from simkit.spec.scenario.known import Subject

Holds = Callable[[str], bool]

_TOKEN: Final = late_pattern(r"""[()]|"([^"]*)"|'([^']*)'|([^\s()"']+)""")


def keyword(expression: str) -> Holds:
    """Return whether an id fits the expression; case does not matter.

    A word with spaces is quoted. Raise SimkitError for an invalid expression.
    """
    words: list[str] = []

    def as_python(match: re.Match[str]) -> str:
        if match[0].lower() in ("(", ")", "and", "or", "not"):
            return f" {match[0].lower()} "
        words.append((match[1] or match[2] or match[3] or "").lower())
        return f" word{len(words) - 1} "

    try:
        tree = ast.parse(_TOKEN.sub(as_python, expression).strip(), mode="eval").body
        _holds(tree, words, "")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise SimkitError(
            f"-k {expression!r}: this is no expression\n"
            "  Write words joined with `and`, `or`, `not` and brackets; quote a word with spaces."
        ) from None
    return lambda identity: _holds(tree, words, identity.lower())


def _holds(node: ast.expr, words: Sequence[str], text: str) -> bool:
    match node:
        case ast.BoolOp(op=operator, values=values):
            parts = [_holds(value, words, text) for value in values]
            return all(parts) if isinstance(operator, ast.And) else any(parts)
        case ast.UnaryOp(operand=operand):
            return not _holds(operand, words, text)
        case ast.Name(id=name):
            return words[int(name.removeprefix("word"))] in text
    raise ValueError("an expression joins words")


# pytest's configured test folders, for commands without paths


_FILES: Final = (
    ("pytest.toml", ("pytest",)),
    (".pytest.toml", ("pytest",)),
    ("pytest.ini", ("pytest",)),
    (".pytest.ini", ("pytest",)),
    ("pyproject.toml", ("tool", "pytest", "ini_options")),
    ("pyproject.toml", ("tool", "pytest")),
    ("tox.ini", ("pytest",)),
    ("setup.cfg", ("tool:pytest",)),
)
"""Files in which pytest searches for its configuration, in order, each with the table."""


def configured_paths(folder: str) -> list[str]:
    """Return the existing `testpaths` of a folder's pytest configuration."""
    for name, table in _FILES:
        file = Path(folder, name)
        if file.is_file():
            setting = _setting(file, table)
            if setting:
                return [path for pattern in setting for path in _paths_there(folder, pattern)]
    return []


def _paths_there(folder: str, pattern: str) -> list[str]:
    # Only a command without paths reads configuration.
    import glob

    return sorted(str(Path(path)) for path in glob.glob(str(Path(folder, pattern)), recursive=True))


def _setting(file: Path, table: Sequence[str]) -> list[str]:
    """Return a file's setting; raise SourceError for a file that is damaged."""
    # Only a command without paths reads configuration.
    import tomllib

    from iniconfig import IniConfig, ParseError

    try:
        text = file.read_text(encoding="utf-8")
        if file.suffix == ".toml":
            options: Any = tomllib.loads(text)
            for key in (*table, "testpaths"):
                options = options.get(key) if isinstance(options, dict) else None
            setting = options if isinstance(options, str | list) else []
        else:
            setting = IniConfig(str(file), text).get(table[0], "testpaths", "")
        return shlex.split(setting) if isinstance(setting, str) else [str(path) for path in setting]
    except (OSError, ValueError, ParseError) as problem:
        advice = "Mend it, or name the paths of scenarios, so that it is not read."
        raise SourceError(str(file), f"it cannot be read: {problem}", advice=advice) from None


# Selection of scenarios: paths, ``PATH::NAME``, ``-k``, and those that failed last time


DEFAULT_PATH: Final = "scenarios"
"""The default folder."""
SelectedEntry: TypeAlias = scenario_items.ScenarioCase | Result
"""A scenario to run, or the result of an unreadable file."""


class Selection(msgspec.Struct, frozen=True):
    """The selected scenarios, in the order of the command and of the files."""

    entries: tuple[SelectedEntry, ...]
    deselected: int = 0
    """The number of scenarios that do not fit ``-k`` or did not fail."""
    by_name: bool = False
    """Whether the user named every scenario."""

    @property
    def items(self) -> list[scenario_items.ScenarioCase]:
        """Return the scenarios that can run."""
        return [entry for entry in self.entries if isinstance(entry, scenario_items.ScenarioCase)]


def paths_or_default(paths: Sequence[str]) -> Sequence[str]:
    """Return the given paths; else pytest's `testpaths` with scenarios, else `scenarios`.

    Raise SourceError if that does not exist.
    """
    if not paths:
        paths = [
            path
            for path in configured_paths(".")
            if path.endswith(scenario_items.SCENARIO_SUFFIX)
            or any(Path(path).rglob(f"*{scenario_items.SCENARIO_SUFFIX}"))
        ]
    if not paths and not Path(DEFAULT_PATH).exists():
        raise SourceError(
            DEFAULT_PATH,
            "there is no such folder, and the command names no other",
            advice="Name files or folders (`.` is this one), set pytest's `testpaths`, or begin "
            "with `simkit init`.",
        )
    return paths or (DEFAULT_PATH,)


def select(
    paths: Sequence[str], cache: DocumentCache | None = None, *, expression: str = ""
) -> Selection:
    """Return the scenarios in the paths that fit ``-k``; an invalid file gives its own result.

    A caller that runs them passes the cache of documents.
    Raise SourceError for a path or name that does not exist.
    """
    cache = DocumentCache() if cache is None else cache
    entries = {entry.id: entry for path in paths for entry in _at(path, cache)}.values()
    fits = keyword(expression) if expression else None
    kept_entries = tuple(
        entry
        for entry in entries
        if fits is None or isinstance(entry, Result) or fits(" ".join((entry.id, *entry.tags)))
    )
    by_name = all(scenario_items.parted(path)[1] for path in paths)
    return Selection(kept_entries, len(entries) - len(kept_entries), by_name)


def only(
    selection: Selection, identities: Iterable[str], safe: Callable[[str], str] = str
) -> Selection:
    """Return the scenarios of a selection with one of the ids, compared after ``safe``."""
    wanted_ids = set(identities)
    entries_kept = tuple(entry for entry in selection.entries if safe(entry.id) in wanted_ids)
    left_out = selection.deselected + len(selection.entries) - len(entries_kept)
    return Selection(entries_kept, left_out, selection.by_name)


def _at(path: str, cache: DocumentCache) -> Iterator[SelectedEntry]:
    target, name = scenario_items.parted(path)
    items: list[scenario_items.ScenarioCase] = []
    for file in scenario_items.scenario_files(target):
        try:
            entries_there = scenario_items.items_in(file, cache)
        except SourceError as problem:
            path = scenario_items.readable(file)
            yield Result(path, path, 1, "", "broken", error=str(problem))
            continue
        items += entries_there
        if not name:
            yield from entries_there
    if name:
        yield from scenario_items.items_named(target, items, name)


def paths_of(identities: Iterable[str]) -> list[str]:
    """Return the existing files of ids, each once."""
    files = dict.fromkeys(scenario_items.parted(identity)[0] for identity in identities)
    return [file for file in files if Path(file).exists()]


# Scenarios on another pipeline than their own


class Other(msgspec.Struct, frozen=True):
    """A scenario on another pipeline than its own."""

    prepared: Prepared | None
    """The scenario there; None if it does not run there, or the pipeline leaves it out."""
    standing: Standing = HOLDS


def other_pipeline(item: scenario_items.ScenarioCase, named: str, library: Library) -> Other:
    """Return a scenario on the pipeline of this name.

    Raise SourceError for errors there.
    """
    pipeline_file = _standing(item, named, library)
    if pipeline_file.other:
        return Other(None, pipeline_file)
    try:
        return Other(on_pipeline(item, named, library), pipeline_file)
    except SourceError:
        if not pipeline_file.left_out:
            raise
        return Other(None, pipeline_file)


def _standing(item: scenario_items.ScenarioCase, named: str, library: Library) -> Standing:
    """Return whether a scenario runs on the pipeline of this name."""
    if not named.endswith(scenario_items.PIPELINE_SUFFIX):
        return HOLDS
    folder = Path(item.file).parent
    if os.path.realpath(folder / named) == os.path.realpath(folder / item.pipeline):
        return HOLDS  # It is the scenario's own pipeline.
    subject, _ = pipeline_in(str(folder / named), library)
    return standing(item, subject) if isinstance(subject, App) else HOLDS


def pipeline_in(file: str, library: Library) -> tuple[Subject, Document]:
    """Return a file's only pipeline, with its document; raise SourceError."""
    documents = library.documents(file)
    if len(documents) != 1:
        raise SourceError(file, f"holds {len(documents)} documents, but must hold one pipeline")
    return library.subject(documents[0]), documents[0]


def turned(result: Result, standing: Standing, pipeline: str) -> Result:
    """Return the result of a scenario that a pipeline leaves out: its failure is expected."""
    result = msgspec.structs.replace(result, on=pipeline)
    if standing.left_out and result.failed:
        return msgspec.structs.replace(
            result, outcome="xfailed", findings=(), error="", reason=standing.left_out
        )
    if not standing.left_out or result.outcome != "held":
        return result
    finding = Finding(
        CLAIM,
        "E",
        f"the scenario holds on {pipeline}, but `leaves_out` has it: {standing.left_out}",
        f"{result.file}:{result.line}:1",
        (),
        fix="Take it out of `leaves_out`.",
    )
    return msgspec.structs.replace(result, outcome="failed", findings=(finding,))


def on_pipeline(item: scenario_items.ScenarioCase, named: str, library: Library) -> Prepared:
    """Return a scenario ready to run on the pipeline of this name.

    Raise SourceError for errors there.
    """
    document = library.documents(item.file)[item.index]
    return library.assembled(item, document.with_data({**document.data, "pipeline": named}))


def named_for(file: str, pipeline: str, cache: DocumentCache | None = None) -> str:
    """Return the name of a pipeline in a scenario of the file: a file, or a name.

    A name is searched in the scenario's file, then in the pipeline files beside it.
    """
    folder = Path(file).parent
    if ":" in pipeline:
        return pipeline
    if pipeline.endswith(scenario_items.PIPELINE_SUFFIX):
        if not Path(pipeline).is_file():
            raise scenario_items.missing(pipeline, scenario_items.PIPELINE_SUFFIX)
        return os.path.relpath(pipeline, folder)
    cache = DocumentCache() if cache is None else cache
    names_here = pipelines_in(file, cache)
    if pipeline in names_here:
        return pipeline
    names_beside = {
        name: target.name
        for target in sorted(folder.glob(f"*{scenario_items.PIPELINE_SUFFIX}"))
        for name in pipelines_in(str(target), cache)
    }
    if pipeline not in names_beside:
        known = (*dict.fromkeys((*names_here, *names_beside)),)
        raise SourceError(
            file,
            f"--pipeline: there is no pipeline `{pipeline}` in this file or beside it",
            near=near(pipeline, known),
            known=known,
        )
    return names_beside[pipeline]


def pipelines_in(file: str, cache: DocumentCache) -> list[str]:
    """Return the names of the pipelines that a file declares; raise SourceError."""
    values = (head.values for head in cache.heads(file) if scenario_items.is_pipeline(head.values))
    return [str(text_of(value["pipeline"])) for value in values]
