"""Stored traces: find and read them, and find their scenarios."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from simkit import __version__
from simkit.checks.lints import LintRunner
from simkit.cli.console import Progress, fit_terminal, output_to_stderr, paint_for, wants_color
from simkit.cli.selection import DEFAULT_PATH, named_for, other_pipeline, select
from simkit.core.errors import SimkitError, SourceError, TraceError
from simkit.core.output import current_redactor, echo, echo_commands, echo_json
from simkit.core.text import counted, guess
from simkit.language.yaml import Document, DocumentCache
from simkit.report import diffs
from simkit.report.diff_lines import Sides
from simkit.report.last_run import FOLDER, Ledger, failure_text, slug
from simkit.report.results import Result
from simkit.session.simulate import run
from simkit.spec.scenario.apps import App, scenarios_of
from simkit.spec.scenario.files import Library, Prepared
from simkit.spec.scenario.items import ScenarioCase, items_in, missing, parted
from simkit.trace import events as e
from simkit.trace.diff.traces import TraceDiff, trace_diff, without
from simkit.trace.store import Trace, read_trace, redacted
from simkit.trace.views import View

SUFFIX: Final = ".jsonl"
NAMES_MAX: Final = 6
"""The number of scenarios in an error."""


class Stored(msgspec.Struct, frozen=True):
    """A trace with its file, its view and its metadata."""

    file: str
    trace: Trace
    runner: LintRunner
    """Its view, and what lints saw."""

    @property
    def view(self) -> View:
        """The views on it."""
        return self.runner.view

    @property
    def started(self) -> e.RunStarted:
        """Return the run's first event."""
        started = self.view.started
        assert started is not None
        return started


def trace_files(path: str) -> list[str]:
    """Return the traces of a folder, sorted; a file is returned as it is.

    A folder may be `.simkit`, or contain it. Raise TraceError if there is no trace.
    """
    address = Path(path)
    if not address.is_dir():
        if path == FOLDER:
            raise _no_earlier_run()
        if not address.exists():
            raise TraceError(str(missing(path, SUFFIX)))
        return [path]
    for folder in (address, address / FOLDER):
        if listed := _listed(folder):
            return listed
    for folder in (address, address / "traces", address / FOLDER / "traces"):
        files = sorted(str(file) for file in folder.glob(f"*{SUFFIX}"))
        if files:
            return files
    if path == FOLDER:
        raise _no_earlier_run()
    raise TraceError(f"{path}: there is no trace in this folder, no file `*{SUFFIX}`")


def _no_earlier_run() -> TraceError:
    return TraceError(
        f"{FOLDER}: there is no trace of an earlier run\n"
        "  Run `simkit replay` first, or name a trace."
    )


def _listed(folder: Path) -> list[str]:
    """Return the traces of the last run, by its own list: one may be gone."""
    try:
        last = Ledger(folder).last()
    except OSError as problem:
        raise TraceError(f"{folder}: {failure_text(problem)}") from None
    if last is None:
        return []
    if last.unkept:
        tests = counted(last.unkept, "test")
        echo(f"{folder} holds no trace of the {tests} with `sim` that pytest ran last", err=True)
    names = [Path(entry.trace).name for entry in last.scenarios if entry.trace]
    return sorted(str(folder / "traces" / name) for name in names)


@contextmanager
def unchanged(paths: Sequence[str]) -> Iterator[None]:
    """Keep other runs from replacing the last one while its traces are read."""
    with ExitStack() as stack:
        for path in dict.fromkeys(paths):
            for folder in (Path(path), Path(path) / FOLDER):
                if (folder / "last.json").is_file():
                    # Without a lock, as in another user's folder, nobody writes.
                    with suppress(OSError):
                        stack.enter_context(Ledger(folder).locked())
        yield


def stored(file: str, *, with_lints: bool = False) -> Stored:
    """Read a trace; raise TraceError if it is damaged, cut off, or of another format."""
    return as_stored(file, read_trace(file), with_lints=with_lints)


def as_stored(name: str, trace: Trace, *, with_lints: bool = False) -> Stored:
    """Return a trace with its view, and without secrets; raise TraceError if it is damaged."""
    trace = redacted(trace, current_redactor().lines)
    events = trace.events
    if not events or not isinstance(events[0], e.RunStarted):
        raise TraceError(f"{name}: the trace is damaged: its first event must be RunStarted")
    runner = LintRunner(_ViewOfFile(name), chosen=None if with_lints else ())
    runner.feed(trace)
    if not isinstance(events[-1], e.RunFinished):
        raise TraceError(
            f"{name}: the trace is cut off: it ends with {e.kind_of(events[-1])}, not RunFinished"
        )
    return Stored(name, trace, runner)


class _ViewOfFile(View):
    """A view that names the line of an event that does not fit what came before."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def read(self, event: e.AnyEvent) -> None:
        """Take the next event into account; raise TraceError if it does not fit."""
        try:
            super().read(event)
            self._states.read()
        # A view trusts its trace. A changed trace may raise anywhere in it.
        except (LookupError, TypeError, ValueError, AttributeError, AssertionError):
            where, kind = f"{self._name}:{self.hi + 1}", e.kind_of(event)
            raise TraceError(
                f"{where}: the trace is damaged: this {kind} does not fit what came before"
            ) from None


class Identities:
    """The scenarios of traces, by the `.simkit/last.json` beside them."""

    def __init__(self, cache: DocumentCache | None = None) -> None:
        self._cache = DocumentCache() if cache is None else cache
        self._recorded: dict[Path, dict[str, str]] = {}
        self._lines: dict[str, dict[str, int]] = {}

    def of(self, file: str) -> str:
        """Return the ``file::name`` of a trace's scenario; empty if it is not recorded."""
        path = Path(file)
        last = path.parent.parent / "last.json"
        if last not in self._recorded:
            self._recorded[last] = _recorded(last)
        return self._recorded[last].get(path.name, "")

    def line_of(self, identity: str) -> int:
        """Return the line of a scenario in its file; 0 if it does not exist."""
        file, name = parted(identity)
        if file not in self._lines:
            try:
                self._lines[file] = {item.name: item.line for item in items_in(file, self._cache)}
            except SourceError:
                self._lines[file] = {}
        return self._lines[file].get(name, 0)


def _recorded(last_json: Path) -> dict[str, str]:
    with suppress(OSError):
        last = Ledger(last_json.parent).last()
        entries = last.scenarios if last is not None else ()
        return {Path(entry.trace).name: entry.id for entry in entries if entry.trace}
    return {}


class Scenarios:
    """Finds the scenarios of traces; reads each file once."""

    def __init__(self, cache: DocumentCache, question: str = "") -> None:
        """``question`` is the user's ``PATH[::NAME]``, which applies to all traces."""
        self._cache, self._question, self._identities = cache, question, Identities(cache)
        self._items_by_file: dict[str, list[ScenarioCase]] = {}

    def is_of_feature(self, file: str) -> bool:
        """Return whether a trace is of a feature's story, which no question replaces."""
        return not self._question and ".feature::" in self._identities.of(file)

    def item_of(self, trace: Stored) -> ScenarioCase:
        """Return a trace's scenario; raise SourceError with the searched places."""
        name = trace.started.scenario
        if self._question:
            return self._chosen(trace, self._question, name)
        file, identity = parted(self._identities.of(trace.file))
        if file:
            if not Path(file).exists():
                raise self._missing(trace, name, f"its file `{file}` is not there")
            return self._chosen(trace, file, identity)
        if not Path(DEFAULT_PATH).exists():
            raise self._missing(trace, name, "the trace does not say in which file it is")
        return self._chosen(trace, DEFAULT_PATH, name)

    def _chosen(self, trace: Stored, path: str, name: str) -> ScenarioCase:
        items = self._items(path)
        redact = current_redactor().text
        candidates = [item for item in items if name in (item.name, redact(item.name))]
        if len(items) == 1 and parted(path)[1]:
            candidates = items
        if len(candidates) > 1:
            # The name of a kept trace contains the file's, too.
            same_name = [item for item in candidates if slug(item.id) == Path(trace.file).stem]
            candidates = same_name or candidates
        if not candidates:
            hint = guess(name, [item.name for item in items], ", but '{}'")
            raise self._missing(trace, name, f"`{path}` holds none of that name{hint}")
        if len(candidates) > 1:
            listed = ", ".join(f"`{item.id}`" for item in candidates[:NAMES_MAX])
            raise self._missing(trace, name, f"there are {len(candidates)} of that name: {listed}")
        return candidates[0]

    def _items(self, path: str) -> list[ScenarioCase]:
        if path not in self._items_by_file:
            entries: Sequence[ScenarioCase | Result] = select([path], self._cache).entries
            items = [entry for entry in entries if isinstance(entry, ScenarioCase)]
            if not items and entries:
                raise SourceError(path, "no scenario of it can be read; try `simkit validate`")
            self._items_by_file[path] = items
        return self._items_by_file[path]

    def _missing(self, trace: Stored, name: str, why: str) -> SourceError:
        return SourceError(
            trace.file,
            f"the scenario {name!r} that this trace is of was not found: {why}",
            advice="Name it with `--scenario PATH::NAME`.",
        )


# Implementation of `simkit diff`: pair traces or run scenarios twice, compare, print.


def tell(pairs: Iterable[diffs.Compared], sides: Sides, form: str) -> int:
    """Print the differences in the requested format; return the exit code."""
    rows = []
    fit_terminal()
    paint = paint_for(wants_color() and form == "text")
    with Progress() as progress:
        progress.begin("comparing")
        for pair in pairs:
            rows.append(pair)
            lines = list(diffs.pair_lines(pair, sides, paint)) if form == "text" else []
            progress.clear()
            if lines:
                echo("\n".join(lines) + "\n")
            progress.begin(f"comparing, {len(rows)} done")
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
    mine, its = trace_files(left), trace_files(right or FOLDER)
    if Path(left).is_dir() != Path(right or FOLDER).is_dir():
        raise TraceError(
            f"{left}, {right or FOLDER}: one is a folder; compare two traces or two folders"
        )
    if not Path(left).is_dir():
        return iter([_compared(mine[0], its[0], Identities())])
    identities = Identities()
    return (_compared(*files, identities) for files in _paired(mine, its))


def _paired(left_files: Sequence[str], right: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the files of the same scenario: with the same name, else the only one for that name."""
    its = {Path(file).name: file for file in right}
    pairs = {file: its.pop(Path(file).name, "") for file in left_files}
    unpaired = [file for file, others in pairs.items() if not others]
    names, its_names = _by_scenario(unpaired), _by_scenario(its.values())
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
