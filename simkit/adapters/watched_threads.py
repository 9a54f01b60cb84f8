"""A watched thread: a thread of a run, observed until it rests."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Container
from operator import attrgetter
from types import FrameType
from typing import Final

from simkit.adapters.waiting_threads import movement

SETTLE_S: Final = 0.02
"""Seconds that a thread must not move while it waits for something unknown.

A thread that only waits for the interpreter runs several times meanwhile.
"""
POLLS_S: Final = 0.5
"""Seconds that a thread is seen at the same wait, although it moves, before it counts as
polling. A working thread is seen elsewhere, too."""


IsOver = Callable[[], bool]


class StoppedThread:
    """A thread that has stopped, and may not continue yet."""

    __slots__ = ("follows", "goes_on", "lock", "rank", "waited_s", "wakes")

    def __init__(self, rank: float, wakes: int | None, follows: IsOver | None) -> None:
        self.rank, self.wakes, self.follows = rank, wakes, follows
        self.waited_s = 0.0
        self.goes_on = False
        self.lock = threading.Lock()
        self.lock.acquire()


class StartingThread:
    """A thread that was started, and has not begun."""

    __slots__ = ("thread", "waited_s")

    def __init__(self, thread: threading.Thread | None) -> None:
        self.thread = thread
        self.waited_s = 0.0
        """Seconds that the others have waited for it."""

    def has_died(self, alive: Container[int]) -> bool:
        """Return whether it ended without having begun; ``alive`` are all living threads."""
        ident = self.thread.ident if self.thread is not None else None
        return ident is not None and ident not in alive


class WatchedThread:
    """A thread of the run."""

    __slots__ = (
        "at",
        "at_s",
        "is_left",
        "last_place",
        "native_id",
        "polls",
        "settled_s",
        "thread",
        "worked_s",
    )  # fmt: skip

    def __init__(self, thread: threading.Thread | None, native_id: int | None = None) -> None:
        """``thread`` is None for one that `threading` does not know."""
        self.thread = thread
        self.native_id = native_id if thread is None else thread.native_id
        self.worked_s = 0.0
        """Seconds that the others have waited for it."""
        self.is_left = False
        """Whether the others no longer wait for it."""
        self.last_place: tuple[object, ...] | None = None
        """Its last position, if it was waiting for something unknown; else None."""
        self.settled_s = 0.0
        """Seconds that it has been in this position."""
        self.at: tuple[int, int] | None = None
        """The call in which it waits for something unknown, whether or not it moved."""
        self.at_s = 0.0
        """Seconds that it has been in this call."""
        self.polls: tuple[int, int] | None = None
        """The call with which it polls; None if it does not."""

    def is_gone(self, ident: int) -> bool:
        """Return whether it has ended; the system then reuses its identifier."""
        active: dict[int, threading.Thread] = threading._active  # type: ignore[attr-defined]
        return self.thread is not None and active.get(ident) is not self.thread

    def has_settled(self, frame: FrameType, waited_s: float) -> bool:
        """Record that it waits for something unknown; return whether it rests."""
        at, moved = (id(frame), frame.f_lasti), movement(self.native_id)
        if at != self.at:
            self.at, self.at_s = at, 0.0
        else:
            self.at_s += waited_s
        if self.at_s >= POLLS_S:
            self.polls = at
        place = (*at, "" if self.polls == at else moved)
        if place != self.last_place or (moved is None and self.polls != at):
            self.last_place, self.settled_s = place, 0.0
        else:
            self.settled_s += waited_s
        return self.settled_s >= max(SETTLE_S, 3 * sys.getswitchinterval())

    def is_waited_for(self, waited_s: float, limit_s: float) -> bool:
        """Record that it does not rest; return whether the others still wait for it."""
        self.worked_s += waited_s
        self.is_left = self.worked_s >= limit_s
        return not self.is_left

    def begin_anew(self) -> None:
        """Reset the waiting time, because a thread has continued."""
        self.last_place, self.settled_s, self.worked_s = None, 0.0, 0.0


def thread_of(ident: int) -> threading.Thread | None:
    """Return a thread known to `threading`; None for one with a placeholder only.

    `threading.current_thread` would make a placeholder, which stays after the thread has ended.
    """
    active: dict[int, threading.Thread] = threading._active  # type: ignore[attr-defined]
    thread = active.get(ident)
    return None if isinstance(thread, threading._DummyThread) else thread


def instructions_of(frames: dict[int, FrameType]) -> dict[int, int]:
    """Return the positions of frames; no thread runs meanwhile, because this is one C call."""
    return dict(zip(frames, map(attrgetter("f_lasti"), frames.values()), strict=True))
