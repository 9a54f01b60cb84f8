"""Turns of threads, so that a run is the same every time.

A thread stops where simkit sees it: when it begins, and before each model call, tool call and
annotation. Once all running threads rest, the stopped ones continue one after the other, in the
order in which they were started or submitted; each until it rests again. A thread that follows
another one (`follow`) continues when none of those can, and the other one is over, sleeps or waits
for an answer. Sleeping threads, and sleeping tasks of event loops
(`simkit.adapters.concurrency.sleepers`), continue when no others can, in the order of virtual time.
Before time goes on, one of the model calls that wait is answered: the schedule chooses it.

A thread rests when it has ended, has stopped here, or waits for another one
(`simkit.adapters.concurrency.watched_threads`).

Every wait here ends. The others wait for a thread that does not rest, whatever the reason (it
works, it moves at each check, it was started and never begins), but no longer than a limit: then it
is reported, and they do not wait for it until it stops here by itself. So stopped threads continue
after a bounded number of checks; a turn whose threads make calls after its reply ends after
`AFTER_REPLY` of them; and after the end of a run (`end`) no thread is held.
"""

from __future__ import annotations

import asyncio
import math
import threading
from asyncio import _get_running_loop
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final, TypeAlias

from simkit.adapters.concurrency import watched_threads
from simkit.adapters.concurrency.frames import waiting
from simkit.adapters.concurrency.sleepers import (
    CallOrder,
    IsOver,
    LoopSleeps,
    PendingCall,
    SleepingTask,
    StoppedThread,
)
from simkit.adapters.concurrency.watched_threads import WatchedThreads
from simkit.capture.http.timers import Timer
from simkit.core.raw_threads import start_raw_thread
from simkit.runtime.ports import Schedule
from simkit.runtime.schedules import Fifo

AFTER_REPLY: Final = 200
"""The number of times that threads may continue after a turn's reply."""
PATIENCE_S: Final = 240
"""How long a client waits, in virtual time, for a server that never answers: less than the limit
of the official clients over HTTP, 300 s, after which some wait on without a request."""
_Ask: TypeAlias = Callable[[], object]
_OWN_FILES: Final = (__file__, *(f.__code__.co_filename for f in (LoopSleeps.sleep, waiting)))
"""The files whose code holds the lock of a run's turns."""
_POLLS_S: Final = (0.0002, 0.0002, 0.0005, 0.001, 0.002, 0.005)


class ThreadTurns:
    """The threads of one run; any thread may call all methods."""

    def __init__(
        self,
        now: Callable[[], int],
        advance_to: Callable[[int], None],
        home: str = "",
        schedule: Schedule | None = None,
    ) -> None:
        """``now`` and ``advance_to`` are the virtual clock's, in milliseconds.

        ``home`` is the top-level package of the pipeline. ``schedule`` chooses which of the model
        calls that wait is answered.
        """
        self._now, self._advance_to = now, advance_to
        self.is_endless = False
        """Whether a turn has ended although its threads made further calls."""
        # Finalizers run wherever the garbage collector does, also here: they must not deadlock.
        self._lock = threading.RLock()
        self.calls = CallOrder(schedule or Fifo(), self._lock)
        """The order in which model calls that wait are answered."""
        self._tasks = LoopSleeps(self._lock, self._advance)
        self.threads = WatchedThreads(self._lock, home, (self, self._tasks), _OWN_FILES)
        """The threads of the run, as far as they began or were started."""
        self._submitted = 0
        self._within: dict[int, tuple[int, ...]] = {}
        """Rank to the ranks around it, from the outside, and its own."""
        self._ranks: dict[int, int] = {}
        """Thread to the rank of its work."""
        self._stopped: dict[int, StoppedThread] = {}
        """Stopped threads by identifier."""
        self._next: list[StoppedThread] = []
        """Threads that stopped before any of them continued."""
        self._after_reply = 0
        """The number of times that threads have continued since the turn's reply."""
        self.is_led = False
        """Whether a turn runs; between turns no thread continues."""
        self.is_over = False
        """Whether the run is over."""
        self.is_awaited: Callable[[], bool] = lambda: False
        """Whether a server of the scenario has still to answer: nobody rests until then."""
        self._silent = 0
        """The number of servers that never answer: their clients' timers are in virtual time."""

    # Started and submitted work

    def submitted(self) -> int:
        """Return the rank of work that is being started or submitted."""
        with self._lock:
            self._submitted += 1
            around = self._within.get(self._ranks.get(threading.get_ident(), 0), ())
            self._within[self._submitted] = (*around, self._submitted)
            return self._submitted

    @contextmanager
    def working(self, rank: int) -> Iterator[None]:
        """Do started or submitted work, when it is its turn."""
        me = threading.get_ident()
        with self._lock:
            before = self._ranks.get(me)
            self._ranks[me] = rank
            thread = self.threads.begin(me, rank)
        try:
            self.stop()
            yield
        finally:
            with self._lock:
                if before is None:
                    self._ranks.pop(me, None)
                    if thread is None:  # Nothing else would show that it has ended.
                        self.threads.forget(me)
                else:
                    self._ranks[me] = before

    @contextmanager
    def led(self) -> Iterator[None]:
        """Run a turn in this thread; at its end all others come to rest."""
        me = threading.get_ident()
        with self._lock:
            before = self.threads.lead(me)
            self._ranks[me] = 0
            self.is_led = True
        try:
            yield
        except (Exception, asyncio.CancelledError):
            self._come_to_rest(me)
            raise
        else:
            self._come_to_rest(me)
        finally:
            with self._lock:
                self.is_led = False
                self._ranks.pop(me, None)
                if before is None:
                    self.threads.forget(me)

    def end(self) -> None:
        """Let all stopped threads continue; none stops from now on."""
        with self._lock:
            self.is_over = True
            for stopped in self._stopped.values():
                stopped.go_on()
            self._stopped.clear()
            self._next.clear()
            self._tasks.clear()

    # Stopping

    def stop(self) -> None:
        """Stop this thread until it is its turn; return at once if no other one runs."""
        self._stop(None)

    def follow(self, is_over: IsOver) -> None:
        """Stop this thread until another one is over, or all rest and somebody sleeps."""
        if not is_over():
            self._stop(None, is_over)

    def sleep(self, seconds: float) -> None:
        """Stop this thread until all others rest and the virtual time has come."""
        self._stop(self._now() + round(seconds * 1_000))

    def outlast(self, progress: _Ask, give_up: _Ask) -> None:
        """Let a server never answer; give up when there was no progress for `PATIENCE_S`.

        Until then timers of loops that wait outside are in virtual time, too.
        """
        rank = self.submitted()
        self.threads.starts(rank)
        self._silent += 1
        start_raw_thread(self._outlast, (rank, progress, give_up))

    def _outlast(self, rank: int, progress: _Ask, give_up: _Ask) -> None:
        before: object = None
        with self.working(rank):
            while not self.is_over and before != (before := progress()):
                self.sleep(PATIENCE_S)
            if not self.is_over:
                give_up()
            self._silent -= 1

    async def sleep_in_loop(self, seconds: float) -> None:
        """Let this task sleep until no others can continue and the virtual time has come."""
        wakes = self._now() + round(seconds * 1_000) if seconds < math.inf else None
        if self.is_led and not self.is_over and is_in_loop():
            await self._tasks.sleep(wakes, seconds)
            return
        self._advance_to(wakes or 0)
        await asyncio.sleep(0)

    def set_timer(self, timer: Timer) -> None:
        """Let a timer end in virtual time, if something would sleep beyond it.

        The first one ends as soon as all wait for one another: nobody wakes one.
        """
        if self.is_led and not self.is_over:
            self._tasks.add_timer(timer, self._now())
            if timer.thread and not (self._next or self.is_awaited() or self._tasks.is_ending):
                with self._lock:
                    timer.has_expired = self._end_lone(True) is timer

    def _end_lone(self, wakes: bool) -> Timer | None:
        """End the first wait with a limit, if all others wait for one another; return it."""
        is_lone = wakes and not self._stopped and self.threads.only_wait(threading.get_ident())
        return self._tasks.end_first(self._advance_to) if is_lone else None

    def end_overdue(self, *, is_outside: bool = False) -> bool:
        """Let the timers end whose time has passed, since code kept their loop from running.

        Return whether there were any. ``is_outside``: it has passed at a server, for which the loop
        waits.
        """
        with self._lock:
            has_ended, until = False, self._now() + 1
            while (timer := self._tasks.timer_before(until, is_outside=is_outside)) is not None:
                self._tasks.wake(timer, is_outside=is_outside)
                has_ended = True
            return has_ended

    # Model calls that wait for their answers

    def wait_answer(self, agent: str) -> None:
        """Stop this thread until the schedule chooses its model call; raise ScriptMisfit."""
        me = threading.get_ident()
        call = self.calls.pending(agent, self._ranks.get(me, -me))
        if is_in_loop():  # It blocks the loop, so that no other task can be chosen.
            self.calls.take(call)
        else:
            self._stop(self._now(), call=call)
        call.check()

    async def wait_answer_in_loop(self, agent: str) -> None:
        """Let this task wait until the schedule chooses its model call; raise ScriptMisfit."""
        call = self.calls.pending(agent, asyncio.current_task() or threading.get_ident())
        if self.is_led and not self.is_over and is_in_loop():
            await self._tasks.sleep(self._now(), call=call)
        else:
            self.calls.take(call)
        call.check()

    def _callers(self) -> list[StoppedThread | SleepingTask]:
        return [*(each for each in self._stopped.values() if each.call), *self._tasks.calling]

    def _stop(
        self, wakes: int | None, follows: IsOver | None = None, call: PendingCall | None = None
    ) -> None:
        me = threading.get_ident()
        if self._lock._is_owned():  # type: ignore[attr-defined]
            return  # A finalizer, called in the middle of this.
        with self._lock:
            self.threads.come_back(me)
            is_later = follows is not None or (
                wakes is not None
                and (not self._tasks.is_empty or self._timer_before(wakes) is not None)
            )
            if self.is_over or (not is_later and self._goes_at_once(me)):
                if call is not None:
                    self.calls.take(call)
                elif wakes is not None:
                    self._advance_to(wakes)
                return
            rank = self._ranks.get(me)
            if rank is None:  # Its start was not observed: such threads go last.
                self._submitted += 1
            number = 1e9 + self._submitted if rank is None else rank
            stopped = StoppedThread(number, wakes, follows, call)
            self._stopped[me] = stopped
        try:
            self._wait(stopped)
        finally:
            with self._lock:
                if self._stopped.get(me) is stopped:  # It was interrupted.
                    del self._stopped[me]
                    self._next = [thread for thread in self._next if thread is not stopped]

    def _goes_at_once(self, me: int) -> bool:
        if not self.is_led:
            return me not in self._ranks  # Not a thread of the run: code that builds the pipeline.
        if self._stopped or self._next:
            return False
        return not self.is_awaited() and (self.threads.are_only(me) or self._rest({me}))

    def _wait(self, stopped: StoppedThread) -> None:
        polls = 0
        while not stopped.goes_on:
            wait_s = _POLLS_S[min(polls, len(_POLLS_S) - 1)]
            with self._lock:
                # One of the stopped threads checks whether all rest.
                first = min(self._stopped.values(), key=lambda thread: thread.rank, default=None)
                if not stopped.goes_on and stopped is first:
                    self._advance(wait_s)
                else:
                    wait_s = 0.05
            polls += 1
            if not stopped.goes_on:
                stopped.lock.acquire(timeout=wait_s)

    def _come_to_rest(self, me: int) -> None:
        """Wait until none works, and none has stopped without sleeping."""
        with self._lock:
            self._after_reply = 0
            if not self._stopped and not self._next and self.threads.are_only(me):
                return
        wait = threading.Lock()
        wait.acquire()
        polls = 0
        while True:
            wait_s = _POLLS_S[min(polls, len(_POLLS_S) - 1)]
            with self._lock:
                is_resting = self.is_over or (
                    self._advance(wait_s, frozenset((me,)), wakes=False)
                    and not self._next
                    and all(thread.sleeps for thread in self._stopped.values())
                )
                if not is_resting and self._after_reply > AFTER_REPLY:
                    self.is_endless = is_resting = True
            if is_resting:
                return
            polls += 1
            wait.acquire(timeout=wait_s)

    # Order of turns

    def _advance(
        self, waited_s: float, resting: frozenset[int] = frozenset(), *, wakes: bool = True,
        is_idle: Callable[[], bool] = lambda: True,
    ) -> bool:  # fmt: skip
        """Let the next one continue if all rest; return whether all rest and none continues.

        ``is_idle`` is called last: whether the threads in ``resting`` do rest.
        """
        if not self.is_led or not self._rest(resting, waited_s) or not is_idle():
            return False
        self._next = self._next or self._ready(waited_s)
        if not self._next:
            sleepers = self._next_sleepers(wakes=wakes)
            tasks = [each for each in sleepers if not isinstance(each, StoppedThread)]
            self._next = [each for each in sleepers if isinstance(each, StoppedThread)]
            if tasks:
                self.threads.begin_anew()
                for task in tasks:
                    self._tasks.wake(task, is_outside=bool(self._silent))
                return False
        if not self._next:
            return self._end_lone(wakes) is None
        chosen = self._next.pop(0)
        self._stopped = {k: thread for k, thread in self._stopped.items() if thread is not chosen}
        self.threads.begin_anew()
        self._after_reply += 1
        chosen.go_on()
        return False

    def _ready(self, waited_s: float) -> list[StoppedThread]:
        """Return the stopped threads that may continue at once, or else the first follower."""
        ready = [thread for thread in self._stopped.values() if thread.wakes is None]
        at_once = [thread for thread in ready if thread.follows is None]
        return sorted(at_once, key=lambda each: each.rank) or self._following(ready, waited_s)

    def _next_sleepers(self, *, wakes: bool) -> list[StoppedThread | SleepingTask | Timer]:
        """Return what continues next of those that sleep or wait for a model; advance the time.

        Several are calls that are answered together.
        """
        sleeper = self._first_to_wake() if wakes else None
        if sleeper is None or (sleeper.wakes or 0) > self._now():
            chosen = self.calls.choose(self._callers())
            if chosen:
                return [*chosen]
        if sleeper is None:
            return []
        self._advance_to(sleeper.wakes or 0)
        return [sleeper]

    def _following(self, ready: list[StoppedThread], waited_s: float) -> list[StoppedThread]:
        """Return the first of the followers that may continue."""
        somebody_sleeps = self._first_to_wake() is not None or bool(self._callers())
        for thread in ready:
            thread.waited_s += waited_s
        may = [
            thread
            for thread in ready
            if somebody_sleeps
            or thread.waited_s >= watched_threads.LIMIT_S
            or (thread.follows and thread.follows())
        ]
        # Work started inside a thread comes before the next thread.
        may.sort(key=lambda each: self._within.get(int(each.rank), (each.rank,)))
        return may[:1]

    def _first_to_wake(self) -> StoppedThread | SleepingTask | Timer | None:
        """Return the sleeper with the earliest time, or a timer that ends before it.

        Of several sleepers, threads come first.
        """
        sleepers = (thread for thread in self._stopped.values() if thread.sleeps)
        sleeper = min(sleepers, key=lambda thread: (thread.wakes or 0, thread.rank), default=None)
        task = self._tasks.first
        is_task = sleeper is None or (task is not None and task.wakes < (sleeper.wakes or 0))
        first: StoppedThread | SleepingTask | None = task if is_task else sleeper
        return first and (self._timer_before(first.wakes or 0) or first)

    def _timer_before(self, wakes: int) -> Timer | None:
        return self._tasks.timer_before(wakes, is_outside=bool(self._silent))

    def _rest(self, resting: Iterable[int], waited_s: float = 0.0) -> bool:
        is_waiting = self.is_awaited() or self._tasks.is_ending
        return not is_waiting and self.threads.rest(resting, self._stopped, waited_s)


def is_in_loop() -> bool:
    """Return whether this thread runs a loop in which tasks can wait here."""
    return isinstance(_get_running_loop(), asyncio.BaseEventLoop)
