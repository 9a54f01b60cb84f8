"""The threads of a run, as simkit watches them: which have begun, and whether all rest.

A thread rests when it has ended, has stopped, or waits for another one
(`simkit.adapters.concurrency.frames`). Threads are checked one after the other, so that a result
counts only if none has moved meanwhile.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Container, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any, Final

from simkit.adapters.concurrency.frames import (
    BY_THREADS,
    Waiting,
    awaits_thread,
    awaits_work,
    descriptor,
    idle_worker,
    instructions_of,
    loop_at,
    movement,
    thread_of,
    waiting,
)
from simkit.capture.http.places import place, user_frame
from simkit.capture.http.timers import waits_outside
from simkit.core.gc_pause import current_frames, native_ids

SETTLE_S: Final = 0.02
"""Seconds that a thread must not move while it waits for something unknown.

A thread that only waits for the interpreter runs several times meanwhile.
"""


POLLS_S: Final = 0.5
"""Seconds that a thread is seen at the same wait, although it moves, before it counts as
polling. A working thread is seen elsewhere, too."""


@dataclass(slots=True)
class StartingThread:
    """A thread that was started, and has not begun."""

    thread: threading.Thread | None
    waited_s: float = 0.0
    """Seconds that the others have waited for it."""


@dataclass(slots=True)
class WatchedThread:
    """A thread of the run."""

    thread: threading.Thread | None
    """None for one that `threading` does not know."""
    native_id: int | None = None
    worked_s: float = 0.0
    """Seconds that the others have waited for it."""
    is_left: bool = False
    """Whether the others no longer wait for it."""
    last_place: tuple[object, ...] | None = None
    """Its last position, if it was waiting for something unknown; else None."""
    settled_s: float = 0.0
    """Seconds that it has been in this position."""
    at: tuple[int, int] | None = None
    """The call in which it waits for something unknown, whether or not it moved."""
    at_s: float = 0.0
    """Seconds that it has been in this call."""
    polls: tuple[int, int] | None = None
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
        position = (*at, "" if self.polls == at else moved)
        if position != self.last_place or (moved is None and self.polls != at):
            self.last_place, self.settled_s = position, 0.0
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


LIMIT_S: Final = 10.0
"""Seconds that stopped threads wait for one that does not rest."""


class WatchedThreads:
    """The threads of one run. Methods without a lock of their own are called with the run's."""

    def __init__(
        self, lock: threading.RLock, home: str, owners: tuple[object, ...], files: tuple[str, ...]
    ) -> None:
        """``lock`` is the run's; ``owners`` are objects whose code, in ``files``, takes it, too.

        ``home`` is the top-level package of the pipeline.
        """
        self._lock, self._home, self._owners = lock, home, (self, *owners)
        self._own_files = frozenset((__file__, *files))
        self.pipes: Callable[[], Container[int]] = tuple
        """Returns the pipes of servers of the scenario, at which their clients read."""
        self.left: list[str] = []
        """Places of threads that the others no longer waited for."""
        self._watched: dict[int, WatchedThread] = {}
        self._native_ids: set[int | None] = set()
        """The system's numbers of all threads of the run, also of those that have ended."""
        self._started_threads: set[int] = set()
        """The ranks of work that began before its pool had reported it as submitted."""
        self._starting: dict[object, StartingThread] = {}
        """Started threads that have not begun, by rank; a pool's worker by itself."""
        self._pending: dict[int, tuple[object, Future[Any]]] = {}
        """Rank to a pool's queue, and the future of submitted work that has not begun."""

    # Beginnings and ends

    def starts(self, rank: int, thread: threading.Thread | None = None) -> None:
        """Record that a thread is being started, which calls `working`."""
        with self._lock:
            self._starting[rank] = StartingThread(thread)

    def failed_to_start(self, rank: int) -> None:
        """Record that a thread could not be started."""
        with self._lock:
            self._starting.pop(rank, None)

    @contextmanager
    def starting(self, worker: threading.Thread) -> Iterator[None]:
        """Start a pool's worker: its starter waits for it, though it is not watched yet."""
        with self._lock:
            self._starting[worker] = StartingThread(worker)
        try:
            yield
            self.watch([worker])
        finally:
            with self._lock:
                self._starting.pop(worker, None)

    def pending(self, rank: int, queue: object, future: Future[Any]) -> None:
        """Record that a pool, by its queue, has accepted work, which calls `working`."""
        with self._lock:
            if rank not in self._started_threads:
                self._pending[rank] = queue, future
            self._started_threads.discard(rank)

    def watch(self, threads: Iterable[threading.Thread]) -> None:
        """Watch threads that take submitted work, such as a pool's workers."""
        with self._lock:
            for thread in threads:
                if thread.ident is not None:
                    self._watch(thread.ident, thread)

    def _watch(self, ident: int, thread: threading.Thread | None) -> None:
        # The system reuses the identifiers of ended threads.
        watched = self._watched.get(ident)
        if watched is None or watched.thread is not thread:
            number = threading.get_native_id() if thread is None else thread.native_id
            self._watched[ident] = WatchedThread(thread, number)
            self._native_ids.add(number)

    def begin(self, ident: int, rank: int) -> threading.Thread | None:
        """Record that a thread begins started or submitted work; return it, if Python knows it."""
        thread = thread_of(ident)
        self._watch(ident, thread)
        self._starting.pop(rank, None)
        if self._pending.pop(rank, None) is None:
            self._started_threads.add(rank)
        return thread

    def lead(self, ident: int) -> WatchedThread | None:
        """Record that this thread leads a turn; return how it was watched before."""
        before = self._watched.pop(ident, None)
        self._watch(ident, thread_of(ident))
        return before

    def forget(self, ident: int) -> None:
        """Watch a thread no longer."""
        self._watched.pop(ident, None)

    def come_back(self, ident: int) -> None:
        """Let the others wait again for a thread that has stopped."""
        watched = self._watched.get(ident)
        if watched is not None:
            watched.is_left, watched.worked_s = False, 0.0

    def begin_anew(self) -> None:
        """Reset the waiting times of threads, because one has continued."""
        for watched in self._watched.values():
            watched.begin_anew()

    def are_only(self, ident: int) -> bool:
        """Return whether there is no other thread."""
        return not self._starting and all(each == ident for each in self._watched)

    def only_wait(self, me: int) -> bool:
        """Return whether all other threads of the process wait for one another.

        Threads that were started by no `threading.Thread` are simkit's own.
        """
        frames = current_frames()
        known = self._native_ids.union(thread.native_id for thread in threading.enumerate())
        awake = sum(not awaits_thread(each) for each in native_ids() - known)
        if self._starting or awake > sum(thread_of(ident) is None for ident in frames):
            return False  # It begins, or native code's thread may wake one.
        return all(
            (not waits_outside(loop) if (loop := loop_at(frame)) else frame.f_code in BY_THREADS)
            and self.waiting(frame, ident, frames) != "no"
            for ident, frame in frames.items()
            if ident != me and (ident in self._watched or thread_of(ident) is not None)
        )

    def unfinished(self) -> frozenset[int]:
        """Return the identifiers of the other threads that are busy."""
        frames = current_frames()
        del frames[threading.get_ident()]
        with self._lock:
            return frozenset(
                ident
                for ident, watched in self._watched.items()
                if not watched.is_gone(ident)
                and (frame := frames.get(ident)) is not None
                and not awaits_work(frame, frames)
            )

    # Rest

    def rest(self, resting: Iterable[int], stopped: Container[int], waited_s: float) -> bool:
        """Return whether all rest except the given ones, which wait for that.

        ``stopped`` are those that wait for their turn, ``waited_s`` the time since the last check.
        """
        frames = current_frames()
        if self._are_starting(frames, waited_s):
            return False
        counts = instructions_of(frames)
        unknown: list[tuple[WatchedThread, FrameType]] = []
        is_resting = True
        for ident, watched in [*self._watched.items()]:
            if ident in resting or ident in stopped or watched.is_left:
                continue
            frame = frames.get(ident)
            # Without a frame it is about to end, and to wake the threads that wait for that.
            reason = "no" if frame is None else self._reason(watched, frame, ident, frames)
            if reason == "perhaps" and frame is not None:
                unknown.append((watched, frame))
            elif reason == "no" and self._is_waited_for(watched, frame, waited_s):
                is_resting = False
        is_resting &= self._is_as_seen(frames, counts, stopped, waited_s)
        # A thread woken by one that rests now has moved, or is about to: these are checked last.
        waited_s = waited_s if is_resting else 0.0
        for watched, frame in unknown:
            if not watched.has_settled(frame, waited_s):
                is_resting &= not self._is_waited_for(watched, frame, waited_s)
        return is_resting

    def _are_starting(self, alive: dict[int, FrameType], waited_s: float) -> bool:
        """Forget threads that ended; return whether a started one is still expected to begin."""
        self._watched = {i: each for i, each in self._watched.items() if not each.is_gone(i)}
        for rank, starting in [*self._starting.items()]:
            starting.waited_s += waited_s
            ident = getattr(starting.thread, "ident", None)
            if ident is not None and ident not in alive:  # It ended without having begun.
                del self._starting[rank]
            elif starting.waited_s >= LIMIT_S:
                del self._starting[rank]
                self.left.append("")
        return bool(self._starting)

    def _is_as_seen(
        self,
        frames: dict[int, FrameType],
        counts: dict[int, int],
        stopped: Container[int],
        waited_s: float,
    ) -> bool:
        """Return whether each thread of the run is where it was, or none waits for it."""
        frames_now = current_frames()
        now = instructions_of(frames_now)
        is_as_seen = True
        for ident, watched in [*self._watched.items()]:
            if ident == threading.get_ident() or ident in stopped or watched.is_left:
                continue
            frame = frames_now.get(ident)
            if frame is not frames.get(ident) or now.get(ident) != counts.get(ident):
                is_as_seen &= not self._is_waited_for(watched, frame, waited_s)
        return is_as_seen

    def _reason(
        self, watched: WatchedThread, frame: FrameType, ident: int, frames: dict[int, FrameType]
    ) -> Waiting:
        reason, pipes = self.waiting(frame, ident, frames), self.pipes()
        is_reader = reason == "no" and pipes and descriptor(watched.native_id) in pipes
        return "perhaps" if is_reader else reason

    def waiting(self, frame: FrameType, ident: int, frames: dict[int, FrameType]) -> Waiting:
        """Return whether a thread rests where it is; ``perhaps`` until it was seen long enough."""
        queue = idle_worker(frame)
        self._pending = {k: item for k, item in self._pending.items() if not item[1].done()}
        if queue is not None and any(item[0] is queue for item in self._pending.values()):
            return "no"  # It is about to take work from a pool's queue.
        if frame.f_code.co_filename in self._own_files:
            # It is about to stop or to continue, when this releases the lock; in another run it may
            # have stopped for long.
            return "no" if frame.f_locals.get("self") in (*self._owners, None) else "yes"
        return waiting(frame, ident, frames)

    def _is_waited_for(
        self, watched: WatchedThread, frame: FrameType | None, waited_s: float
    ) -> bool:
        if watched.is_waited_for(waited_s, LIMIT_S):
            return True
        user = user_frame(frame, self._home, nearest=True)
        near = user if user is not None else frame
        self.left.append(place(near) if near is not None else "")
        return False
