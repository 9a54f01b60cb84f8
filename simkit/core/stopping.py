"""Stopping from outside: SIGTERM stops a command as Ctrl-C does, and neither is lost."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Final

from simkit.core.errors import Terminated

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

TERMINATED: Final = 128 + signal.SIGTERM
"""The exit code of a command that got SIGTERM, as shells count signals."""
_AGAIN_S: Final = 0.005
"""Seconds after which a signal whose exception was lost comes again."""


@contextmanager
def terminable() -> Iterator[None]:
    """Raise Terminated on SIGTERM, unless there is another handler; let no Ctrl-C be lost."""

    def end(number: int, frame: FrameType | None) -> None:
        # Some senders signal a process and its group, so twice; the clean-up must finish.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise Terminated

    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, end)
    try:
        with _raised_again(end):
            yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextmanager
def _raised_again(end: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Raise a signal's exception once more where Python has dropped it.

    A handler runs wherever the process is just then. Python drops what is raised in a callback of
    the garbage collector (Hypothesis has one), in ``__del__`` and in a weak reference's callback.
    """
    before = sys.unraisablehook

    def hook(lost: UnraisableHookArgs) -> None:
        if not issubclass(lost.exc_type, KeyboardInterrupt):
            before(lost)
            return
        number = signal.SIGINT
        if issubclass(lost.exc_type, Terminated):
            number = signal.SIGTERM
            signal.signal(signal.SIGTERM, end)
        # From another thread: raised here, it would be dropped here.
        again = threading.Timer(_AGAIN_S, _send, [number])
        again.daemon = True
        again.start()

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = before


def _send(number: signal.Signals) -> None:
    """Send a signal to the main thread, which may wait in a call of the system."""
    if sys.platform == "win32":
        signal.raise_signal(number)
        return
    main = threading.main_thread().ident
    if main is not None:
        signal.pthread_kill(main, number)
