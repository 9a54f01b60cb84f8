"""Threads, thread pools and event loops of user code during a run.

Each piece of work belongs to the code that submits it, and waits for its turn. A worker keeps the
context of the code that started it: without this, its work for others would belong to that agent,
or to no scenario (`simkit.capture.http.request_router`).

Work that an event loop gives to a thread (``asyncio.to_thread``) ends at any time: two parallel
tools would answer in another order from run to run. During a scenario, the loop waits for each of
its threads; but not where a schedule chooses which of the model calls that wait is answered:
threads then take turns.
"""

from __future__ import annotations

import _thread
import asyncio
import contextvars
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing import pool as process_pool
from queue import SimpleQueue
from typing import Any, Final
from weakref import WeakKeyDictionary

from simkit.adapters.concurrency.lost_errors import ended_thread
from simkit.adapters.concurrency.thread_turns import ThreadTurns
from simkit.adapters.observation import ContextListeners
from simkit.adapters.programs.terminal import ProgramClosed
from simkit.capture.http.guards import serves_many
from simkit.capture.http.installing import Installation, Replacement, Row
from simkit.capture.http.request_router import is_intercepted

_turns: Final = ContextListeners[ThreadTurns]("simkit_thread_turns")


@contextmanager
def taking_turns(turns: ThreadTurns) -> Iterator[None]:
    """Let threads started in this context, and in what it starts, take turns."""
    with _turns.activate(turns), turns.led():
        yield


def threads_take_turns() -> bool:
    """Return whether threads started here take turns."""
    return _turns.current() is not None


def calls_wait() -> bool:
    """Return whether model calls of this turn wait until the schedule chooses them."""
    turns = _turns.current()
    return turns is not None and not turns.calls.is_at_once


def wait_for_thread(is_over: Callable[[], bool]) -> bool:
    """Wait until another thread ends or sleeps; return False if threads take no turns."""
    turns = _turns.current()
    if turns is not None:
        turns.follow(is_over)
    return turns is not None


def wait_for_rest() -> None:
    """Wait until all other threads rest or sleep."""
    turns = _turns.current()
    if turns is not None:
        turns.sleep(0.0)


def _in_turn(turns: ThreadTurns, rank: int, work: Callable[..., Any]) -> Callable[..., Any]:
    def working(*args: Any, **kwargs: Any) -> Any:
        with turns.working(rank):
            return work(*args, **kwargs)

    return working


def _submit(before: Replacement) -> Replacement:
    def submit(self: ThreadPoolExecutor, work: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        turns = _turns.current()
        if turns is not None:
            rank = turns.submitted()
            work = _in_turn(turns, rank, work)
        if is_intercepted():
            args, work = (work, *args), contextvars.copy_context().run
        future: Future[Any] = before(self, work, *args, **kwargs)
        if turns is not None:
            turns.threads.pending(rank, self._work_queue, future)
            turns.threads.watch([*self._threads])
        return future

    return submit


def _start(before: Replacement) -> Replacement:
    def start(self: threading.Thread) -> None:
        turns = _turns.current()
        if turns is None:
            before(self)
            return
        if serves_many(self):
            with turns.threads.starting(self):
                before(self)
            return
        if _serves_connections(self):
            before(self)
            return
        rank = turns.submitted()
        turns.threads.starts(rank, self)
        context = contextvars.copy_context()
        run = _in_turn(turns, rank, partial(_to_its_end, self.run))
        self.run = partial(context.run, run)  # type: ignore[method-assign]
        try:
            before(self)
        except BaseException:
            turns.threads.failed_to_start(rank)
            raise

    return start


def _to_its_end(work: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Do a thread's work; raise only an error that Python shall print."""
    try:
        with suppress(ProgramClosed):  # Its program waits for input that is over.
            work(*args, **kwargs)
    except BaseException as problem:
        if not ended_thread(problem):
            raise


def _serves_connections(thread: threading.Thread) -> bool:
    """Return whether a thread belongs to a server: its loop, or a handler of a connection.

    It takes no turns. Its client waits on the network, which does not count as resting, so that a
    server waiting for its turn would never answer.
    """
    target, arguments = getattr(thread, "_target", None), getattr(thread, "_args", ())
    is_servers = isinstance(getattr(target, "__self__", None), socketserver.BaseServer)
    return is_servers or any(isinstance(argument, socket.socket) for argument in arguments)


def _start_raw(before: Replacement) -> Replacement:
    def start_new_thread(work: Any, args: Any, /, *kwargs: Any) -> int:
        ident: int
        turns = _turns.current()
        if turns is None or not callable(work):
            ident = before(work, args, *kwargs)
            return ident
        rank = turns.submitted()
        context = contextvars.copy_context()
        run = _in_turn(turns, rank, partial(_to_its_end, work))
        turns.threads.starts(rank)
        try:
            ident = before(partial(context.run, run), args, *kwargs)
            return ident
        except BaseException:
            turns.threads.failed_to_start(rank)
            raise

    return start_new_thread


class _Inbox:
    """A thread pool's queue of work, from which the workers take one after the other."""

    def __init__(self, inbox: SimpleQueue[Any], lock: threading.Lock) -> None:
        self._inbox, self._lock = inbox, lock

    def get(self) -> Any:
        """Return the next piece of work, which waits for its turn."""
        with self._lock:
            task = self._inbox.get()
            turns = _turns.current()
            if task is None or turns is None:
                return task
            job, place, work, args, kwds = task
            return job, place, _in_turn(turns, turns.submitted(), work), args, kwds


class _Worker:
    """The function that the threads of a `multiprocessing.pool.ThreadPool` run."""

    serves_many = True

    def __init__(self, before: Replacement) -> None:
        self._before = before

    def __call__(self, inqueue: Any, *args: Any, **kwargs: Any) -> None:
        """Take work until there is no more; in another process nothing changes."""
        if isinstance(inqueue, SimpleQueue):
            inqueue = _Inbox(inqueue, _locks.setdefault(inqueue, threading.Lock()))
        self._before(inqueue, *args, **kwargs)


_locks: Final[WeakKeyDictionary[SimpleQueue[Any], threading.Lock]] = WeakKeyDictionary()

_REPLACED: Final[tuple[Row, ...]] = (
    (ThreadPoolExecutor, "submit", _submit),
    (threading.Thread, "start", _start),
    (_thread, "start_new_thread", _start_raw),
    (_thread, "start_new", _start_raw),
    (process_pool, "worker", _Worker),
)
carrying_contexts: Final = Installation(lambda: _REPLACED)
"""A context manager; several scenarios may enter it at once."""


PATIENCE_S: Final = 10.0
"""Seconds that a loop waits for a thread; a thread that waits for the loop itself continues
after that."""


class SerialExecutor(ThreadPoolExecutor):
    """A pool that finishes its work on submission."""

    def submit(self, work: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = super().submit(work, *args, **kwargs)
        if is_intercepted() and not calls_wait():
            wait([future], PATIENCE_S)
        return future


_loops: Final = "_simkit_in_step"


def keep_in_step() -> None:
    """Let the running event loop wait for its threads while a scenario runs."""
    loop: Any = asyncio.get_running_loop()
    if getattr(loop, _loops, False):
        return
    loop.set_default_executor(SerialExecutor(thread_name_prefix="asyncio"))
    setattr(loop, _loops, True)


class Loops:
    """The event loops that a framework uses in threads without one.

    A framework makes such a loop and leaves it open for its next call; here it ends with a
    scenario.
    """

    def __init__(self) -> None:
        self._loops: dict[int, asyncio.AbstractEventLoop] = {}
        """The loops by thread."""

    def lend(self) -> None:
        """Give this thread a loop, if it has none."""
        # `get_event_loop` would warn, or make a loop; the policies end with Python 3.16
        # (python/cpython#127949).
        known = getattr(getattr(asyncio.get_event_loop_policy(), "_local", None), "_loop", None)
        if known is None or known.is_closed():
            thread = threading.get_ident()
            if thread not in self._loops:
                self._loops[thread] = asyncio.new_event_loop()
            asyncio.set_event_loop(self._loops[thread])

    def close(self) -> None:
        """Close the loops."""
        for loop in self._loops.values():
            loop.run_until_complete(loop.shutdown_default_executor())
            loop.close()
        if threading.get_ident() in self._loops:
            asyncio.set_event_loop(None)
        self._loops.clear()
