"""Model calls, threads and tasks of a run that wait, and which of them continues."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass
from typing import Any, Final, TypeAlias
from weakref import WeakSet

from simkit.capture.http.timers import Timer, put_forward
from simkit.core.errors import SimkitError
from simkit.runtime.ports import Schedule, WaitingCall


@dataclass(slots=True, eq=False)
class PendingCall:
    """A model call that waits until the schedule chooses it."""

    number: int
    """Its number among all calls."""
    call: WaitingCall
    problem: SimkitError | None = None
    """Why the schedule could choose none; None if all is well."""

    def check(self) -> None:
        """Raise the problem, if there is one."""
        if self.problem is not None:
            raise self.problem


class CallOrder:
    """Chooses, by a schedule, whose model call is answered next."""

    def __init__(self, schedule: Schedule, lock: threading.RLock) -> None:
        """``lock`` is held by what calls `choose`."""
        self._schedule = schedule
        self._lock: Any = lock
        self._calls = 0

    @property
    def is_at_once(self) -> bool:
        """Return whether model calls need not wait."""
        return self._schedule.answers_at_once

    def pending(self, agent: str, flow: Hashable) -> PendingCall:
        """Return a new call of an agent."""
        with self._lock:
            self._calls += 1
            return PendingCall(self._calls, WaitingCall(agent, flow))

    def choose(
        self, callers: Iterable[StoppedThread | SleepingTask]
    ) -> list[StoppedThread | SleepingTask]:
        """Return the callers whose calls are answered next, at the same time; most often one."""
        waiting = {caller.call: caller for caller in callers if caller.call is not None}
        calls = sorted(waiting, key=lambda call: call.number)
        chosen = [waiting[calls.pop(self._index(calls))]] if calls else []
        while calls and self._schedule.joins():
            chosen.append(waiting[calls.pop(self._index(calls))])
        return chosen

    def take(self, call: PendingCall) -> None:
        """Answer a call that does not wait for others."""
        with self._lock:
            self._index([call])

    def _index(self, calls: list[PendingCall]) -> int:
        try:
            return self._schedule.pick([pending.call for pending in calls])
        except SimkitError as problem:  # Its own code raises it, and this may be another thread.
            calls[0].problem = problem
            return 0


IsOver = Callable[[], bool]


class StoppedThread:
    """A thread that has stopped, and may not continue yet."""

    __slots__ = ("call", "follows", "goes_on", "lock", "rank", "waited_s", "wakes")

    def __init__(
        self,
        rank: float,
        wakes: int | None,
        follows: IsOver | None,
        call: PendingCall | None = None,
    ) -> None:
        self.rank, self.wakes, self.follows, self.call = rank, wakes, follows, call
        self.waited_s = 0.0
        self.goes_on = False
        self.lock = threading.Lock()
        self.lock.acquire()

    @property
    def sleeps(self) -> bool:
        """Return whether it waits for a time alone."""
        return self.wakes is not None and self.call is None

    def go_on(self) -> None:
        """Let the thread continue."""
        self.goes_on = True
        self.lock.release()


_POLLS_S: Final = (0.0002, 0.0005, 0.001, 0.002, 0.005)


Advance: TypeAlias = Callable[..., bool]
"""Lets the next sleeper continue, if all others rest: `ThreadTurns._advance`."""


class SleepingTask:
    """A task that sleeps."""

    __slots__ = ("call", "future", "loop", "until", "wakes")

    def __init__(
        self, wakes: int, loop: asyncio.AbstractEventLoop, call: PendingCall | None = None
    ) -> None:
        self.wakes, self.loop, self.call, self.until = wakes, loop, call, 0.0
        self.future: asyncio.Future[None] = loop.create_future()

    def end(self) -> None:
        """Let it continue, in its loop."""
        put_forward(self.loop, self.until)
        if not self.future.done():
            self.future.set_result(None)


ENDED_MAX: Final = 1_000
"""The number of a thread's waits that virtual time ends; a thread that polls takes real time then.

Each takes almost a millisecond, and another thread may sleep for days.
"""


class LoopSleeps:
    """The sleeping tasks and the timers of one run, in all its event loops."""

    def __init__(self, lock: threading.RLock, advance: Advance) -> None:
        """``lock`` is held while ``advance`` selects the next sleeper."""
        self._lock: Any = lock
        self._advance = advance
        self._asleep: list[SleepingTask] = []
        """Tasks in the order in which they began to sleep."""
        self._timers: list[Timer] = []
        """Timers in the order in which they were set."""
        self._ended_of: Counter[int] = Counter()
        """Thread to the number of its waits that were ended."""
        self._ended: Timer | None = None
        """The timer that was ended last."""
        self._looking: WeakSet[asyncio.AbstractEventLoop] = WeakSet()

    def add_timer(self, timer: Timer, now: int) -> None:
        """Take a timer that is set at a virtual time in milliseconds."""
        with self._lock:
            timer.wakes = now + round(timer.delay_s * 1_000)
            self._timers = [*(each for each in self._timers if not each.is_over), timer]
        self._look_at(timer.loop)

    @property
    def is_ending(self) -> bool:
        """Return whether a thread has still to notice that its timer was ended."""
        return self._ended is not None and self._ended.is_ending

    def timer_before(self, wakes: float, *, is_outside: bool = False) -> Timer | None:
        """Return the first timer that ends before a virtual time, at which something else wakes.

        A loop that waits for a socket or a pipe keeps its timers in real time: nobody knows how
        much virtual time passes outside, unless it has passed there (``is_outside``).
        """
        timers = (
            each
            for each in self._timers
            if each.wakes < wakes
            and not each.is_over
            and (is_outside or not each.waits_outside)
            and self._ended_of[each.thread] < ENDED_MAX
        )
        return min(timers, key=lambda each: each.wakes, default=None)

    @property
    def first(self) -> SleepingTask | None:
        """Return the task with the earliest time; of several, the one that slept first."""
        sleepers = (task for task in self._asleep if task.call is None)
        return min(sleepers, key=lambda task: task.wakes, default=None)

    @property
    def calling(self) -> list[SleepingTask]:
        """Return the tasks whose model calls wait, in loops that run."""
        return [task for task in self._asleep if task.call is not None and task.loop.is_running()]

    @property
    def is_empty(self) -> bool:
        """Return whether no task sleeps."""
        return not self._asleep

    async def sleep(
        self, wakes: int | None, delay_s: float = 0.0, call: PendingCall | None = None
    ) -> None:
        """Wait until a virtual time in milliseconds, ``delay_s`` from now; None means for ever.

        A task with a model call waits until that is chosen.
        """
        loop = asyncio.get_running_loop()
        if wakes is None:
            await loop.create_future()
            return
        task = SleepingTask(wakes, loop, call)
        task.until = loop.time() + delay_s
        with self._lock:
            self._asleep.append(task)
        self._look_at(loop)
        try:
            await task.future
        finally:
            self._forget(task)

    def end_first(self, advance_to: Callable[[int], None]) -> Timer | None:
        """Let the wait that ends first end now, unless a task sleeps; return it."""
        first = self.timer_before(float("inf")) if self.is_empty else None
        if first is not None:
            advance_to(first.wakes)
            self.wake(first)
        return first

    def wake(self, task: SleepingTask | Timer, *, is_outside: bool = False) -> None:
        """Let a task continue, or a timer end, from any thread."""
        if isinstance(task, Timer):
            self._timers = [each for each in self._timers if each is not task]
            self._ended, task.is_passed_outside = task, is_outside
            self._ended_of[task.thread] += bool(task.thread)
            with suppress(RuntimeError):  # Its loop is closed.
                task.end_soon()
            return
        self._forget(task)
        with suppress(RuntimeError):  # Its loop is closed.
            task.loop.call_soon_threadsafe(task.end)

    def clear(self) -> None:
        """Drop all sleepers: their run is over."""
        self._asleep.clear()
        self._timers.clear()

    def _forget(self, task: SleepingTask) -> None:
        with self._lock:
            self._asleep = [sleeper for sleeper in self._asleep if sleeper is not task]

    def _look_at(self, loop: asyncio.AbstractEventLoop | None) -> None:
        if loop is not None and loop not in self._looking:
            self._looking.add(loop)
            # In a context of its own it sets no timer of the run.
            loop.call_soon(self._look, loop, 0, context=Context())

    def _look(self, loop: asyncio.AbstractEventLoop, polls: int) -> None:
        """Let the next sleeper continue, if this loop has nothing else to do."""
        loops = [task.loop for task in self._asleep]
        if loop not in [*loops, *(timer.loop for timer in self._timers if not timer.is_over)]:
            self._looking.discard(loop)
            return
        wait_s = _POLLS_S[min(polls, len(_POLLS_S) - 1)]
        if _is_idle(loop):
            with self._lock:
                me = frozenset((threading.get_ident(),))
                self._advance(wait_s if polls else 0.0, me, is_idle=lambda: _is_idle(loop))
        if _is_idle(loop):
            loop.call_later(wait_s, self._look, loop, polls + 1)
        else:
            loop.call_soon(self._look, loop, 0)


def _is_idle(loop: asyncio.AbstractEventLoop) -> bool:
    """Return whether a loop has nothing to run except the current call."""
    return not loop._ready  # type: ignore[attr-defined]
