"""Waits for a process, piece by piece: it ends in real time, and no virtual time passes meanwhile.

How often code looks whether a process runs depends on the machine. In virtual time a loop with a
limit would give up before the process has begun. *Not known*: loops that look for a file.
"""

from __future__ import annotations

import subprocess
import threading
from types import FrameType
from typing import Any, Final
from weakref import WeakKeyDictionary

_PIECE_MAX_S: Final = 1.0
"""The longest sleep between two looks; a longer one has another purpose."""
_PATIENCE_S: Final = 10.0
"""How long code may wait so for one process, which may never end; then time is virtual again."""


_waited_s: Final = WeakKeyDictionary[Any, float]()


class Looks(threading.local):
    """The looks of each thread of a turn at processes, since it slept last."""

    process: Any = None
    """The process that still ran; None if there is none."""

    def add(self, process: Any, answer: object) -> None:
        """Take the answer of a process that was asked whether it runs."""
        self.process = process if answer is None or answer is True else None

    def explain(self, seconds: float, caller: FrameType) -> bool:
        """Return whether a sleep is a piece of a wait for a process."""
        process, self.process = self.process, None
        if process is None or seconds > _PIECE_MAX_S:
            return caller.f_globals is vars(subprocess)
        _waited_s[process] = waited_s = _waited_s.get(process, 0.0) + seconds
        return waited_s <= _PATIENCE_S
