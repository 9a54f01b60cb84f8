"""Runs for commands that read what happened: of scenarios, or from kept traces."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from simkit.checks.judge import Outcome
from simkit.cli.console import Progress, output_to_stderr
from simkit.cli.judge import judged_trace
from simkit.cli.selection import paths_or_default, select
from simkit.cli.traces import SUFFIX, Scenarios, stored, trace_files, unchanged
from simkit.core.errors import SimkitError, SourceError
from simkit.core.gc_pause import gc_paused
from simkit.core.text import counted, short
from simkit.language.yaml import DocumentCache
from simkit.report.last_run import FOLDER
from simkit.report.results import Result
from simkit.session.simulate import simulate
from simkit.spec.scenario.files import Library, Prepared
from simkit.spec.scenario.items import ScenarioCase
from simkit.trace.views import said_in

PROBLEMS_MAX: Final = 10
"""The number of broken scenarios that a note names."""


class ObservedRun(msgspec.Struct, frozen=True):
    """One scenario and what happened in it."""

    prepared: Prepared
    outcome: Outcome


class ObservedRuns:
    """The runs of some paths, one after the other, and those that could not be made."""

    def __init__(self, paths: Sequence[str], expression: str, verb: str) -> None:
        """``verb`` says on the progress line what the command does."""
        self.library = Library(DocumentCache())
        self.ran = self.failed = self.skipped = 0
        self.problems: list[str] = []
        """The first line of the error of each scenario that is broken."""
        self._verb = verb
        self._traces = [path for path in paths if _holds_traces(path)]
        scenarios = [path for path in paths if not _holds_traces(path)]
        entries: Sequence[ScenarioCase | Result] = ()
        if scenarios or not self._traces:
            cache = self.library.cache
            places = paths_or_default(scenarios)
            entries = select(places, cache, expression=expression).entries
            if not entries:
                fits = f" that fits -k {expression!r}" if expression else ""
                raise SourceError(", ".join(places), f"there is no scenario{fits}")
        self._entries = entries

    @property
    def reads_traces(self) -> bool:
        """Return whether nothing is run: all runs come from traces."""
        return not self._entries

    def __iter__(self) -> Iterator[ObservedRun]:
        """Yield each run; a scenario that is broken is only counted."""
        progress = Progress(len(self._entries))
        try:
            with unchanged(self._traces):
                for file in (file for path in self._traces for file in trace_files(path)):
                    yield from self._runs_of(partial(self._judged, file))
            for entry in self._entries:
                if isinstance(entry, Result):
                    self.problems.append(entry.error.partition("\n")[0])
                    continue
                progress.begin(f"{self._verb} {entry.name}")
                yield from self._runs_of(partial(self._simulated, entry))
        finally:
            progress.end()

    def notes(self, of_failed: str) -> Iterator[str]:
        """Yield lines about scenarios left out; ``of_failed`` says what became of failed ones."""
        if self.skipped:
            yield f"{counted(self.skipped, 'scenario')} skipped"
        if self.failed:
            yield f"{counted(self.failed, 'scenario')} failed, {of_failed}"
        for problem in self.problems[:PROBLEMS_MAX]:
            yield f"broken, and left out: {short(problem, 200)}"
        if len(self.problems) > PROBLEMS_MAX:
            yield f"broken, and left out: {len(self.problems) - PROBLEMS_MAX} more"

    def _runs_of(self, make: Callable[[], ObservedRun | None]) -> Iterator[ObservedRun]:
        try:
            with output_to_stderr():
                run = make()
        except SimkitError as problem:
            self.problems.append(str(problem).partition("\n")[0])
            return
        if run is None:
            self.skipped += 1
            return
        self.ran += 1
        is_expected = run.prepared.scenario.xfail is not None
        self.failed += not run.outcome.passed and not is_expected
        yield run

    def _simulated(self, item: ScenarioCase) -> ObservedRun | None:
        prepared = self.library.prepared(item)
        if prepared.skip is not None:
            return None
        with gc_paused():
            return ObservedRun(prepared, simulate(prepared))

    def _judged(self, file: str) -> ObservedRun | None:
        trace = stored(file, with_lints=True)
        item = Scenarios(self.library.cache).item_of(trace)
        prepared = self.library.prepared(item)
        prepared = prepared.with_seed(trace.started.seed).after(said_in(trace.view))
        return ObservedRun(prepared, judged_trace(prepared, trace))


def _holds_traces(path: str) -> bool:
    place = Path(path)
    return path.endswith(SUFFIX) or place.name == FOLDER or (place / "last.json").is_file()
