"""Several workers that do tasks at the same time."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from queue import SimpleQueue
from typing import TypeVar

from simkit.session.workers.worker import GRACE_S, Worker, WorkerDied

T = TypeVar("T")


class Pool(AbstractContextManager["Pool"]):
    """Workers that do tasks at the same time; as a context manager it ends them.

    Each is watched by a thread, which waits for its answer.
    """

    def __init__(self, count: int, start: Callable[[], Worker], *, tries: int = 1) -> None:
        """``start`` starts a worker when a task needs one.

        ``tries`` is how many workers a task may use up before WorkerDied is raised.
        """
        self._start, self._tries = start, tries
        self._threads = ThreadPoolExecutor(count)
        self._started: set[Worker] = set()
        self._free: SimpleQueue[Worker | None] = SimpleQueue()
        self._is_closed = False
        for _ in range(count):
            self._free.put(None)

    def __exit__(self, *_: object) -> None:
        self._is_closed = True
        for worker in [*self._started]:
            worker.kill()
        self._threads.shutdown(wait=True, cancel_futures=True)
        for worker in self._started:
            worker.close()

    def submit(self, work: Callable[[Worker], T]) -> Future[T]:
        """Do some work with a worker that is free, in a thread of its own.

        The result raises WorkerDied if the worker died each time.
        """
        return self._threads.submit(self._run_task, work)

    def _run_task(self, work: Callable[[Worker], T]) -> T:
        tries = self._tries
        while True:
            worker = self._free.get()
            try:
                worker = worker or self._new_worker()
                return work(worker)
            except WorkerDied:
                assert worker is not None
                worker.close(GRACE_S)
                self._started.discard(worker)
                worker = None
                tries -= 1
                if not tries or self._is_closed:
                    raise
            finally:
                self._free.put(worker)

    def _new_worker(self) -> Worker:
        worker = self._start()
        self._started.add(worker)
        if self._is_closed:
            worker.kill()
        return worker
