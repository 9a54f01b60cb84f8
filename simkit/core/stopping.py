"""Stopping from outside: SIGTERM stops a command as Ctrl-C does."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from simkit.core.errors import Terminated

TERMINATED: Final = 128 + signal.SIGTERM
"""The exit code of a command that got SIGTERM, as shells count signals."""


@contextmanager
def terminable() -> Iterator[None]:
    """Raise Terminated on SIGTERM, unless there is another handler."""

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
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
