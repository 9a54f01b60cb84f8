"""Virtual sleep of tasks in event loops.

A sleeping task waits for a future. While one of its tasks sleeps, the loop checks again and again:
once it has nothing else to do, and all threads rest, the task with the earliest time continues
(`simkit.adapters.thread_turns`).
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import Any, Final, Protocol
from weakref import WeakSet

_POLLS_S: Final = (0.0002, 0.0005, 0.001, 0.002, 0.005)


class Advance(Protocol):
    """Lets the next sleeper continue, if all others rest.

    Loops in ``resting`` rest if they are idle.
    """

    def __call__(
        self, waited_s: float, resting: frozenset[int], *, is_idle: Any
    ) -> bool: ...  # pragma: no cover


class SleepingTask:
    """A task that sleeps."""

    __slots__ = ("future", "loop", "wakes")

    def __init__(self, wakes: int, loop: asyncio.AbstractEventLoop) -> None:
        self.wakes, self.loop = wakes, loop
        self.future: asyncio.Future[None] = loop.create_future()


class LoopSleeps:
    """The sleeping tasks of one run, in all its event loops."""

    def __init__(self, lock: threading.RLock, advance: Advance) -> None:
        """``lock`` is held while ``advance`` selects the next sleeper."""
        self._lock: Any = lock
        self._advance = advance
        self._asleep: list[SleepingTask] = []
        """Tasks in the order in which they began to sleep."""
        self._looking: WeakSet[asyncio.AbstractEventLoop] = WeakSet()

    @property
    def first(self) -> SleepingTask | None:
        """Return the task with the earliest time; of several, the one that slept first."""
        return min(self._asleep, key=lambda task: task.wakes, default=None)

    async def sleep(self, wakes: int | None) -> None:
        """Wait until a virtual time in milliseconds; None means for ever."""
        loop = asyncio.get_running_loop()
        if wakes is None:
            await loop.create_future()
            return
        task = SleepingTask(wakes, loop)
        with self._lock:
            self._asleep.append(task)
        if loop not in self._looking:
            self._looking.add(loop)
            loop.call_soon(self._look, loop, 0)
        try:
            await task.future
        finally:
            self._forget(task)

    def wake(self, task: SleepingTask) -> None:
        """Let a task continue, from any thread."""
        self._forget(task)
        with suppress(RuntimeError):  # Its loop is closed.
            task.loop.call_soon_threadsafe(_end, task.future)

    def clear(self) -> None:
        """Drop all sleepers: their run is over."""
        self._asleep.clear()

    def _forget(self, task: SleepingTask) -> None:
        with self._lock:
            self._asleep = [sleeper for sleeper in self._asleep if sleeper is not task]

    def _look(self, loop: asyncio.AbstractEventLoop, polls: int) -> None:
        """Let the next sleeper continue, if this loop has nothing else to do."""
        if not any(task.loop is loop for task in self._asleep):
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
    ready: Any = loop._ready  # type: ignore[attr-defined]
    return not ready


def _end(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
