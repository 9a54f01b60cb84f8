"""Threads of a pipeline take turns, so that a run is the same every time.

A thread stops where simkit sees it: when it begins, and before each model call, tool call and mark.
Once all that runs has come to rest, those that have stopped go on one after the other, in the
order in which they were started or submitted; each until it rests again. Threads that sleep go on
when nobody else can, in the order of virtual time.

A thread is at rest when it has ended, has stopped here, or waits for another one
(`simkit.adapters.waiting_threads`). All are looked at one after the other, so what is seen counts
only if nobody has moved meanwhile. One that works is waited for, but no longer than `LIMIT_S` of
real time: then it is told, and nobody waits for it until it stops here by itself.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from operator import attrgetter
from types import FrameType
from typing import Any, Final, Literal

from simkit.adapters.waiting_threads import idle_worker, movement, waiting
from simkit.transports.places import place, user_frame

LIMIT_S: Final = 10.0
"""How long threads that have stopped wait for one that works."""
SETTLE_S: Final = 0.02
"""How long a thread must not move that waits for something unknown.

A thread that only waits for the interpreter is run several times meanwhile.
"""
_POLLS_S: Final = (0.0002, 0.0002, 0.0005, 0.001, 0.002, 0.005)

Rest = Literal["no", "yes", "perhaps"]


class _Stopped:
    """A thread that has stopped, and may not go on yet."""

    __slots__ = ("goes_on", "lock", "rank", "wakes")

    def __init__(self, rank: float, wakes: int | None) -> None:
        self.rank, self.wakes = rank, wakes
        self.goes_on = False
        self.lock = threading.Lock()
        self.lock.acquire()


class _Watched:
    """A thread of the run."""

    __slots__ = ("is_left", "thread", "worked_s")

    def __init__(self, thread: threading.Thread | None) -> None:
        self.thread = thread
        self.worked_s = 0.0
        """How long the others have waited for it."""
        self.is_left = False
        """Whether nobody waits for it any longer."""


class ThreadTurns:
    """The threads of one run; all methods may be called from any thread."""

    def __init__(
        self, now: Callable[[], int], advance_to: Callable[[int], None], home: str = ""
    ) -> None:
        """``now`` and ``advance_to`` are the virtual clock's, in milliseconds.

        ``home`` is the top-level package of the pipeline.
        """
        self._now, self._advance_to, self._home = now, advance_to, home
        self.left: list[str] = []
        """Where threads were that the others no longer waited for."""
        self._lock = threading.Lock()
        self._submitted = 0
        self._ranks: dict[int, int] = {}
        """Thread to the rank of what it does."""
        self._watched: dict[int, _Watched] = {}
        self._begun: set[int] = set()
        """The ranks of what began before its pool had said that it took it in."""
        self._starting: set[object] = set()
        """The ranks of threads that were started and have not begun; of pools' workers, they."""
        self._pending: dict[int, tuple[object, Future[Any]]] = {}
        """Rank to a pool's queue, and what becomes of what was submitted and has not begun."""
        self._stopped: dict[int, _Stopped] = {}
        """By thread."""
        self._next: list[_Stopped] = []
        """Those that stopped before anybody of them went on."""
        self._settling: tuple[object, ...] = ()
        self._settled_s = 0.0
        self._moves = 0
        """How often anybody has begun or ended something, or has stopped or gone on."""
        self.is_led = False
        """Whether a turn is being taken; between turns nobody goes on."""
        self._is_over = False

    # What is started and submitted

    def submitted(self) -> int:
        """Return the rank of what is being started or submitted."""
        with self._lock:
            self._submitted += 1
            return self._submitted

    def starts(self, rank: int) -> None:
        """Note that a thread is being started, which goes through `working`."""
        with self._lock:
            self._starting.add(rank)

    def failed_to_start(self, rank: int) -> None:
        """Note that a thread could not be started."""
        with self._lock:
            self._starting.discard(rank)

    @contextmanager
    def starting(self, worker: threading.Thread) -> Iterator[None]:
        """Start a pool's worker: who starts it waits for it, though it is not watched yet."""
        with self._lock:
            self._starting.add(worker)
        try:
            yield
            self.watch([worker])
        finally:
            with self._lock:
                self._starting.discard(worker)

    def pending(self, rank: int, queue: object, future: Future[Any]) -> None:
        """Note that a pool has taken in what goes through `working`, by its queue."""
        with self._lock:
            if rank not in self._begun:
                self._pending[rank] = queue, future
            self._begun.discard(rank)

    def watch(self, threads: Iterable[threading.Thread]) -> None:
        """Watch threads that take what is submitted, such as a pool's workers."""
        with self._lock:
            for thread in threads:
                if thread.ident is not None:
                    self._watch(thread.ident, thread)

    def _watch(self, ident: int, thread: threading.Thread) -> None:
        # The system gives the identifier of a thread that has ended to the next one that starts.
        watched = self._watched.get(ident)
        if watched is None or watched.thread is not thread:
            self._watched[ident] = _Watched(thread)

    @contextmanager
    def working(self, rank: int) -> Iterator[None]:
        """Do what was started or submitted, when it has its turn."""
        me = threading.get_ident()
        with self._lock:
            before = self._ranks.get(me)
            self._ranks[me] = rank
            self._moves += 1
            self._watch(me, threading.current_thread())
            self._starting.discard(rank)
            if self._pending.pop(rank, None) is None:
                self._begun.add(rank)
        try:
            self.stop()
            yield
        finally:
            with self._lock:
                self._moves += 1
                if before is None:
                    self._ranks.pop(me, None)
                else:
                    self._ranks[me] = before

    @contextmanager
    def led(self) -> Iterator[None]:
        """Run a turn in this thread; at its end all others come to rest."""
        me = threading.get_ident()
        with self._lock:
            before = self._watched.get(me)
            self._watched[me] = _Watched(threading.current_thread())
            self._ranks[me] = 0
            self.is_led = True
        try:
            try:
                yield
            except Exception:
                self._come_to_rest(me)
                raise
            self._come_to_rest(me)
        finally:
            with self._lock:
                self.is_led = False
                self._ranks.pop(me, None)
                if before is None:
                    self._watched.pop(me, None)

    def end(self) -> None:
        """Let everybody go on who has stopped; nobody stops from now on."""
        with self._lock:
            self._is_over = True
            for stopped in self._stopped.values():
                self._go_on(stopped)
            self._stopped.clear()
            self._next.clear()
            self._settling = ()

    @property
    def is_over(self) -> bool:
        """Whether the run is over."""
        return self._is_over

    # Stopping

    def stop(self) -> None:
        """Stop this thread until it has its turn; at once where no other one runs."""
        self._stop(None)

    def sleep(self, seconds: float) -> None:
        """Stop this thread until all others rest and virtual time has come so far."""
        self._stop(self._now() + round(seconds * 1_000))

    def _stop(self, wakes: int | None) -> None:
        me = threading.get_ident()
        with self._lock:
            self._moves += 1
            self._come_back(me)
            if self._is_over or self._goes_at_once(me):
                if wakes is not None:
                    self._advance_to(wakes)
                return
            rank = self._ranks.get(me)
            if rank is None:  # Nobody has seen how it was started: those go last.
                self._submitted += 1
            stopped = _Stopped(1e9 + self._submitted if rank is None else rank, wakes)
            self._stopped[me] = stopped
        try:
            self._wait(stopped)
        finally:
            with self._lock:
                if self._stopped.get(me) is stopped:  # It was interrupted.
                    del self._stopped[me]
                    self._next = [one for one in self._next if one is not stopped]

    def _come_back(self, me: int) -> None:
        watched = self._watched.get(me)
        if watched is not None:
            watched.is_left, watched.worked_s = False, 0.0

    def _goes_at_once(self, me: int) -> bool:
        if not self.is_led:
            return me not in self._ranks  # Nobody of the run: code that builds the pipeline.
        if self._stopped or self._next:
            return False
        is_alone = not self._starting and all(ident == me for ident in self._watched)
        return is_alone or self._rest({me}) == "yes"

    def _wait(self, stopped: _Stopped) -> None:
        polls = 0
        while not stopped.goes_on:
            wait_s = _POLLS_S[min(polls, len(_POLLS_S) - 1)]
            with self._lock:
                if not stopped.goes_on and self._asks(stopped):
                    self._advance(wait_s)
                else:
                    wait_s = 0.05
            polls += 1
            if not stopped.goes_on:
                stopped.lock.acquire(timeout=wait_s)

    def _asks(self, stopped: _Stopped) -> bool:
        """Whether this one looks whether all rest: one of those that have stopped does."""
        return stopped is min(self._stopped.values(), key=lambda one: one.rank, default=None)

    def _come_to_rest(self, me: int) -> None:
        """Wait until nobody works, and nobody has stopped who does not sleep."""
        wait = threading.Lock()
        wait.acquire()
        polls = 0
        while True:
            wait_s = _POLLS_S[min(polls, len(_POLLS_S) - 1)]
            with self._lock:
                is_resting = self._is_over or (
                    self._advance(wait_s, frozenset((me,)), wakes=False)
                    and not self._next
                    and all(one.wakes is not None for one in self._stopped.values())
                )
            if is_resting:
                return
            polls += 1
            wait.acquire(timeout=wait_s)

    # Whose turn it is

    def _advance(
        self, waited_s: float, resting: frozenset[int] = frozenset(), *, wakes: bool = True
    ) -> bool:
        """Let the next one go on where all rest; return whether all rest and nobody goes on."""
        rest = self._rest(resting, waited_s) if self.is_led else "no"
        if rest == "perhaps":
            self._settled_s += waited_s
        settle_s = max(SETTLE_S, 3 * sys.getswitchinterval())
        if rest == "no" or (rest == "perhaps" and self._settled_s < settle_s):
            return False
        if not self._next:
            ready = [one for one in self._stopped.values() if one.wakes is None]
            self._next = sorted(ready, key=lambda one: one.rank)
        if not self._next and wakes and self._stopped:
            sleeper = min(self._stopped.values(), key=lambda one: (one.wakes or 0, one.rank))
            self._advance_to(sleeper.wakes or 0)
            self._next = [sleeper]
        if not self._next:
            return True
        chosen = self._next.pop(0)
        self._stopped = {k: one for k, one in self._stopped.items() if one is not chosen}
        self._settling, self._settled_s = (), 0.0
        for watched in self._watched.values():
            watched.worked_s = 0.0
        self._go_on(chosen)
        return False

    def _go_on(self, stopped: _Stopped) -> None:
        self._moves += 1
        stopped.goes_on = True
        stopped.lock.release()

    def _rest(self, resting: Iterable[int], waited_s: float = 0.0) -> Rest:
        """Return whether all rest but those that are named, who wait for that."""
        if self._starting:
            return "no"
        moves = self._moves
        frames = sys._current_frames()
        seen = _instructions_of(frames)
        perhaps: list[object] = []
        is_working = is_moving = False
        for ident, watched in [*self._watched.items()]:
            if ident in resting or ident in self._stopped or watched.is_left:
                continue
            frame = frames.get(ident)
            if frame is None:
                if watched.thread is not None and watched.thread.is_alive():
                    is_working = True  # It is about to end, and to wake who waits for that.
                else:
                    del self._watched[ident]
                continue
            found = self._waiting(frame, ident, frames)
            if found == "perhaps":
                moved = movement(watched.thread)
                perhaps += (ident, frame, frame.f_lasti, moved)
                is_moving = is_moving or moved is None
            elif found == "no":
                is_working = is_working or self._is_waited_for(watched, frame, waited_s)
        if is_moving or tuple(perhaps) != self._settling:
            # What was waited until now was waited before that.
            self._settling, self._settled_s = tuple(perhaps), -waited_s
        if is_working or moves != self._moves or not self._is_as_seen(frames, seen):
            return "no"
        return "perhaps" if perhaps else "yes"

    def _is_as_seen(self, frames: dict[int, FrameType], seen: dict[int, int]) -> bool:
        """Return whether each thread of the run is where it was.

        Who does the same thing again in a loop is seen by `_moves`, or waits for something unknown.
        """
        frames_now = sys._current_frames()
        now = _instructions_of(frames_now)
        me = threading.get_ident()
        return all(
            frames_now.get(ident) is frames.get(ident) and now.get(ident) == seen.get(ident)
            for ident, watched in self._watched.items()
            if ident != me and ident not in self._stopped and not watched.is_left
        )

    def _waiting(self, frame: FrameType, ident: int, frames: dict[int, FrameType]) -> Rest:
        queue = idle_worker(frame)
        if queue is not None and self._is_about_to_take(queue):
            return "no"
        if frame.f_code.co_filename == __file__:
            # About to stop or to go on; in another run it may have stopped for long.
            return "no" if _owner(frame) in (self, None) else "yes"
        return waiting(frame, ident, frames)

    def _is_about_to_take(self, queue: object) -> bool:
        """Whether something was submitted to a pool's queue that an idle worker takes now."""
        self._pending = {k: one for k, one in self._pending.items() if not one[1].done()}
        return any(one[0] is queue for one in self._pending.values())

    def _is_waited_for(self, watched: _Watched, frame: FrameType, waited_s: float) -> bool:
        watched.worked_s += waited_s
        if watched.worked_s < LIMIT_S:
            return True
        watched.is_left = True
        user = user_frame(frame, self._home, nearest=True)
        self.left.append(place(user if user is not None else frame))
        return False


def _owner(frame: FrameType) -> Any:
    return frame.f_locals.get("self")


def _instructions_of(frames: dict[int, FrameType]) -> dict[int, int]:
    """Return where frames are; no thread goes on while they are read, as no Python code runs."""
    return dict(zip(frames, map(attrgetter("f_lasti"), frames.values()), strict=True))
