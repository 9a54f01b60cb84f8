"""What ends a command from outside: SIGTERM stops it as Ctrl-C does."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from simkit.core.errors import Terminated

TERMINATED: Final = 128 + signal.SIGTERM
"""The exit code of a command that was told to end, as shells count signals."""


@contextmanager
def terminable() -> Iterator[None]:
    """Raise Terminated where this process is told to end, unless somebody else listens."""

    def end(number: int, frame: FrameType | None) -> None:
        # Some send it twice, to a process and to its group; what is under way is to come to an end.
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
