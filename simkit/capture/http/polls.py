"""Waits for a process, piece by piece: it ends in real time, and no virtual time passes meanwhile.

How often code looks whether a process runs, or has written a file, depends on the machine. In
virtual time a loop with a limit would give up before the process has begun. *Not known*: loops
that try to open a file, or list a folder.
"""

from __future__ import annotations

import os
import subprocess
import threading
from contextlib import suppress
from types import FrameType
from typing import Any, Final
from weakref import WeakKeyDictionary, WeakSet

_PIECE_MAX_S: Final = 1.0
"""The longest sleep between two looks; a longer one has another purpose."""
_PATIENCE_S: Final = 10.0
"""How long code may wait so for one process, which may never end; then time is virtual again."""


_waited_s: Final = WeakKeyDictionary[Any, float]()


class Looks(threading.local):
    """The looks of each thread of a run at its processes and their files, since it slept last."""

    def __init__(self, started: WeakSet[Any]) -> None:
        """``started`` are the processes of the run, for all of its threads."""
        self.started = started
        self.process: Any = None
        """The process that ran when a thread saw that it is not over, or that a file is missing."""

    def running(self) -> Any:
        """Return the first process of the run that has not ended; None if there is none."""
        running = (process for process in [*self.started] if _runs(process))
        return min(running, key=lambda process: process.pid, default=None)

    def explain(self, seconds: float, caller: FrameType) -> bool:
        """Return whether a sleep is a piece of a wait for a process."""
        process, self.process = self.process, None
        if process is None or seconds > _PIECE_MAX_S:
            return caller.f_globals is vars(subprocess)
        _waited_s[process] = waited_s = _waited_s.get(process, 0.0) + seconds
        return waited_s <= _PATIENCE_S


def _runs(process: Any) -> bool:
    """Return whether a process has not ended, and leave its end to who waits for that."""
    with suppress(ChildProcessError, ValueError, AttributeError):  # Over, closed, not known here.
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    return False
