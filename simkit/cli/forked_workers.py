"""Workers that are copies of this process (`os.fork`): they have read and imported what it has.

A worker gets places of entries and returns results; nothing else is sent. It ends when its requests
end, so also when this process does.
"""

from __future__ import annotations

import gc
import os
import pickle
import select
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final, NoReturn, TypeVar

T = TypeVar("T")
U = TypeVar("U")

GRACE_S: Final = 2.0
"""Seconds in which a worker may end before it is killed."""
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_LOOK_EVERY_S: Final = 0.5
"""How often to look whether a worker has died, if a process of its own keeps its pipe open."""


class WorkerDied(Exception):
    """A worker ended before it answered."""


class _Worker:
    """One copy, with a pipe for requests and one for answers."""

    def __init__(self, work: Callable[[int], object], others: Sequence[_Worker]) -> None:
        inbox, requests = os.pipe()
        answers, outbox = os.pipe()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        # A signal must not reach the copy before it has its own handlers.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        self.number = os.fork()
        if self.number == 0:
            for file in (requests, answers, *(file for other in others for file in other.files)):
                os.close(file)
            _serve(work, inbox, outbox, mask)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.close(inbox)
        os.close(outbox)
        self._requests, self.answers = os.fdopen(requests, "wb"), os.fdopen(answers, "rb")
        self.has_ended = False
        self.place: int | None = None
        """The place of the request that it works on; None if it has none."""

    @property
    def files(self) -> tuple[int, int]:
        """The ends of the pipes in this process."""
        return self._requests.fileno(), self.answers.fileno()

    def begin(self, place: int) -> None:
        """Send a request."""
        self.place = place
        try:
            pickle.dump(place, self._requests)
            self._requests.flush()
        except OSError:
            raise WorkerDied from None

    def answer(self) -> object:
        """Return the answer, and raise what was raised instead."""
        self.place = None
        try:
            result, problem = pickle.load(self.answers)
        except (EOFError, pickle.UnpicklingError):
            raise WorkerDied from None
        if problem is not None:
            raise problem
        return result

    def poll(self) -> bool:
        """Return whether it has ended."""
        if not self.has_ended:
            self.has_ended = os.waitpid(self.number, os.WNOHANG)[0] != 0
        return self.has_ended

    def dismiss(self) -> None:
        """Send no further requests."""
        with suppress(OSError):
            self._requests.close()

    def close(self) -> None:
        """Wait for its end."""
        self.dismiss()
        self.answers.close()
        if not self.has_ended:
            os.waitpid(self.number, 0)
            self.has_ended = True


def forked_results(work: Callable[[T], U], batches: Sequence[T], processes: int) -> Iterator[U]:
    """Return the results of ``work`` on each batch, in order; the workers start at once.

    Raise WorkerDied if one ends early.
    """
    workers: list[_Worker] = []
    for _ in range(min(processes, len(batches))):
        workers.append(_Worker(lambda place: work(batches[place]), workers))
    return _in_order(workers, len(batches))


def _in_order(workers: Sequence[_Worker], count: int) -> Iterator[U]:
    results: dict[int, U] = {}
    waiting = iter(range(count))
    try:
        for worker in workers:
            worker.begin(next(waiting))
        for place in range(count):
            while place not in results:
                worker = _ready(workers)
                done = worker.place
                assert done is not None
                results[done] = worker.answer()  # type: ignore[assignment]
                if (following := next(waiting, None)) is not None:
                    worker.begin(following)
            yield results.pop(place)
        for worker in workers:
            worker.dismiss()
    except BaseException:
        _end(workers)
        raise
    finally:
        for worker in workers:
            worker.close()


def _ready(workers: Sequence[_Worker]) -> _Worker:
    """Wait for an answer, or for a worker's end."""
    busy = [worker for worker in workers if worker.place is not None]
    while True:
        ready, _, _ = select.select([worker.answers for worker in busy], [], [], _LOOK_EVERY_S)
        for worker in busy:
            if worker.answers in ready:
                return worker
        if any(worker.poll() for worker in busy):
            raise WorkerDied


def _end(workers: Sequence[_Worker]) -> None:
    """End workers, whatever they do: a scenario may run for ever."""
    until = time.monotonic() + GRACE_S
    for number in (signal.SIGTERM, signal.SIGKILL):
        for worker in workers:
            if not worker.poll():
                os.kill(worker.number, number)
        while time.monotonic() < until and not all(worker.poll() for worker in workers):
            time.sleep(0.01)


def _serve(work: Callable[[int], object], inbox: int, outbox: int, mask: Iterable[int]) -> NoReturn:
    """Answer requests until there are none."""
    code = 1
    try:
        # Ctrl-C is for the first process, which ends this one with SIGTERM.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        requests, answers = os.fdopen(inbox, "rb"), os.fdopen(outbox, "wb")
        gc.freeze()  # Copied objects live as long as this process.
        while True:
            try:
                place = pickle.load(requests)
            except EOFError:
                break
            answers.write(_answer(work, place))
            answers.flush()
        code = 0
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        # Exit handlers belong to the first process.
        os._exit(code)


def _answer(work: Callable[[int], object], place: int) -> bytes:
    try:
        return pickle.dumps((work(place), None))
    except Exception as problem:
        try:
            answer = pickle.dumps((None, problem))
            pickle.loads(answer)  # An exception with arguments of its own may not come back.
        except Exception:
            return pickle.dumps((None, RuntimeError(repr(problem))))
        return answer
