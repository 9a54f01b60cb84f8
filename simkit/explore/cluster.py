"""The chunks of a campaign on the workers of a dask scheduler.

A worker starts a process of simkit for each of its threads: simkit patches clocks and random
numbers, which the worker itself needs as they are, and code that was imported for an earlier
campaign may have changed.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from simkit.core.errors import SimkitError
from simkit.core.requirements import install_command
from simkit.core.text import counted
from simkit.explore.chunks import Tally
from simkit.explore.processes import (
    LOCAL,
    SAME_PROJECT,
    TRIES_MAX,
    Answer,
    Setup,
    Task,
    Workers,
    answer_in_json,
    checked,
    died_text,
    start_exploring,
)
from simkit.session.workers import Worker, WorkerDied

if TYPE_CHECKING:
    from collections.abc import Callable


T = TypeVar("T")
CONNECT_S: Final = 10.0
"""How long a scheduler may take to answer at first."""
WORKER_S: Final = 60.0
"""How long the first worker may take to appear."""
POLL_S: Final = 0.5
SUBMITTED_EACH: Final = 3
"""How many parts are submitted for each thread of the workers: none waits for the next one."""


class Cluster(Workers):
    """Runs the parts of a campaign on a dask cluster."""

    def __init__(
        self,
        address: str,
        setup: Setup,
        processes: int,
        deadline: float | None,
        say: Callable[[str], None],
    ) -> None:
        """``processes`` is the number of workers of a local cluster, if it is more than 1.

        ``deadline`` is the monotonic time at which chunks end; None for no limit. Raise SimkitError
        if the scheduler does not answer.
        """
        self._distributed = _distributed()
        self._address, self._setup, self._deadline, self._say = address, setup, deadline, say
        self._local: Any = None
        if address == LOCAL:
            count = processes if processes > 1 else os.cpu_count() or 1
            self._local = self._distributed.LocalCluster(
                n_workers=count, threads_per_worker=1, dashboard_address=":0"
            )
        try:
            self._client = self._connected()
            self._await_workers()
        except BaseException:
            self._close()
            raise
        link = self._client.dashboard_link
        say(f"{counted(self.processes, 'conversation')} at once; dashboard: {link}")

    def __exit__(self, *problem: object) -> None:
        self._close()

    def _close(self) -> None:
        client = getattr(self, "_client", None)
        if client is not None:
            if self._local is None and client.status == "running":
                with suppress(Exception):
                    client.run(end_processes, on_error="ignore")
            with suppress(Exception):
                client.close(timeout=2)
        if self._local is not None:
            with suppress(Exception):
                self._local.close(timeout=10)

    @property
    def processes(self) -> int:
        """Return the number of threads of the workers, which come and go."""
        with self._reached():
            return sum(self._client.nthreads().values()) or 1

    def _answers(self, tasks: Sequence[tuple[T, Task]]) -> Iterator[tuple[T, Answer]]:
        waiting = list(reversed(tasks))
        running: dict[Any, tuple[T, Task]] = {}
        while waiting or running:
            done, late = self._next(waiting, running)
            yield from ((key, Answer(tally=Tally(is_stopped=True))) for key in late)
            yield from done

    def _next(
        self, waiting: list[tuple[T, Task]], running: dict[Any, tuple[T, Task]]
    ) -> tuple[list[tuple[T, Answer]], list[T]]:
        """Submit what waits, and return what has been answered, and what has no time any more."""
        late: list[T] = []
        with self._reached():
            while waiting and len(running) < SUBMITTED_EACH * self.processes:
                key, task = waiting.pop()
                if (timed := self._timed(task)) is None:
                    late.append(key)
                else:
                    running[self._submitted(timed)] = key, task
            with suppress(TimeoutError), self._client.as_current():
                self._distributed.wait([*running], timeout=POLL_S, return_when="FIRST_COMPLETED")
            ended = [future for future in running if future.done()]
            pairs = [(future, *running.pop(future)) for future in ended]
            return [(key, self._answer(future, task)) for future, key, task in pairs], late

    @contextmanager
    def _reached(self) -> Iterator[None]:
        """Raise SimkitError if the scheduler is gone."""
        try:
            yield
        except (Exception, CancelledError) as problem:
            # The library has several types of errors for a connection that was closed, and an
            # OSError (its CommClosedError) comes before the client knows that it was.
            is_lost = isinstance(problem, OSError | CancelledError)
            if self._client.status == "running" and not is_lost:
                raise
            raise SimkitError(
                f"the scheduler at {self._address} is gone\n  What was run is kept: start "
                "the cluster again, then the same command goes on from there."
            ) from None

    def _submitted(self, task: Task) -> Any:
        # It is never the result of an earlier call: a chunk may have run for a shorter time.
        return self._client.submit(
            run_on_worker, msgspec.json.encode(task), pure=False, retries=TRIES_MAX - 1
        )

    def _answer(self, future: Any, task: Task) -> Answer:
        """Return the answer that a worker gave; raise SimkitError for a failure."""
        if future.status != "error":
            where, line = future.result()
            return checked(msgspec.json.decode(line, type=Answer), f"worker {where}: ")
        problem = future.exception()
        if isinstance(problem, WorkerDied):
            raise SimkitError(died_text(task, problem.code))
        if isinstance(problem, self._distributed.scheduler.KilledWorker):
            raise SimkitError(died_text(task, None))
        raise SimkitError(
            f"a worker of {self._address} cannot run simkit: {problem}\n"
            "  Install the same packages there as here, simkit and Hypothesis among them."
        ) from problem

    def _connected(self) -> Any:
        """Return a client of the scheduler; raise SimkitError if it does not answer."""
        address = self._address if self._local is None else self._local.scheduler_address
        try:
            return self._distributed.Client(address, timeout=CONNECT_S, set_as_default=False)
        except (OSError, ValueError) as problem:
            why = str(problem).partition("\n")[0] or type(problem).__name__
            raise SimkitError(
                f"--cluster: no dask scheduler answers at {address}: {why}\n"
                "  Start one with `dask scheduler`, and workers with `dask worker ADDRESS`."
            ) from None

    def _await_workers(self) -> None:
        """Wait for a worker; raise SimkitError if there is none."""
        try:
            if not self._client.nthreads():
                self._say(f"waiting up to {WORKER_S:.0f} s for a worker")
            self._client.wait_for_workers(1, timeout=WORKER_S)
        except (OSError, TimeoutError):
            raise SimkitError(
                f"--cluster: the scheduler at {self._address} has no workers\n"
                "  Start some with `dask worker ADDRESS`, in the folder of the project."
            ) from None


# In the worker

_free: list[Worker] = []
"""The processes of this worker that do nothing now."""
_folder = ""
"""The folder in which they run."""
_lock = Lock()


def run_on_worker(task: bytes) -> tuple[str, bytes]:
    """Return the address of this worker, and the answer of a process to a task.

    Raise WorkerDied if the process did; then dask tries again.
    """
    from distributed import get_worker

    return get_worker().address, answer_here(task)


def answer_here(task: bytes) -> bytes:
    """Return the answer of a process of this machine to a task; raise WorkerDied."""
    folder = msgspec.json.decode(task)["setup"]["folder"]
    if not os.path.isdir(folder):
        return msgspec.json.encode(Answer(error=f"there is no folder {folder}\n{SAME_PROJECT}"))
    process = _process(folder)
    try:
        answer: bytes = process.call(answer_in_json, task)
    except WorkerDied:
        process.close()
        raise
    with _lock:
        _free.append(process)
    return answer


def _process(folder: str) -> Worker:
    """Return a process of this worker that does nothing now."""
    global _folder
    with _lock:
        if folder == _folder and _free:
            return _free.pop()
    if folder != _folder:
        end_processes()
        _folder = folder
    return start_exploring(folder)


def end_processes() -> None:
    """End the processes of this worker that do nothing now: the next campaign is another one."""
    with _lock:
        processes = [*_free]
        _free.clear()
    for process in processes:
        process.close()


# Here


def _distributed() -> Any:
    """Return the library; raise SimkitError if it is not installed."""
    # It logs each worker that comes or goes with a traceback; what matters is said here.
    os.environ.setdefault("DASK_LOGGING__DISTRIBUTED", "critical")
    try:
        import distributed
    except ModuleNotFoundError as problem:
        if (problem.name or "").partition(".")[0] not in ("dask", "distributed"):
            raise
        raise SimkitError(
            "--cluster needs dask.distributed, which is not installed here: "
            f"{install_command('cluster')}"
        ) from None
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    return distributed
