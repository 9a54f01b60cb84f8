"""Threads, thread pools and event loops of user code during a run.

Each piece of work belongs to the code that submits it, and waits for its turn. A worker keeps the
context of the code that started it: without this, its work for others would belong to that agent,
or to no scenario (`simkit.capture.http.request_router`).

Work that an event loop gives to a thread (``asyncio.to_thread``) ends at any time: two parallel
tools would answer in another order from run to run. During a scenario, the loop waits for each of
its threads; but not where a schedule chooses which of the model calls that wait is answered:
threads then take turns.

Python prints errors that end a thread or a task of user code and that no other code takes, and goes
on. A turn could end well although a part of the pipeline is dead: here they are recorded.
"""

from __future__ import annotations

import _thread
import asyncio
import contextvars
import gc
import socket
import socketserver
import sys
import threading
from asyncio import AbstractEventLoop, CancelledError, Task
from asyncio.base_events import BaseEventLoop
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing import pool as process_pool
from queue import SimpleQueue
from typing import Any, Final, Literal, TypeAlias
from weakref import WeakKeyDictionary, WeakSet

from simkit.adapters.concurrency.thread_turns import ThreadTurns
from simkit.adapters.observation import ContextListeners
from simkit.adapters.programs.terminal import ProgramClosed
from simkit.capture.http.guards import serves_many
from simkit.capture.http.installing import Installation, Replacement, Row
from simkit.capture.http.processes import threads_of_runs
from simkit.capture.http.request_router import is_intercepted
from simkit.core.branches import branch_off, make_task
from simkit.core.errors import RunHalted
from simkit.core.gc_pause import current_frames

Ended: TypeAlias = Literal["thread", "task"]
"""The kind of code that an error has ended."""
LossListener: TypeAlias = Callable[[Ended, BaseException], None]

_OF_THE_NETWORK: Final = ("transport", "protocol")
"""Keys of an error that ends a connection: the code that waits for it gets the error, too."""
_NO_ERRORS: Final = (SystemExit, KeyboardInterrupt, GeneratorExit, CancelledError)
"""Exceptions by which code ends that nothing is wrong with."""
_LOSSES: Final = "_simkit_losses"
"""The attribute of a task with the losses of the run that made it; None for nobody's task."""
_CALLERS_MAX: Final = 3
"""The number of functions between a finalizer and a loop: its own, and those of ``asyncio``."""


class Losses:
    """The errors that are lost in one run.

    Python tells the error of a task when that is freed. A task that its own coroutine refers to,
    as in ``self.task = asyncio.create_task(self.work())``, is freed by the collector, perhaps in
    another run or never. So the collector runs after each turn in which such an error may be.
    """

    def __init__(self, listener: LossListener) -> None:
        """``listener`` is called with each error, at any time until the run is over."""
        self._listener = listener
        self._tasks: WeakSet[Task[Any]] = WeakSet()
        self._is_over = False

    @contextmanager
    def heeding(self) -> Iterator[None]:
        """Listen to the code in this context, and to what it starts, for one turn."""
        with _runs.activate(self):
            try:
                yield
            finally:
                self.collect()

    def collect(self) -> None:
        """Let the collector free tasks with errors that nobody has read, if there are any."""
        if any(task.done() and task._log_traceback for task in self._tasks.copy()):
            gc.collect()

    def end(self) -> None:
        """Report no further errors: the run is over."""
        self._is_over = True

    def watch(self, task: Task[Any]) -> None:
        """Take a task of the run into account."""
        self._tasks.add(task)
        with suppress(AttributeError):
            setattr(task, _LOSSES, self)

    def takes(self, ended: Ended, problem: object) -> bool:
        """Report an exception that has ended code; return whether it is an error."""
        if self._is_over or not isinstance(problem, BaseException):
            return False
        if isinstance(problem, _NO_ERRORS):
            return False
        self._listener(ended, problem)
        return True


_runs: Final = ContextListeners[Losses]("simkit_lost_errors")


def ended_thread(problem: BaseException) -> bool:
    """Tell the error that ended this thread; return whether Python need not print it.

    Code with a ``threading.excepthook`` of its own takes such errors itself.
    """
    if isinstance(problem, RunHalted):
        return True  # The end of the run gives the reason.
    if _has_hook():
        return False
    losses = _runs.current()
    is_taken = losses is not None and losses.takes("thread", problem)
    return is_taken or isinstance(problem, SystemExit)


def _has_hook() -> bool:
    """Return whether the code takes errors of threads itself; pytest's hook is not the code's."""
    hook = threading.excepthook
    function = getattr(hook, "func", hook)  # pytest's is a partial.
    is_tests = str(getattr(function, "__module__", "")).startswith("_pytest.")
    return hook is not threading.__excepthook__ and not is_tests


def handle_loss(loop: AbstractEventLoop, context: dict[str, Any]) -> None:
    """Take an error that nobody awaits in a loop, as ``loop.set_exception_handler`` has it."""
    if not _is_heard(context):
        loop.default_exception_handler(context)


def _is_heard(context: dict[str, Any]) -> bool:
    problem = context.get("exception")
    if isinstance(problem, RunHalted):
        return True
    if context.keys() & _OF_THE_NETWORK:
        return False
    task = context.get("future") or context.get("task")
    losses: Losses | None = getattr(task, _LOSSES, _runs.current())
    return hasattr(task, _LOSSES) if losses is None else losses.takes("task", problem)


def _in_any_loop(before: Replacement) -> Replacement:
    def default_exception_handler(self: AbstractEventLoop, context: dict[str, Any]) -> None:
        if not _is_heard(context):
            before(self, context)

    return default_exception_handler


def _watching(before: Replacement) -> Replacement:
    def create_task(self: AbstractEventLoop, *args: Any, **kwargs: Any) -> Any:
        task = make_task(before, self, *args, **kwargs)
        losses = _runs.current()
        if losses is None or not isinstance(task, Task):  # A factory may make other things.
            return task
        if _is_in_finalizer():
            # Clients close themselves so. When an object is collected, no run decides: it may be
            # another run's, whose loop is closed.
            with suppress(AttributeError):
                setattr(task, _LOSSES, None)
        else:
            losses.watch(task)
        return task

    return create_task


def _is_in_finalizer() -> bool:
    """Return whether an object that is being freed makes a task."""
    frame = sys._getframe(2)  # The function that has called the loop.
    for _ in range(_CALLERS_MAX):
        if frame.f_code.co_name == "__del__":
            return True
        if frame.f_back is None:
            return False
        frame = frame.f_back
    return False


hearing_loops: Final = Installation(
    lambda: (
        (BaseEventLoop, "default_exception_handler", _in_any_loop),
        (BaseEventLoop, "create_task", _watching),
    )
)
"""A context manager for the loops that user code makes; several scenarios may enter it at once."""


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
            args, work = (work, *args), branch_off(contextvars.copy_context()).run
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

        def begin(run: Callable[..., Any]) -> None:
            self.run = run  # type: ignore[method-assign]
            threads_of_runs.add(self)
            before(self)

        _begin(turns, self.run, begin, self)

    return start


def _begin(
    turns: ThreadTurns,
    work: Callable[..., Any],
    begin: Callable[[Callable[..., Any]], Any],
    thread: threading.Thread | None = None,
) -> Any:
    """Let ``begin`` start a thread with its work, which takes turns in this context."""
    rank, context = turns.submitted(), branch_off(contextvars.copy_context())
    turns.threads.starts(rank, thread)
    try:
        return begin(partial(context.run, _in_turn(turns, rank, partial(_to_its_end, work))))
    except BaseException:
        turns.threads.failed_to_start(rank)
        raise


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
        ident = _begin(turns, work, lambda run: before(run, args, *kwargs))
        return ident

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
"""Seconds that a loop waits for a thread; a thread that waits for the loop in a way that simkit
does not recognize continues after that."""
_LOOK_S: Final = 0.02
"""Seconds between two looks whether a thread waits for the loop."""
_RESULT: Final = Future.result.__code__


class SerialExecutor(ThreadPoolExecutor):
    """A pool that finishes its work on submission, unless that waits for the loop itself."""

    def submit(self, work: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        if not is_intercepted() or calls_wait():
            return super().submit(work, *args, **kwargs)
        threads: list[int] = []

        def run_here(*args: Any, **kwargs: Any) -> Any:
            threads.append(threading.get_ident())
            return work(*args, **kwargs)

        future: Future[Any] = super().submit(run_here, *args, **kwargs)
        loop = asyncio.get_running_loop()
        for _ in range(int(PATIENCE_S / _LOOK_S)):
            if wait([future], _LOOK_S).done or any(_waits_for(loop, each) for each in threads):
                break
        return future


def _waits_for(loop: AbstractEventLoop, thread: int) -> bool:
    """Return whether a thread waits for a result that the loop has still to begin to make.

    `asyncio.run_coroutine_threadsafe` and ``anyio.from_thread`` give the loop a function that
    holds the future on which they wait. Loops that show no functions (uvloop) are not recognized.
    """
    frame = current_frames().get(thread)
    while frame is not None and frame.f_code is not _RESULT:
        frame = frame.f_back
    if frame is None:
        return False
    future = frame.f_locals["self"]
    functions = [
        getattr(each, "_callback", None) for each in getattr(loop, "_ready", deque()).copy()
    ]
    cells = [cell for each in functions for cell in getattr(each, "__closure__", None) or ()]
    return any(content is future for content in gc.get_referents(*cells))


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
