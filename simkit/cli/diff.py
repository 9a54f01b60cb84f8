"""Implementation of ``simkit diff``: pair traces or run scenarios twice, compare, print."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from simkit import __version__
from simkit.cli.console import Progress, fit_terminal, output_to_stderr, paint_for, wants_color
from simkit.cli.selection import named_for, other_pipeline, select
from simkit.cli.traces import Identities, Stored, as_stored, stored, trace_files
from simkit.core.errors import SimkitError, SourceError, TraceError
from simkit.core.output import echo, echo_commands, echo_json
from simkit.language.yaml import Document
from simkit.report import diffs
from simkit.report.diff_lines import Sides
from simkit.report.last_run import FOLDER
from simkit.report.results import Result
from simkit.session.simulate import run
from simkit.spec.scenario.apps import App
from simkit.spec.scenario.files import Library, Prepared
from simkit.spec.scenario.implementing import scenarios_of
from simkit.spec.scenario.items import ScenarioCase, parted
from simkit.trace.diff.traces import TraceDiff, trace_diff, without


def tell(pairs: Iterable[diffs.Compared], sides: Sides, form: str) -> int:
    """Print the differences in the requested format; return the exit code."""
    rows = []
    fit_terminal()
    progress = Progress()
    progress.begin("comparing")
    paint = paint_for(wants_color() and form == "text")
    for pair in pairs:
        rows.append(pair)
        lines = list(diffs.pair_lines(pair, sides, paint)) if form == "text" else []
        progress.clear()
        if lines:
            echo("\n".join(lines) + "\n")
        progress.begin(f"comparing, {len(rows)} done")
    progress.end()
    if form == "json":
        echo_json(diffs.diff_json(rows, sides, __version__))
    elif form == "markdown":
        echo(diffs.diff_markdown(rows, sides))
    else:
        if form == "github":
            echo_commands(diffs.diff_annotations(rows, sides))
        echo(diffs.summary_line(rows, sides, paint))
    return diffs.exit_code(rows)


# Stored traces


def stored_pairs(left: str, right: str) -> Iterator[diffs.Compared]:
    """Yield the traces of two files or folders in pairs; ``""`` is the last run.

    Raise TraceError if there are none.
    """
    mine, its = trace_files(left), _last_run() if not right else trace_files(right)
    if Path(left).is_dir() != Path(right or FOLDER).is_dir():
        raise TraceError(
            f"{left}, {right or FOLDER}: one is a folder; compare two traces or two folders"
        )
    if not Path(left).is_dir():
        return iter([_compared(mine[0], its[0], Identities())])
    identities = Identities()
    return (_compared(*files, identities) for files in _paired(mine, its))


def _last_run() -> list[str]:
    try:
        return trace_files(FOLDER)
    except TraceError:
        raise TraceError(
            f"{FOLDER}: there is no trace of an earlier run\n  Run `simkit replay` first."
        ) from None


def _paired(left_files: Sequence[str], right: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the files of the same scenario: with the same name, else the only one for that name."""
    its = {Path(file).name: file for file in right}
    pairs = {file: its.pop(Path(file).name, "") for file in left_files}
    left = [file for file, others in pairs.items() if not others]
    names, its_names = _by_scenario(left), _by_scenario(its.values())
    for name, files in names.items():
        if len(files) == 1 and len(its_names.get(name, ())) == 1:
            pairs[files[0]] = its_names[name][0]
            its.pop(Path(its_names[name][0]).name)
    yield from pairs.items()
    yield from (("", file) for file in its.values())


def _by_scenario(files: Iterable[str]) -> dict[str, list[str]]:
    entries_by_name: dict[str, list[str]] = {}
    for file in files:
        with contextlib.suppress(TraceError):
            entries_by_name.setdefault(stored(file).started.scenario, []).append(file)
    return entries_by_name


def _compared(left: str, right: str, identities: Identities) -> diffs.Compared:
    identity = identities.of(right or left) or identities.of(left or right)
    file = parted(identity)[0]
    line = identities.line_of(identity) if identity else 0
    try:
        mine, its = (stored(path) if path else None for path in (left, right))
    except TraceError as problem:
        return diffs.Compared(
            identity or right or left, (left, right), None, str(problem), file, line
        )
    names = dict.fromkeys(trace.started.scenario for trace in (mine, its) if trace is not None)
    name = identity or " → ".join(names)
    diff = None if mine is None or its is None else trace_diff(mine.view, its.view)
    return diffs.Compared(name, (left, right), diff, "", file, line)


# Two pipelines


def on_two_pipelines(path: str, pipeline: str) -> tuple[Iterator[diffs.Compared], Sides]:
    """Yield scenarios run on their own pipeline and on another; nothing is kept.

    If the other pipeline implements theirs, its declared differences are left out, and a declared
    difference that no scenario shows is an error. Raise SourceError if there is no scenario at the
    path.
    """
    library = Library()
    entries = select([path], library.cache).entries
    if not entries:
        raise SourceError(path, "there is no `*.scenario.yaml` file with a scenario")
    return _Pairs(pipeline, library).of(entries), Sides("its own pipeline", pipeline)


class _Pairs:
    """Runs scenarios on two pipelines."""

    def __init__(self, pipeline: str, library: Library) -> None:
        self._pipeline, self._library = pipeline, library
        self._others: dict[str, tuple[Document, App, set[str]]] = {}
        """File of an implementing pipeline to the pipeline, and its declared differences that
        occurred."""

    def of(self, entries: Sequence[ScenarioCase | Result]) -> Iterator[diffs.Compared]:
        """Yield every scenario's two runs, then the declared differences that did not occur."""
        for entry in entries:
            yield self._pair(entry)
        compared = {
            os.path.realpath(known_entry.file) + known_entry.name for known_entry in entries
        }
        for document, app, scenarios_compared in self._others.values():
            every = scenarios_of(app, self._library.cache).values()
            yield from _stale(document, app, every, scenarios_compared, compared)

    def _pair(self, entry: ScenarioCase | Result) -> diffs.Compared:
        if isinstance(entry, Result):
            return diffs.Compared(entry.id, ("", ""), None, entry.error, entry.file, entry.line)
        comparison = diffs.Compared(entry.id, ("", ""), None, "", entry.file, entry.line)
        named = named_for(entry.file, self._pipeline, self._library.cache)
        try:
            own = self._library.prepared(entry)
        except SimkitError as problem:
            return replace(comparison, error=str(problem))
        try:
            other = other_pipeline(entry, named, self._library)
            reason = other.standing.other or other.standing.left_out
            if reason or other.prepared is None:
                return replace(comparison, left_out=reason)
            mine, its = (_ran(prepared, entry.id) for prepared in (own, other.prepared))
        except SimkitError as problem:
            return replace(comparison, error=f"with --pipeline {self._pipeline}\n{problem}")
        diff = self._undeclared(trace_diff(mine.view, its.view), other.prepared)
        return replace(comparison, sources=(_source(own), _source(other.prepared)), diff=diff)

    def _undeclared(self, diff: TraceDiff, other: Prepared) -> TraceDiff:
        app, document = other.pipeline, other.pipeline_document
        if not isinstance(app, App) or app.implements is None:
            return diff
        _, _, scenarios_compared = self._others.setdefault(document.file, (document, app, set()))
        rest, remaining = without(diff, app.implements.differs)
        scenarios_compared.update(remaining)
        return rest


def _stale(
    document: Document,
    app: App,
    scenarios: Iterable[ScenarioCase],
    scenario_names: set[str],
    compared: set[str],
) -> Iterator[diffs.Compared]:
    """Yield the declared differences that no scenario shows, if all were compared."""
    assert app.implements is not None
    every = {os.path.realpath(scenario.file) + scenario.name for scenario in scenarios}
    if not every <= compared:
        return
    for at in app.implements.differs:
        if at not in scenario_names:
            where = document.position(("implements", "differs", at), key=True)
            error = f"{where}: `{at}` is declared to differ, and does not in any scenario"
            yield diffs.Compared(document.file, ("", ""), None, error, document.file)


def _ran(prepared: Prepared, name: str) -> Stored:
    with output_to_stderr():
        return as_stored(name, run(prepared))


def _source(prepared: Prepared) -> str:
    return f"{prepared.pipeline.pipeline} ({os.path.normpath(prepared.pipeline_document.file)})"
