"""A child process that ends with its parent, whatever it is doing."""

from __future__ import annotations

import _thread
import os
import select
from typing import Final

from simkit.core.stopping import TERMINATED


class Busy:
    """Whether a process is working on a request; if not, it notices the end by itself."""

    def __init__(self) -> None:
        self.now = False


_NOTHING: Final = 0
"""No events to poll for, beside those that are always reported, such as the pipe's end."""


def end_with(pipe: int, busy: Busy) -> None:
    """End this process, if it is busy, as soon as the other end of a pipe is closed.

    The parent has ended, and user code may run for ever. Where pipes cannot be watched (Windows),
    the process ends after its work.
    """
    if not hasattr(select, "poll"):
        return
    watched = select.poll()
    watched.register(pipe, _NOTHING)

    def watch() -> None:
        watched.poll()
        if busy.now:
            os._exit(TERMINATED)

    # A thread of this kind does not count as one of the user's code.
    _thread.start_new_thread(watch, ())
