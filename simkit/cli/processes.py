"""Several processes that run scenarios: `replay -j`."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import lru_cache, partial
from itertools import chain, repeat
from multiprocessing.connection import Connection, wait
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from typing import Any, Final, Generic, TypeVar

from simkit.cli.forked_workers import WorkerDied, forked_results
from simkit.cli.running import Job, Ran, Runner
from simkit.cli.selection import SelectedEntry
from simkit.core.errors import SimkitError
from simkit.core.output import marks, share_marks
from simkit.language.yaml import DocumentCache
from simkit.session.execution.fork_server import can_fork, is_watched

T = TypeVar("T")

BATCH_MAX: Final = 25
"""The largest number of scenarios that one process takes at once."""
BATCHES_EACH: Final = 4
"""The number of batches for each process, so that none waits long for a slow one."""


SIZE_MIN: Final = 50
"""The number of scenarios of declared pipelines from which processes take less time than one."""


def pays(entries: Sequence[SelectedEntry], job: Job) -> bool:
    """Return whether several processes take less time than one.

    A scenario of a declared pipeline takes some milliseconds, so a few of them take less than
    starting processes. Code and real traffic may take any time.
    """
    is_declared = all(":" not in getattr(entry, "pipeline", "") for entry in entries)
    is_short = is_declared and job.recording is None and not job.pipeline
    return len(entries) >= (SIZE_MIN if is_short else 2)


def run_in_processes(
    entries: Sequence[SelectedEntry], job: Job, processes: int, cache: DocumentCache
) -> Iterator[Ran]:
    """Return the results of the entries, in order; the processes start at once."""
    batches = list(_batches(entries, processes))
    return chain.from_iterable(results_of_batches(_run_batch, batches, job, processes, cache))


def results_of_batches(
    work: Callable[[Sequence[SelectedEntry], Runner], T],
    batches: Sequence[Sequence[SelectedEntry]],
    job: Job,
    processes: int,
    cache: DocumentCache,
) -> Iterator[T]:
    """Return the result of ``work`` on each batch, in order; the processes start at once.

    ``work`` is a function of a module; it also gets its process's runner.
    """
    if not can_fork() or is_watched():
        return in_processes(partial(_run_with_runner, work), batches, job, processes)
    runner = Runner(job, cache)
    # Files and models of the first scenario are read and built once, for all copies.
    runner.prepare(batches[0][0])
    results = forked_results(lambda batch: work(batch, runner), batches, processes)
    return _with_advice(results)


def _run_batch(batch: Sequence[SelectedEntry], runner: Runner) -> list[Ran]:
    return [runner.ran(entry) for entry in batch]


def _with_advice(results: Iterator[T]) -> Iterator[T]:
    try:
        yield from results
    except WorkerDied:
        raise _died() from None


def _died() -> SimkitError:
    return SimkitError(
        "-j: a process died while it ran scenarios\n  Run with -j 1 to see which one does it."
    )


def in_processes(
    work: Callable[[Sequence[SelectedEntry], Job], T],
    batches: Sequence[Sequence[SelectedEntry]],
    job: Job,
    processes: int,
) -> Iterator[T]:
    """Yield the result of each batch, in order."""
    pool = ProcessPoolExecutor(
        min(processes, max(len(batches), 1)),
        mp_context=_process_context(),
        initializer=_begin,
        initargs=(marks(),),
    )
    try:
        yield from pool.map(work, batches, repeat(job))
    except BrokenProcessPool:
        raise _died() from None
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


_FOR_CODE: Final = (
    "simkit.adapters.driver",
    "simkit.adapters.programs.program",
    "simkit.adapters.traffic",
)


def _process_context(*, is_fresh: bool = False, preload: Sequence[str] = ()) -> BaseContext:
    """Return the context of processes that share only the code, imported once by a fork server.

    If each batch gets a new process, the server also imports what only pipelines in code need, and
    the packages of ``preload``.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, *(_FOR_CODE if is_fresh else ()), *preload])
    return context


def _begin(number: str) -> None:
    """Leave Ctrl-C to the parent, and mark texts as it does."""
    share_marks(number)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _run_with_runner(
    work: Callable[[Sequence[SelectedEntry], Runner], T], batch: Sequence[SelectedEntry], job: Job
) -> T:
    return work(batch, _runner(job))


@lru_cache(maxsize=1)
def _runner(job: Job) -> Runner:
    """Return this process's runner, which reads each file once for all its batches."""
    return Runner(job)


def start_early() -> None:
    """Start the fork server, which imports simkit while this process selects scenarios."""
    if not can_fork() and _process_context().get_start_method() == "forkserver":
        from multiprocessing.forkserver import ensure_running

        ensure_running()


# Tasks that each have a process of their own


class TaskProcesses(Generic[T]):
    """Processes that do one task each, free of module state from other tasks.

    As a context manager it ends those that still run.
    """

    def __init__(self, work: Callable[..., T], preload: Sequence[str] = ()) -> None:
        """``work`` is a function of a module; it gets the arguments of each task.

        ``preload`` are packages that all tasks need; they are imported once, where that is possible
        and no earlier task has started.
        """
        self._work = work
        self._context: Any = _process_context(is_fresh=True, preload=(work.__module__, *preload))
        self._running: dict[Connection, tuple[BaseProcess, int]] = {}

    def __enter__(self) -> TaskProcesses[T]:
        return self

    def __exit__(self, *_: object) -> None:
        _end_processes([process for process, _ in self._running.values()])
        for connection in self._running:
            connection.close()
        self._running.clear()

    def __len__(self) -> int:
        """Return the number of running tasks."""
        return len(self._running)

    def start(self, number: int, *arguments: Any) -> None:
        """Start a task; its number comes back with its result."""
        receiver, sender = self._context.Pipe(duplex=False)
        # The server of processes has the environment of its own start.
        given = (sender, marks(), dict(os.environ), self._work, arguments)
        process = self._context.Process(target=_do_task, args=given)
        process.start()
        sender.close()
        self._running[receiver] = process, number

    def next_result(self) -> tuple[int, T]:
        """Wait until a task ends; return its number and result, or raise its SimkitError."""
        ready = wait(list(self._running))
        receiver = next(item for item in self._running if item in ready)
        process, number = self._running.pop(receiver)
        try:
            result = receiver.recv()
        except EOFError:
            process.join(GRACE_S)
            raise SimkitError(
                f"-j: the process of run {number} died (exit code {process.exitcode})"
            ) from None
        finally:
            receiver.close()
        process.join()
        if isinstance(result, SimkitError):
            raise result
        value: T = result
        return number, value


def _do_task(
    sender: Connection,
    number: str,
    environment: dict[str, str],
    work: Callable[..., Any],
    arguments: tuple[Any, ...],
) -> None:
    _begin(number)
    os.environ.clear()
    os.environ.update(environment)
    try:
        result = work(*arguments)
    except SimkitError as problem:
        result = problem
    sender.send(result)
    sender.close()
