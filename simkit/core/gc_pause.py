"""The garbage collector: paused while simkit works, never while user code runs; frames."""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

SPARED_MIN: Final = 10_000
"""The number of new objects from which on a pause spares the collector the walk through them."""
FROZEN_MAX: Final = 2_000
"""The number of objects, at most, that Python itself keeps frozen: 3.12 does so with those that
never end. A program that freezes what it has loaded freezes more."""
RARE: Final = 100_000
"""The number of new objects after which rare collections look at them."""
SPARED_MAX: Final = 500_000
"""The number of objects that are spared before all of them are collected."""


class _Collector:
    """The collector of this process, which several threads may want paused at once.

    It is paused while at least one thread wants that and no thread runs user code. If user code
    itself turned it off or on, it stays so.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()  # Finalizers may call this again.
        self._pauses = 0
        self._user_calls = 0
        self._is_paused = False
        self._spared = 0
        """The number of objects that were spared since all were collected."""
        self._is_frozen = False
        """Whether the program was seen to keep objects frozen, which it hardly ever ends."""

    def change(self, pauses: int = 0, user_calls: int = 0) -> None:
        """Change the number of pauses and of running user calls."""
        with self._lock:
            self._pauses += pauses
            self._user_calls += user_calls
            is_wanted = self._pauses > 0 and not self._user_calls
            if is_wanted and not self._is_paused and gc.isenabled():
                gc.disable()
                self._is_paused = True
            elif not is_wanted and self._is_paused:
                self._is_paused = False
                self._spare()
                gc.enable()

    def _spare(self) -> None:
        """Make the objects of a long pause old ones, without a walk through them.

        They are a trace, and live on. The collector would read each of them at once, which takes a
        tenth of the time of a run of a thousand turns, and free nothing. Objects that somebody has
        frozen would thaw.
        """
        new = gc.get_count()[0]
        if new < SPARED_MIN or self._is_frozen:
            return
        # It walks through all of them, so 10 ms for a million: it is asked until it says yes.
        self._is_frozen = gc.get_freeze_count() > FROZEN_MAX
        if self._is_frozen:
            return
        self._spared += new
        gc.freeze()
        gc.unfreeze()
        if self._spared > SPARED_MAX:
            # Freezing also resets the count after which the collector would read old objects.
            self._spared = 0
            gc.collect()


_collector: Final = _Collector()


class _Change:
    """A context manager in which the collector is wanted paused, or user code runs."""

    def __init__(self, pauses: int = 0, user_calls: int = 0, *, freezes: bool = False) -> None:
        """``freezes`` leaves what was made inside out of all later collections."""
        self._pauses, self._user_calls, self._freezes = pauses, user_calls, freezes

    def __enter__(self) -> None:
        _collector.change(self._pauses, self._user_calls)

    def __exit__(self, *problem: object) -> None:
        _collector.change(-self._pauses, -self._user_calls)
        if self._freezes:
            gc.freeze()


gc_paused: Final = _Change(pauses=1)
"""A context manager that pauses the collector for simkit's own work.

For work that makes many values and drops most: each collection would walk all of them, free
nothing, and then count the survivors as old. Call user code inside it in `collected_meanwhile`.
"""
collected_meanwhile: Final = _Change(user_calls=1)
"""A context manager that lets the collector run for user code, even if it is paused.

User code may make cycles that hold much memory; only the collector frees them.
"""
imports_frozen: Final = _Change(pauses=1, freezes=True)
"""A context manager for the imports of a command, before any user code.

Modules live until the process ends. The collector does not run while they are made, and leaves
them out of later collections and of the one at exit, which together took a third of the time
of a command with one small scenario.
"""


@contextmanager
def collected_rarely() -> Iterator[None]:
    """Let the collector run rarely while an application is imported, whose modules live on.

    It takes a quarter of that time. It is not paused: an import may make cycles that hold much
    memory.
    """
    usual = gc.get_threshold()
    rare = (RARE, *usual[1:])
    gc.set_threshold(*rare)
    try:
        yield
    finally:
        if gc.get_threshold() == rare:  # Else it is the application's.
            gc.set_threshold(*usual)


# The thread of a copy of this process has the original's number.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: threading.current_thread()._set_native_id())  # type: ignore[attr-defined]


def native_ids() -> set[int | None]:
    """Return the system's numbers of this process's threads, also of those Python does not know."""
    listed = {int(task.name) for task in Path("/proc/self/task").glob("*")}
    return {*listed} or {thread.native_id for thread in threading.enumerate()}


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
