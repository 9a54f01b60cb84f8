"""Threads of a pipeline take turns, so that a run is the same every time.

A thread stops where simkit sees it: when it begins, and before each model call, tool call and mark.
Once all that runs has come to rest, those that have stopped go on one after the other, in the
order in which they were started or submitted; each until it rests again. Who follows another one
(`follow`) goes on when none of those can, and that one is over or somebody sleeps. Threads that
sleep, and tasks of event loops (`simkit.adapters.loop_sleeps`), go on when nobody else can, in the
order of virtual time.

A thread is at rest when it has ended, has stopped here, or waits for another one
(`simkit.adapters.waiting_threads`). All are looked at one after the other, so what is seen counts
only if nobody has moved meanwhile.

Every wait here ends. Whoever is not at rest is waited for, whatever the reason (it works, it moves
each time it is looked at, it was started and never begins), but no longer than `LIMIT_S`: then it
is reported, and nobody waits for it until it stops here by itself. So those that have stopped go on
after a bounded number of looks; a turn whose threads go on asking after its reply ends after
`AFTER_REPLY` of them; and at the end of a run (`end`) nobody is held any longer.
"""

from __future__ import annotations

import asyncio
import math
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final, Literal

from simkit.adapters.loop_sleeps import LoopSleeps, SleepingTask
from simkit.adapters.waiting_threads import awaits_work, idle_worker, waiting
from simkit.adapters.watched_threads import (
    IsOver,
    StartingThread,
    StoppedThread,
    WatchedThread,
    instructions_of,
    thread_of,
)
from simkit.capture.http.places import place, user_frame

LIMIT_S: Final = 10.0
"""How long threads that have stopped wait for one that does not come to rest."""
AFTER_REPLY: Final = 200
"""How often threads may go on after a turn's reply before the turn ends without them."""
_POLLS_S: Final = (0.0002, 0.0002, 0.0005, 0.001, 0.002, 0.005)

Rest = Literal["no", "yes", "perhaps"]
"""``perhaps`` is said of a thread that has not been seen for long enough."""


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
        self.is_endless = False
        """Whether a turn has ended though its threads went on asking."""
        # Finalizers run wherever the collector does, here too: they must not wait for themselves.
        self._lock = threading.RLock()
        self._tasks = LoopSleeps(self._lock, self._advance)
        self._submitted = 0
        self._within: dict[int, tuple[int, ...]] = {}
        """Rank to those of what it was started in, from outside, and its own."""
        self._ranks: dict[int, int] = {}
        """Thread to the rank of what it does."""
        self._watched: dict[int, WatchedThread] = {}
        self._started_threads: set[int] = set()
        """The ranks of what began before its pool had said that it took it in."""
        self._starting: dict[object, StartingThread] = {}
        """Threads that were started and have not begun, by their ranks; a pool's worker by itself.
        """
        self._pending: dict[int, tuple[object, Future[Any]]] = {}
        """Rank to a pool's queue, and what becomes of what was submitted and has not begun."""
        self._stopped: dict[int, StoppedThread] = {}
        """By thread."""
        self._next: list[StoppedThread] = []
        """Those that stopped before anybody of them went on."""
        self._after_reply = 0
        """How often anybody has gone on since the turn has its reply."""
        self.is_led = False
        """Whether a turn is being taken; between turns nobody goes on."""
        self._is_over = False

    # What is started and submitted

    def submitted(self) -> int:
        """Return the rank of what is being started or submitted."""
        with self._lock:
            self._submitted += 1
            around = self._within.get(self._ranks.get(threading.get_ident(), 0), ())
            self._within[self._submitted] = (*around, self._submitted)
            return self._submitted

    def starts(self, rank: int, thread: threading.Thread | None = None) -> None:
        """Note that a thread is being started, which goes through `working`."""
        with self._lock:
            self._starting[rank] = StartingThread(thread)

    def failed_to_start(self, rank: int) -> None:
        """Note that a thread could not be started."""
        with self._lock:
            self._starting.pop(rank, None)

    @contextmanager
    def starting(self, worker: threading.Thread) -> Iterator[None]:
        """Start a pool's worker: who starts it waits for it, though it is not watched yet."""
        with self._lock:
            self._starting[worker] = StartingThread(worker)
        try:
            yield
            self.watch([worker])
        finally:
            with self._lock:
                self._starting.pop(worker, None)

    def pending(self, rank: int, queue: object, future: Future[Any]) -> None:
        """Note that a pool has taken in what goes through `working`, by its queue."""
        with self._lock:
            if rank not in self._started_threads:
                self._pending[rank] = queue, future
            self._started_threads.discard(rank)

    def watch(self, threads: Iterable[threading.Thread]) -> None:
        """Watch threads that take what is submitted, such as a pool's workers."""
        with self._lock:
            for thread in threads:
                if thread.ident is not None:
                    self._watch(thread.ident, thread)

    def _watch(self, ident: int, thread: threading.Thread | None) -> None:
        # The system gives the identifier of a thread that has ended to the next one that starts.
        watched = self._watched.get(ident)
        if watched is None or watched.thread is not thread:
            self._watched[ident] = WatchedThread(thread, threading.get_native_id())

    @contextmanager
    def working(self, rank: int) -> Iterator[None]:
        """Do what was started or submitted, when it has its turn."""
        me = threading.get_ident()
        with self._lock:
            before = self._ranks.get(me)
            self._ranks[me] = rank
            thread = thread_of(me)
            self._watch(me, thread)
            self._starting.pop(rank, None)
            if self._pending.pop(rank, None) is None:
                self._started_threads.add(rank)
        try:
            self.stop()
            yield
        finally:
            with self._lock:
                if before is None:
                    self._ranks.pop(me, None)
                    if thread is None:  # Nothing else would tell that it has ended.
                        self._watched.pop(me, None)
                else:
                    self._ranks[me] = before

    @contextmanager
    def led(self) -> Iterator[None]:
        """Run a turn in this thread; at its end all others come to rest."""
        me = threading.get_ident()
        with self._lock:
            before = self._watched.get(me)
            self._watched[me] = WatchedThread(thread_of(me), threading.get_native_id())
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
            self._tasks.clear()

    def unfinished(self) -> frozenset[int]:
        """Return the other threads that are in the midst of something, by their identifiers."""
        frames = sys._current_frames()
        del frames[threading.get_ident()]
        with self._lock:
            return frozenset(
                ident
                for ident, watched in self._watched.items()
                if not watched.is_gone(ident)
                and (frame := frames.get(ident)) is not None
                and not awaits_work(frame, frames)
            )

    @property
    def is_over(self) -> bool:
        """Whether the run is over."""
        return self._is_over

    # Stopping

    def stop(self) -> None:
        """Stop this thread until it has its turn; at once where no other one runs."""
        self._stop(None)

    def follow(self, is_over: IsOver) -> None:
        """Stop this thread until another one is over, or all rest and somebody sleeps."""
        if not is_over():
            self._stop(None, is_over)

    def sleep(self, seconds: float) -> None:
        """Stop this thread until all others rest and virtual time has come so far."""
        self._stop(self._now() + round(seconds * 1_000))

    async def sleep_in_loop(self, seconds: float) -> None:
        """Let this task sleep until nobody else can go on and virtual time has come so far."""
        wakes = self._now() + round(seconds * 1_000) if seconds < math.inf else None
        is_known = isinstance(asyncio.get_running_loop(), asyncio.BaseEventLoop)
        if self.is_led and not self._is_over and is_known:
            await self._tasks.sleep(wakes)
            return
        self._advance_to(wakes or 0)
        await asyncio.sleep(0)

    def _stop(self, wakes: int | None, follows: IsOver | None = None) -> None:
        me = threading.get_ident()
        if self._lock._is_owned():  # type: ignore[attr-defined]
            return  # A finalizer, which was called in the midst of this.
        with self._lock:
            self._come_back(me)
            is_later = follows is not None or (wakes is not None and self._tasks.first is not None)
            if self._is_over or (not is_later and self._goes_at_once(me)):
                if wakes is not None:
                    self._advance_to(wakes)
                return
            rank = self._ranks.get(me)
            if rank is None:  # Nobody has seen how it was started: those go last.
                self._submitted += 1
            stopped = StoppedThread(1e9 + self._submitted if rank is None else rank, wakes, follows)
            self._stopped[me] = stopped
        try:
            self._wait(stopped)
        finally:
            with self._lock:
                if self._stopped.get(me) is stopped:  # It was interrupted.
                    del self._stopped[me]
                    self._next = [thread for thread in self._next if thread is not stopped]

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
        return is_alone or self._rest({me})

    def _wait(self, stopped: StoppedThread) -> None:
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

    def _asks(self, stopped: StoppedThread) -> bool:
        """Return whether this one looks whether all rest: one of those that have stopped does."""
        return stopped is min(self._stopped.values(), key=lambda thread: thread.rank, default=None)

    def _come_to_rest(self, me: int) -> None:
        """Wait until nobody works, and nobody has stopped who does not sleep."""
        wait = threading.Lock()
        wait.acquire()
        polls = 0
        with self._lock:
            self._after_reply = 0
        while True:
            wait_s = _POLLS_S[min(polls, len(_POLLS_S) - 1)]
            with self._lock:
                is_resting = self._is_over or (
                    self._advance(wait_s, frozenset((me,)), wakes=False)
                    and not self._next
                    and all(thread.wakes is not None for thread in self._stopped.values())
                )
                if not is_resting and self._after_reply > AFTER_REPLY:
                    self.is_endless = is_resting = True
            if is_resting:
                return
            polls += 1
            wait.acquire(timeout=wait_s)

    # Whose turn it is

    def _advance(
        self,
        waited_s: float,
        resting: frozenset[int] = frozenset(),
        *,
        wakes: bool = True,
        is_idle: Callable[[], bool] = lambda: True,
    ) -> bool:
        """Let the next one go on where all rest; return whether all rest and nobody goes on.

        ``is_idle`` is asked last: whether those rest that are named.
        """
        if not self.is_led or not self._rest(resting, waited_s) or not is_idle():
            return False
        if not self._next:
            ready = [thread for thread in self._stopped.values() if thread.wakes is None]
            at_once = [thread for thread in ready if thread.follows is None]
            self._next = sorted(at_once, key=lambda thread: thread.rank) or self._following(
                ready, waited_s
            )
        if not self._next and wakes:
            sleeper = self._first_to_wake()
            if isinstance(sleeper, SleepingTask):
                self._advance_to(sleeper.wakes)
                self._begin_anew()
                self._tasks.wake(sleeper)
                return False
            if sleeper is not None:
                self._advance_to(sleeper.wakes or 0)
                self._next = [sleeper]
        if not self._next:
            return True
        chosen = self._next.pop(0)
        self._stopped = {k: thread for k, thread in self._stopped.items() if thread is not chosen}
        self._begin_anew()
        self._after_reply += 1
        self._go_on(chosen)
        return False

    def _following(self, ready: list[StoppedThread], waited_s: float) -> list[StoppedThread]:
        """Return the first of those that follow others and may go on."""
        somebody_sleeps = self._first_to_wake() is not None
        for thread in ready:
            thread.waited_s += waited_s
        may = [
            thread
            for thread in ready
            if somebody_sleeps
            or thread.waited_s >= LIMIT_S
            or (thread.follows and thread.follows())
        ]
        return [min(may, key=self._place)] if may else []

    def _place(self, stopped: StoppedThread) -> tuple[float, ...]:
        """Return a key that puts what was started inside of a thread before the next thread."""
        return self._within.get(int(stopped.rank), (stopped.rank,))

    def _first_to_wake(self) -> StoppedThread | SleepingTask | None:
        """Return whose time is the next; of several, threads first, then tasks as they slept."""
        sleepers = (thread for thread in self._stopped.values() if thread.wakes is not None)
        sleeper = min(sleepers, key=lambda thread: (thread.wakes or 0, thread.rank), default=None)
        task = self._tasks.first
        if sleeper is None or task is None:
            return sleeper or task
        return task if task.wakes < (sleeper.wakes or 0) else sleeper

    def _begin_anew(self) -> None:
        """Forget how long threads were waited for: somebody goes on."""
        for watched in self._watched.values():
            watched.begin_anew()

    def _go_on(self, stopped: StoppedThread) -> None:
        stopped.goes_on = True
        stopped.lock.release()

    def _rest(self, resting: Iterable[int], waited_s: float = 0.0) -> bool:
        """Return whether all rest but those that are named, who wait for that."""
        frames = sys._current_frames()
        if self._starting and self._are_starting(frames, waited_s):
            return False
        counts = instructions_of(frames)
        unknown: list[tuple[WatchedThread, FrameType]] = []
        is_resting = True
        for ident, watched in [*self._watched.items()]:
            if watched.is_gone(ident):
                del self._watched[ident]
                continue
            if ident in resting or ident in self._stopped or watched.is_left:
                continue
            frame = frames.get(ident)
            # Without a frame it is about to end, and to wake who waits for that.
            reason = "no" if frame is None else self._waiting(frame, ident, frames)
            if reason == "perhaps" and frame is not None:
                unknown.append((watched, frame))
            elif reason == "no" and self._is_waited_for(watched, frame, waited_s):
                is_resting = False
        if not self._is_as_seen(frames, counts, waited_s):
            is_resting = False
        # Who was woken by somebody who rests by now has moved, or is about to: they are asked last.
        waited_s = waited_s if is_resting else 0.0
        for watched, frame in unknown:
            if not watched.has_settled(frame, waited_s):
                is_resting &= not self._is_waited_for(watched, frame, waited_s)
        return is_resting

    def _are_starting(self, alive: dict[int, FrameType], waited_s: float) -> bool:
        """Return whether a thread that was started is still expected to begin."""
        for rank, starting in [*self._starting.items()]:
            starting.waited_s += waited_s
            if starting.has_died(alive):
                del self._starting[rank]
            elif starting.waited_s >= LIMIT_S:
                del self._starting[rank]
                self.left.append("")
        return bool(self._starting)

    def _is_as_seen(
        self, frames: dict[int, FrameType], counts: dict[int, int], waited_s: float
    ) -> bool:
        """Return whether each thread of the run is where it was, or nobody waits for it."""
        frames_now = sys._current_frames()
        now = instructions_of(frames_now)
        me = threading.get_ident()
        is_as_seen = True
        for ident, watched in [*self._watched.items()]:
            if ident == me or ident in self._stopped or watched.is_left:
                continue
            frame = frames_now.get(ident)
            if frame is not frames.get(ident) or now.get(ident) != counts.get(ident):
                is_as_seen &= not self._is_waited_for(watched, frame, waited_s)
        return is_as_seen

    def _waiting(self, frame: FrameType, ident: int, frames: dict[int, FrameType]) -> Rest:
        queue = idle_worker(frame)
        if queue is not None and self._is_about_to_take(queue):
            return "no"
        if frame.f_code.co_filename == __file__:
            # About to stop or to go on; in another run it may have stopped for long.
            return "no" if _owner(frame) in (self, None) else "yes"
        return waiting(frame, ident, frames)

    def _is_about_to_take(self, queue: object) -> bool:
        """Return whether something was submitted to a pool's queue that an idle worker takes
        now."""
        self._pending = {k: item for k, item in self._pending.items() if not item[1].done()}
        return any(item[0] is queue for item in self._pending.values())

    def _is_waited_for(
        self, watched: WatchedThread, frame: FrameType | None, waited_s: float
    ) -> bool:
        if watched.is_waited_for(waited_s, LIMIT_S):
            return True
        user = user_frame(frame, self._home, nearest=True)
        near = user if user is not None else frame
        self.left.append(place(near) if near is not None else "")
        return False


def _owner(frame: FrameType) -> Any:
    return frame.f_locals.get("self")
