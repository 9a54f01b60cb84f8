"""Errors that end a thread or a task of user code, and that no other code takes.

Python prints them and goes on. A turn could end well although a part of the pipeline is dead.
"""

from __future__ import annotations

import gc
import sys
import threading
from asyncio import AbstractEventLoop, CancelledError, Task
from asyncio.base_events import BaseEventLoop
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, Literal, TypeAlias
from weakref import WeakSet

from simkit.adapters.observation import ContextListeners
from simkit.capture.http.installing import Installation, Replacement
from simkit.core.errors import RunHalted

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
        self._has_tasks = self._is_over = False

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
        if self._has_tasks and self._may_have_more():
            gc.collect()

    def end(self) -> None:
        """Report no further errors: the run is over."""
        self._is_over = True

    def watch(self, task: Task[Any]) -> None:
        """Take a task of the run into account."""
        self._tasks.add(task)
        self._has_tasks = True
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

    def _may_have_more(self) -> bool:
        """Return whether there is a task with an error that nobody has looked at."""
        return any(task.done() and task._log_traceback for task in self._tasks.copy())


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
    if losses is None:
        return hasattr(task, _LOSSES)
    return losses.takes("task", problem)


def _in_any_loop(before: Replacement) -> Replacement:
    def default_exception_handler(self: AbstractEventLoop, context: dict[str, Any]) -> None:
        if not _is_heard(context):
            before(self, context)

    return default_exception_handler


def _watching(before: Replacement) -> Replacement:
    def create_task(self: AbstractEventLoop, *args: Any, **kwargs: Any) -> Any:
        task = before(self, *args, **kwargs)
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
