"""Several processes that run scenarios: `replay -j`."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import lru_cache
from itertools import repeat
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from typing import Final, TypeVar

from simkit.cli.running import Job, Ran, Runner
from simkit.cli.selection import SelectedEntry
from simkit.core.errors import SimkitError
from simkit.core.output import marks, share_marks

T = TypeVar("T")

BATCH_MAX: Final = 25
"""The largest number of scenarios that one process takes at once."""
BATCHES_EACH: Final = 4
"""The number of batches for each process, so that none waits long for a slow one."""


def run_in_processes(entries: Sequence[SelectedEntry], job: Job, processes: int) -> Iterator[Ran]:
    """Yield the result of each entry, in order."""
    for rans in in_processes(_run_batch, list(_batches(entries, processes)), job, processes):
        yield from rans


def in_processes(
    work: Callable[[Sequence[SelectedEntry], Job], T],
    batches: Sequence[Sequence[SelectedEntry]],
    job: Job,
    processes: int,
    *,
    is_fresh: bool = False,
) -> Iterator[T]:
    """Yield the result of each batch, in order; ``is_fresh`` gives each its own process."""
    pool = ProcessPoolExecutor(
        min(processes, max(len(batches), 1)),
        mp_context=_process_context(is_fresh=is_fresh),
        initializer=_begin,
        initargs=(marks(),),
        max_tasks_per_child=1 if is_fresh else None,
    )
    try:
        yield from pool.map(work, batches, repeat(job))
    except BrokenProcessPool:
        raise SimkitError(
            "-j: a process died while it ran scenarios\n  Run with -j 1 to see which one does it."
        ) from None
    except KeyboardInterrupt:
        # A scenario that runs for ever would keep its process, and the pool waits for that.
        _end_processes(multiprocessing.active_children())
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


GRACE_S: Final = 2.0
"""Seconds in which a process may end before it is killed."""


def _end_processes(processes: Sequence[BaseProcess]) -> None:
    for process in processes:
        process.terminate()
    for process in processes:
        process.join(GRACE_S)
        if process.is_alive():
            process.kill()


def _batches(entries: Sequence[SelectedEntry], processes: int) -> Iterator[Sequence[SelectedEntry]]:
    size = min(BATCH_MAX, -(-len(entries) // (processes * BATCHES_EACH)))
    for start in range(0, len(entries), size):
        yield entries[start : start + size]


_FOR_CODE: Final = ("simkit.adapters.driver", "simkit.adapters.program", "simkit.adapters.traffic")


def _process_context(*, is_fresh: bool = False) -> BaseContext:
    """Return the context of processes that share only the code, imported once by a fork server.

    If each batch gets a new process, the server also imports what only pipelines in code need.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, *(_FOR_CODE if is_fresh else ())])
    return context


def _begin(number: str) -> None:
    """Leave Ctrl-C to the parent, and mark texts as it does."""
    share_marks(number)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _run_batch(batch: Sequence[SelectedEntry], job: Job) -> list[Ran]:
    runner = _runner(job)
    return [runner.ran(entry) for entry in batch]


@lru_cache(maxsize=1)
def _runner(job: Job) -> Runner:
    """Return this process's runner, which reads each file once for all its batches."""
    return Runner(job)


def start_early() -> None:
    """Start the fork server, which imports simkit while this process selects scenarios."""
    if _process_context().get_start_method() == "forkserver":
        from multiprocessing.forkserver import ensure_running

        ensure_running()
