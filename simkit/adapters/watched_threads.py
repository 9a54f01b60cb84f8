"""A thread of a run, as the others see it that wait for it to come to rest."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Container
from operator import attrgetter
from types import FrameType
from typing import Final

from simkit.adapters.waiting_threads import movement

SETTLE_S: Final = 0.02
"""How long a thread must not move that waits for something unknown.

A thread that only waits for the interpreter is run several times meanwhile.
"""
POLLS_S: Final = 0.5
"""How long a thread is seen at one and the same wait, though it moves, before that is taken for
what it is: waiting by trying again and again. Whoever works is seen elsewhere, too."""


IsOver = Callable[[], bool]


class StoppedThread:
    """A thread that has stopped, and may not go on yet."""

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
        """How long the others have waited for it."""

    def has_died(self, alive: Container[int]) -> bool:
        """Return whether it ended without having begun; ``alive`` are all threads that live."""
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
        """``thread`` is None for one that `threading` knows nothing of."""
        self.thread = thread
        self.native_id = native_id if thread is None else thread.native_id
        self.worked_s = 0.0
        """How long the others have waited for it."""
        self.is_left = False
        """Whether nobody waits for it any longer."""
        self.last_place: tuple[object, ...] | None = None
        """How it was seen the last time, if it was waiting for something unknown."""
        self.settled_s = 0.0
        """How long it has been seen so."""
        self.at: tuple[int, int] | None = None
        """The call in which it was seen waiting for something unknown, whether it moved or not."""
        self.at_s = 0.0
        """How long it has been seen there."""
        self.polls: tuple[int, int] | None = None
        """The call by which it waits, trying again and again."""

    def is_gone(self, ident: int) -> bool:
        """Return whether it has ended; the system gives its identifier to another one then."""
        active: dict[int, threading.Thread] = threading._active  # type: ignore[attr-defined]
        return self.thread is not None and active.get(ident) is not self.thread

    def has_settled(self, frame: FrameType, waited_s: float) -> bool:
        """Note that it is seen waiting for something unknown; return whether it is at rest."""
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
        """Note that it is not at rest; return whether it is waited for any longer."""
        self.worked_s += waited_s
        self.is_left = self.worked_s >= limit_s
        return not self.is_left

    def begin_anew(self) -> None:
        """Forget how long it was waited for: somebody has gone on."""
        self.last_place, self.settled_s, self.worked_s = None, 0.0, 0.0


def thread_of(ident: int) -> threading.Thread | None:
    """Return a thread as `threading` knows it; None for one that it has only a stand-in for.

    Asking it for the current thread would make a stand-in, which stays when the thread has ended.
    """
    active: dict[int, threading.Thread] = threading._active  # type: ignore[attr-defined]
    thread = active.get(ident)
    return None if isinstance(thread, threading._DummyThread) else thread


def instructions_of(frames: dict[int, FrameType]) -> dict[int, int]:
    """Return where frames are; no thread goes on while they are read, as no Python code runs."""
    return dict(zip(frames, map(attrgetter("f_lasti"), frames.values()), strict=True))
