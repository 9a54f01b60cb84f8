"""The garbage collector, paused while simkit works, and never while user code does."""

from __future__ import annotations

import gc
import threading
from typing import Final


class _Collector:
    """The one collector of this process, which several threads may want paused at once.

    It is paused while somebody wants that and no user code is at work in any thread. What user
    code itself switches on or off stays so.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()  # Finalizers may come back here.
        self._pauses = 0
        self._user_calls = 0
        self._is_paused = False

    def change(self, pauses: int = 0, user_calls: int = 0) -> None:
        """Count one more, or one less, of those who want a pause or forbid it."""
        with self._lock:
            self._pauses += pauses
            self._user_calls += user_calls
            is_wanted = self._pauses > 0 and not self._user_calls
            if is_wanted and not self._is_paused and gc.isenabled():
                gc.disable()
                self._is_paused = True
            elif not is_wanted and self._is_paused:
                self._is_paused = False
                gc.enable()


_collector: Final = _Collector()


class _Pausing:
    __slots__ = ()

    def __enter__(self) -> None:
        _collector.change(pauses=1)

    def __exit__(self, *problem: object) -> None:
        _collector.change(pauses=-1)


class _Running:
    __slots__ = ()

    def __enter__(self) -> None:
        _collector.change(user_calls=1)

    def __exit__(self, *problem: object) -> None:
        _collector.change(user_calls=-1)


_PAUSING: Final = _Pausing()
_RUNNING: Final = _Running()


def gc_paused() -> _Pausing:
    """Return a context manager that pauses the collector for work of simkit's own.

    For work that makes many values and lets go of most: each collection would walk all that are
    there to find nothing, and then count those that it saw as old. User code that is called
    inside is called in `collected_meanwhile`.
    """
    return _PAUSING


def collected_meanwhile() -> _Running:
    """Return a context manager that lets the collector run for user code, whoever paused it.

    User code may make cycles, and hold much memory by them; only the collector frees that.
    """
    return _RUNNING
