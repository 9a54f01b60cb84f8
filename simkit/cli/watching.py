"""``simkit replay --watch``: run scenarios again when a file that they read has changed.

Every scenario file runs in a new process, which reports the files read there: scenarios, pipelines,
files under ``use:``, the user's modules and files that those read. So simkit guesses nothing from
the contents of files, and no module is left from an earlier run. Changes are found by time and
size.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Final

import msgspec

from simkit.cli.console import table_width, wants_color
from simkit.cli.processes import in_processes
from simkit.cli.replay import ReplayOptions, record, selection_of, with_run
from simkit.cli.running import Job, Ran, Runner
from simkit.cli.selection import SelectedEntry, paths_or_default
from simkit.core.errors import SimkitError, Terminated
from simkit.core.file_reads import FileReads, Stamp, Stamps, stamp
from simkit.core.output import echo
from simkit.core.text import counted
from simkit.language.yaml import DocumentCache
from simkit.report.last_run import Ledger
from simkit.report.results import Result, summary_of
from simkit.report.text import summary_lines
from simkit.spec.scenario.items import parted, scenario_files

POLL_S: Final = 0.2
SETTLE_S: Final = 0.05
"""Editors empty a file before they fill it: a changed file is checked again after this time."""


class Round(msgspec.Struct, frozen=True):
    """The results of one file's scenarios, and the files read for them."""

    file: str
    rans: tuple[Ran, ...]
    read: Mapping[str, Stamp]


def watch(call: ReplayOptions) -> int:
    """Run the selected scenarios, and again those with changes, until Ctrl-C; return 0.

    Raise SimkitError if there is nothing to run at first.
    """
    watching = _Watching(call)
    try:
        watching.begin()
        while True:
            watching.go_on(watching.changed())
    except Terminated:
        raise
    except KeyboardInterrupt:
        echo("\nstopped", err=True)
    finally:
        watching.end()
    return 0


class _Watching:
    """The state between two rounds: results of scenarios, and the files that they read."""

    def __init__(self, call: ReplayOptions) -> None:
        self._call = call
        self._ledger = Ledger()
        job = msgspec.structs.replace(call, color=wants_color(), width=table_width())
        self._job, self._problem = with_run(job, self._ledger)
        self._places = [parted(path)[0] for path in paths_or_default(call.paths)]
        self._results: dict[str, tuple[Result, ...]] = {}
        """Scenario file to the results of its scenarios."""
        self._needs: dict[str, set[str]] = {}
        """Scenario file to the files read for it."""
        self._stamps: Stamps = {}
        """The first stamp of each of these files."""

    def end(self) -> None:
        """Remove everything kept beside the last round's traces."""
        self._ledger.end()

    def begin(self) -> None:
        """Run everything."""
        started = time.perf_counter()
        self._see(self._scenario_files())
        self._run(self._entries())
        files = counted(len(self._stamps), "file")
        echo(f"{self._verdict(started)}; watching {files}, Ctrl-C stops")

    def changed(self) -> set[str]:
        """Wait until something has changed, and return the changed files."""
        while not (changed_files := self._differing()):
            time.sleep(POLL_S)
        while True:
            time.sleep(SETTLE_S)
            if changed_files == (changed_files := changed_files | self._differing()):
                return changed_files

    def go_on(self, changed: set[str]) -> None:
        """Run the scenarios that have read a changed file."""
        started = time.perf_counter()
        files_there = self._scenario_files()
        affected = {file for file, needs in self._needs.items() if needs & changed}
        affected |= {file for file in files_there if file not in self._needs}
        for path in changed:
            self._stamps[path] = stamp(path)
        self._see(files_there)
        for file in affected - set(files_there):
            self._needs.pop(file, None)
            self._results.pop(file, None)
        try:
            entries = self._entries()
        except SimkitError as problem:
            echo(f"{_changes(changed)}\n{problem}")
            return
        entries_affected = [entry for entry in entries if entry.file in affected]
        self._run(entries_affected)
        ran = f"{counted(len(entries_affected), 'scenario')} ran"
        echo(f"{_changes(changed)}, {ran}; all {self._verdict(started)}")

    def _entries(self) -> Sequence[SelectedEntry]:
        selection = selection_of(self._call, DocumentCache())
        return selection.entries if selection is not None else ()

    def _scenario_files(self) -> list[str]:
        files: list[str] = []
        for place in self._places:
            # A removed file may come back.
            with suppress(SimkitError):
                files += scenario_files(place)
        return files

    def _differing(self) -> set[str]:
        news = {file for file in self._scenario_files() if file not in self._stamps}
        return news | {path for path, before in self._stamps.items() if stamp(path) != before}

    def _see(self, files: Iterable[str]) -> None:
        """Record the stamps of scenario files before they are read."""
        for file in files:
            self._stamps.setdefault(file, stamp(file))
            self._needs.setdefault(file, {file})

    def _run(self, entries: Sequence[SelectedEntry]) -> None:
        batches = [list(batch) for _, batch in groupby(entries, lambda entry: entry.file)]
        for done in in_processes(_round, batches, self._job, self._call.processes, is_fresh=True):
            self._take(done)
            texts = [ran.text for ran in done.rans if ran.result.failed or self._job.show]
            if texts:
                echo("\n".join((done.file, *texts)))
        paths_needed = set().union(*self._needs.values())
        self._stamps = {path: stamp for path, stamp in self._stamps.items() if path in paths_needed}
        note = self._problem or record(self._all(), self._ledger)
        if note:
            echo(f"note: {note}", err=True)

    def _take(self, done: Round) -> None:
        needs = {done.file, *done.read}
        self._results[done.file] = tuple(ran.result for ran in done.rans)
        if any(ran.result.outcome == "broken" for ran in done.rans):
            # A file that it lacks was not read. It may be beside it, or be one that existed before.
            needs |= self._needs.get(done.file, set()) | {".", str(Path(done.file).parent)}
        self._needs[done.file] = needs
        for path in needs:
            self._stamps.setdefault(path, done.read[path] if path in done.read else stamp(path))

    def _all(self) -> list[Result]:
        return [result for file in sorted(self._results) for result in self._results[file]]

    def _verdict(self, started: float) -> str:
        seconds = time.perf_counter() - started
        return next(summary_lines(summary_of(self._all()), (), seconds))


def _changes(changed: set[str]) -> str:
    first, *more = sorted(changed)
    others = f" and {counted(len(more), 'more file')}" if more else ""
    return f"{first}{others} changed"


# In the process that runs the scenarios of one file


def _round(batch: Sequence[SelectedEntry], job: Job) -> Round:
    reads = FileReads().begin()
    runner = Runner(job)
    rans = tuple(runner.ran(entry) for entry in batch)
    return Round(batch[0].file, rans, reads.stamps())
