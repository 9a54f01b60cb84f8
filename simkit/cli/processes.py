"""Several processes that run scenarios: `replay -j`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import Final, TypeVar

from simkit.cli.running import Job, Runner, ScenarioRun
from simkit.cli.selection import SelectedEntry
from simkit.core.errors import SimkitError
from simkit.core.output import marks, share_marks
from simkit.session.workers import Pool, Worker, WorkerDied, start_worker

T = TypeVar("T")

BATCH_MAX: Final = 25
"""The largest number of scenarios that one process takes at once."""
BATCHES_EACH: Final = 4
"""The number of batches for each process, so that none waits long for a slow one."""
SIZE_MIN: Final = 300
"""The number of scenarios of declared pipelines from which processes take less time than one."""

MODULES: Final = (__name__,)
"""The modules of a process that runs scenarios."""


def pays(entries: Sequence[SelectedEntry], job: Job) -> bool:
    """Return whether several processes take less time than one.

    A scenario of a declared pipeline takes some milliseconds, so a few of them take less than
    starting processes. Code and real traffic may take any time.
    """
    is_declared = all(":" not in getattr(entry, "pipeline", "") for entry in entries)
    is_short = is_declared and job.recording is None and not job.pipeline
    return len(entries) >= (SIZE_MIN if is_short else 2)


def run_in_processes(
    entries: Sequence[SelectedEntry], job: Job, processes: int
) -> Iterator[ScenarioRun]:
    """Return the results of the entries, in order."""
    size = min(BATCH_MAX, -(-len(entries) // (processes * BATCHES_EACH)))
    batches = [entries[start : start + size] for start in range(0, len(entries), size)]
    return chain.from_iterable(results_of_batches(_run_batch, batches, job, processes))


def _run_batch(batch: Sequence[SelectedEntry], runner: Runner) -> list[ScenarioRun]:
    return [runner.run(entry) for entry in batch]


def results_of_batches(
    work: Callable[[Sequence[SelectedEntry], Runner], T],
    batches: Sequence[Sequence[SelectedEntry]],
    job: Job,
    processes: int,
) -> Iterator[T]:
    """Yield the result of ``work`` on each batch, in order.

    ``work`` is a function of a module; it also gets its process's runner.
    """
    with Pool(min(processes, len(batches)), start_marking_worker) as pool:
        try:
            yield from pool.in_order(_work, [(work, batch, job) for batch in batches])
        except WorkerDied:
            raise SimkitError(
                "-j: a process died while it ran scenarios\n"
                "  Run with -j 1 to see which one does it."
            ) from None


def start_marking_worker(modules: Sequence[str] = MODULES) -> Worker:
    """Start a worker whose texts have this process's marks, since this process prints them."""
    worker = start_worker(modules)
    worker.call(share_marks, marks())
    return worker


# In a worker


def _work(
    work: Callable[[Sequence[SelectedEntry], Runner], T], batch: Sequence[SelectedEntry], job: Job
) -> T:
    return work(batch, _runner(job))


@lru_cache(maxsize=1)
def _runner(job: Job) -> Runner:
    """Return this process's runner, which reads each file once for all its batches."""
    return Runner(job)
