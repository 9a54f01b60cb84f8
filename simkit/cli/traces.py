"""Stored traces: find and read them, and find their scenarios."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from simkit.checks.lints import LintRunner
from simkit.cli.selection import DEFAULT_PATH, select
from simkit.core.errors import SourceError, TraceError
from simkit.core.output import current_redactor, echo
from simkit.core.text import counted
from simkit.language.yaml import DocumentCache, near
from simkit.report.last_run import FOLDER, Ledger, failure_text, slug
from simkit.report.results import Result
from simkit.spec.scenario.items import ScenarioCase, items_in, parted
from simkit.trace import events as e
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
    place = Path(path)
    if not place.is_dir():
        if not place.exists():
            known = [str(files) for files in sorted(place.parent.glob(f"*{SUFFIX}"))]
            nearest = near(path, known)
            hint = f"\n  did you mean `{nearest}`?" if nearest else ""
            raise TraceError(f"{path}: there is no such file or folder{hint}")
        return [path]
    for folder in (place, place / FOLDER):
        if listed := _listed(folder):
            return listed
    for folder in (place, place / "traces", place / FOLDER / "traces"):
        files = sorted(str(file) for file in folder.glob(f"*{SUFFIX}"))
        if files:
            return files
    raise TraceError(f"{path}: there is no trace in this folder, no file `*{SUFFIX}`")


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
        echo(
            f"{folder} holds no trace of the {tests} with features or `sim` that pytest ran last",
            err=True,
        )
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
        self.wake()

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
        place = Path(file)
        last = place.parent.parent / "last.json"
        if last not in self._recorded:
            self._recorded[last] = _recorded(last)
        return self._recorded[last].get(place.name, "")

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
            nearest = near(name, [item.name for item in items])
            hint = f", but {nearest!r}" if nearest else ""
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
