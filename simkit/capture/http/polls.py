"""Waits for a process, piece by piece: it ends in real time, and no virtual time passes meanwhile.

How often code looks whether a process runs depends on the machine. In virtual time a loop with a
limit would give up before the process has begun. *Not known*: loops that look for a file.
"""

from __future__ import annotations

import subprocess
import threading
from multiprocessing.process import BaseProcess
from types import FrameType
from typing import Any, Final
from weakref import WeakKeyDictionary

from simkit.capture.http.installing import Replacement, Row

_PIECE_MAX_S: Final = 1.0
"""The longest sleep between two looks; a longer one has another purpose."""
_PATIENCE_S: Final = 10.0
"""How long code may wait so for one process, which may never end; then time is virtual again."""


_looks: Final = threading.local()
"""Its ``process`` is what this thread has seen to run since it slept last; else None."""
_waited_s: Final = WeakKeyDictionary[Any, float]()


def _look(before: Replacement) -> Replacement:
    def look(self: Any) -> Any:
        answer = before(self)
        _looks.process = self if answer is None or answer is True else None
        return answer

    return look


LOOKS: Final[tuple[Row, ...]] = (
    (subprocess.Popen, "poll", _look),
    (BaseProcess, "is_alive", _look),
)


def waits_for_process(seconds: float, caller: FrameType) -> bool:
    """Return whether a sleep is a piece of a wait for a process."""
    process, _looks.process = getattr(_looks, "process", None), None
    if process is None or seconds > _PIECE_MAX_S:
        return caller.f_globals is vars(subprocess)
    _waited_s[process] = waited_s = _waited_s.get(process, 0.0) + seconds
    return waited_s <= _PATIENCE_S
