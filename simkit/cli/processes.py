"""The processes in which scenarios run: one of its own for each of code, several with `-j`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Final

from simkit.checks.judge import Outcome
from simkit.cli import Command
from simkit.cli.running import Job, Runner, Runs, ScenarioRun, entries_of_code
from simkit.cli.selection import SelectedEntry
from simkit.core.errors import SimkitError
from simkit.core.output import marks, share_marks
from simkit.language.yaml import DocumentCache
from simkit.session.execution.applications import OwnProcesses
from simkit.session.execution.own_process import ProcessMessages, app_of
from simkit.session.workers import WorkerDied, is_traced
from simkit.spec.scenario.apps import App
from simkit.spec.scenario.files import Prepared
from simkit.spec.scenario.items import ScenarioCase
from simkit.trace.views import view_of

BATCH_MAX: Final = 25
"""The largest number of scenarios of declared pipelines that one process takes at once."""
BATCHES_EACH: Final = 4
"""The number of batches for each process, so that none waits long for a slow one."""
SIZE_MIN: Final = 50
"""The number of scenarios of declared pipelines from which processes take less time than one."""


class RunsInProcesses(Runs):
    """Runs the entries of a command in the processes that they need.

    Make it before user code runs in this process, and before it has another thread.
    """

    def __init__(
        self, entries: Sequence[SelectedEntry], job: Job, cache: DocumentCache, count: int
    ) -> None:
        """``count`` is the number of processes that work at the same time."""
        super().__init__(entries, runners.get(job, cache))
        self._job = job
        is_alone = Command.owns_process and not (job.in_process or is_traced())
        self._count = count if is_alone else 1
        self._apps = dict(self._applications(cache)) if is_alone else {}
        """The applications of those entries that are code, by the entry's identity."""
        self._shares_declared = self._count > 1 and len(entries) - len(self._apps) >= SIZE_MIN
        shared = () if self._shares_declared else None
        self._own = OwnProcesses(self._apps.values(), job.recording is not None, modules=shared)

    def __exit__(self, *_: object) -> None:
        self._own.close()

    def __iter__(self) -> Iterator[ScenarioRun]:
        """Yield the result of each entry, in order."""
        if self._count == 1:
            yield from super().__iter__()
            return
        declared = [entry for entry in self.entries if id(entry) not in self._apps]
        size = min(BATCH_MAX, max(-(-len(declared) // (self._count * BATCHES_EACH)), 1))
        threads = ThreadPoolExecutor(self._count)
        try:
            of_code = iter(
                [threads.submit(self.run, each) for each in self.entries if id(each) in self._apps]
            )
            rans: Iterator[ScenarioRun] = map(self.runner.run, declared)
            if self._shares_declared:
                batches = [declared[at : at + size] for at in range(0, len(declared), size)]
                shared = [threads.submit(self._in_copy, batch) for batch in batches]
                rans = chain.from_iterable(future.result() for future in shared)
            for entry in self.entries:
                yield next(of_code).result() if id(entry) in self._apps else next(rans)
        finally:
            self._own.close()
            threads.shutdown(wait=True, cancel_futures=True)

    def run(self, entry: SelectedEntry) -> ScenarioRun:
        """Return the result of an entry."""
        app = self._apps.get(id(entry))
        if app is None:
            return self.runner.run(entry)
        assert isinstance(entry, ScenarioCase)
        messages = ProcessMessages()
        try:
            ran: ScenarioRun = self._own.call(
                app, _run, entry, self._job, marks(), hear=messages.hear
            )
        except WorkerDied as death:
            return self.runner.died(entry, messages, messages.how or death.how)
        return self.runner.refused_late(entry, ran, messages.refused) if messages.refused else ran

    def outcome_of(self, entry: SelectedEntry, prepared: Prepared) -> Outcome:
        """Return what happens in an entry's scenario; raise SimkitError if it cannot be run."""
        app = self._apps.get(id(entry))
        if app is None:
            return super().outcome_of(entry, prepared)
        trace, judgement = self._own.simulate(app, prepared)
        return Outcome(trace, judgement, view_of(trace.events))

    def _applications(self, cache: DocumentCache) -> Iterator[tuple[int, App]]:
        for entry in entries_of_code(self.entries, self._job, cache):
            try:
                app = app_of(self.runner.prepared(entry)[0])
            except SimkitError:
                continue  # It is the result of its run.
            if app is not None:
                yield id(entry), app

    def _in_copy(self, batch: Sequence[SelectedEntry]) -> list[ScenarioRun]:
        try:
            rans: list[ScenarioRun] = self._own.call(None, _run_all, batch, self._job, marks())
        except WorkerDied:
            raise SimkitError(
                "-j: a process died while it ran scenarios\n"
                "  Run with -j 1 to see which one does it."
            ) from None
        return rans


# In a copy of this process, or in a new interpreter


class _Runners:
    """The runner of this process, which reads each file once; copies of it have read them, too."""

    def __init__(self) -> None:
        self._runner: tuple[Job, Runner] | None = None

    def get(self, job: Job, cache: DocumentCache | None = None) -> Runner:
        """Return the runner for a job."""
        if self._runner is None or cache is not None or self._runner[0] != job:
            self._runner = job, Runner(job, cache)
        return self._runner[1]


runners: Final = _Runners()


def _run(entry: SelectedEntry, job: Job, number: str) -> ScenarioRun:
    share_marks(number)
    return runners.get(job).run(entry)


def _run_all(entries: Sequence[SelectedEntry], job: Job, number: str) -> list[ScenarioRun]:
    return [_run(entry, job, number) for entry in entries]
