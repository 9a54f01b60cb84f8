"""A process that another one has started and that ends with it, whatever it is doing."""

from __future__ import annotations

import _thread
import os
import select
from typing import Final

from simkit.core.stopping import TERMINATED


class Busy:
    """Whether a process is doing what it was asked to do; if not, it sees the end by itself."""

    def __init__(self) -> None:
        self.now = False


_NOTHING: Final = 0
"""Events that are waited for: none but those that are always told, such as the pipe's end."""


def end_with(pipe: int, busy: Busy) -> None:
    """End this process, if it is busy, as soon as nobody can write into a pipe any longer.

    Who asked went away, and user code may go on for ever. Where pipes cannot be watched (Windows)
    it ends when it has done what it does.
    """
    if not hasattr(select, "poll"):
        return
    watched = select.poll()
    watched.register(pipe, _NOTHING)

    def watch() -> None:
        watched.poll()
        if busy.now:
            os._exit(TERMINATED)

    # A thread of this kind is not counted among those of the user's code.
    _thread.start_new_thread(watch, ())
