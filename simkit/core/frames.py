"""The frame that each thread of this process runs at the moment."""

from __future__ import annotations

import gc
import sys
from types import FrameType


def current_frames() -> dict[int, FrameType]:
    """Return the frame of each thread, by its identity.

    Python before 3.11.9 collects garbage in the middle of `sys._current_frames`, where it holds a
    lock that the collector waits for: the process hangs for ever, and no signal ends it
    (cpython#106883).
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return sys._current_frames()
    finally:
        if was_enabled:
            gc.enable()
