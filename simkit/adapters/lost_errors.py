"""Errors that end a thread or a task of user code, and that no other code takes.

Python prints them and goes on. A turn could end well although a part of the pipeline is dead.
"""

from __future__ import annotations

import threading
from asyncio import AbstractEventLoop
from asyncio.base_events import BaseEventLoop
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Final, Literal, TypeAlias

from simkit.adapters.scoping import ContextListeners
from simkit.capture.http.installing import Installation, Replacement
from simkit.core.errors import RunHalted

Ended: TypeAlias = Literal["thread", "task"]
"""The kind of code that an error has ended."""
LossListener: TypeAlias = Callable[[Ended, Exception], None]

_listeners: Final = ContextListeners[LossListener]("simkit_lost_errors")
_OF_THE_NETWORK: Final = ("transport", "protocol")
"""Keys of an error that ends a connection: the code that waits for it gets the error, too."""


def heeding_losses(listener: LossListener) -> AbstractContextManager[None]:
    """Call ``listener`` with each error that is lost in this context, or in what it starts."""
    return _listeners.activate(listener)


def ended_thread(problem: BaseException) -> bool:
    """Tell the error that ended this thread; return whether Python need not print it.

    Code with a ``threading.excepthook`` of its own takes such errors itself.
    """
    if isinstance(problem, RunHalted):
        return True  # The end of the run gives the reason.
    if _has_hook():
        return False
    return isinstance(problem, SystemExit) or _is_told("thread", problem)


def _has_hook() -> bool:
    """Return whether the code takes errors of threads itself; pytest's hook is not the code's."""
    hook = threading.excepthook
    function = getattr(hook, "func", hook)  # pytest's is a partial.
    is_tests = str(getattr(function, "__module__", "")).startswith("_pytest.")
    return hook is not threading.__excepthook__ and not is_tests


def _is_told(ended: Ended, problem: object) -> bool:
    listener = _listeners.current()
    if listener is None or not isinstance(problem, Exception):
        return False
    listener(ended, problem)
    return True


def handle_loss(loop: AbstractEventLoop, context: dict[str, Any]) -> None:
    """Take an error that nobody awaits in a loop, as ``loop.set_exception_handler`` has it."""
    if not _is_heard(context):
        loop.default_exception_handler(context)


def _is_heard(context: dict[str, Any]) -> bool:
    problem = context.get("exception")
    if isinstance(problem, RunHalted):
        return True
    return not context.keys() & _OF_THE_NETWORK and _is_told("task", problem)


def _in_any_loop(before: Replacement) -> Replacement:
    def default_exception_handler(self: AbstractEventLoop, context: dict[str, Any]) -> None:
        if not _is_heard(context):
            before(self, context)

    return default_exception_handler


hearing_loops: Final = Installation(
    lambda: ((BaseEventLoop, "default_exception_handler", _in_any_loop),)
)
"""A context manager for the loops that user code makes; several scenarios may enter it at once."""
