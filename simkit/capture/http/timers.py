"""Timers: waits with a limit, of event loops and of threads, which virtual time may end earlier."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from simkit.capture.http import compat
from simkit.core.gc_pause import current_frames


class Timer:
    """A limit of time, which ends once: in real time, or earlier, if a run's virtual time says so.

    The waiting code then reads on its own clock that the time is over.
    """

    is_passed_outside = False
    """Whether its time has passed at a server, for which its loop waits."""
    is_over = is_ending = waits_outside = has_expired = False
    """Whether it has ended or was cancelled; whether its thread was let go, and has still to notice
    it; whether it may wait for something that virtual time does not know; whether virtual time
    ended it."""
    wakes = thread = 0
    """The virtual time at which it ends, and the thread that waits; 0 for a loop."""
    call: None = None
    loop: Any = None

    def __init__(self, delay_s: float) -> None:
        self.delay_s = delay_s

    def end_soon(self) -> None:
        """Let what waits end; from any thread, while all threads of the run rest."""
        raise NotImplementedError


class LoopTimer(Timer):
    """A timer of an event loop, such as that of `asyncio.timeout`."""

    def __init__(
        self,
        loop: asyncio.BaseEventLoop,
        when: float,
        callback: Callable[..., object],
        arguments: tuple[Any, ...],
        context: contextvars.Context,
    ) -> None:
        super().__init__(when - loop.time())
        self.loop, self._when = loop, when
        self._callback: Callable[..., object] | None = callback
        self._arguments, self._context = arguments, context
        self.handle: asyncio.TimerHandle

    @property
    def is_over(self) -> bool:  # type: ignore[override]
        """Return whether it has ended or was cancelled."""
        return self._callback is None or self.handle.cancelled() or self.loop.is_closed()

    @property
    def waits_outside(self) -> bool:  # type: ignore[override]
        """Return whether its loop waits for a socket or a pipe."""
        return waits_outside(self.loop)

    def end(self) -> None:
        """Do in the loop what the timer was set for, unless it is over."""
        if not self.is_over:
            callback, self._callback = self._callback, None
            self.handle.cancel()
            if callback is not None:
                callback(*self._arguments)

    def end_soon(self) -> None:
        """Let the loop end it at once."""
        self.loop.call_soon_threadsafe(self._end_early, context=self._context)

    def _end_early(self) -> None:
        put_forward(self.loop, self._when, is_outside=self.is_passed_outside)
        self.end()


class _Ahead:
    """The clock of a loop in which virtual time has passed."""

    def __init__(self, real: Callable[[], float]) -> None:
        self._real, self.by_s = real, 0.0

    def __call__(self) -> float:
        return self._real() + self.by_s


def put_forward(loop: asyncio.AbstractEventLoop, to: float, *, is_outside: bool = False) -> None:
    """Let a loop's clock show at least a time from now on.

    Code reads it to know how long it may still wait: `CancelScope` of anyio 4, LangGraph's
    `step_timeout`.
    """
    ahead_s = to - loop.time()
    if ahead_s > 0 and (is_outside or not waits_outside(loop)):
        clock: Any = loop.time
        if not isinstance(clock, _Ahead):
            clock = loop.time = _Ahead(clock)  # type: ignore[method-assign]
        clock.by_s += ahead_s


def waits_outside(loop: asyncio.AbstractEventLoop) -> bool:
    """Return whether a loop waits for more than its own pipe, by which threads wake it.

    A loop that does not show it, such as that of Windows (a proactor), may wait for anything.
    """
    selector = compat.selector_of(loop)
    return not hasattr(selector, "get_map") or len(selector.get_map() or ()) > 1


class ThreadTimer(Timer):
    """A wait of a thread with a limit: for a condition, and what is made of conditions, or an end.

    Events, queues, futures and semaphores wait for a condition.
    """

    def __init__(self, delay_s: float, condition: threading.Condition | None = None) -> None:
        """Begin a wait of this thread; without a condition, it looks at `has_expired` itself."""
        super().__init__(delay_s)
        self._condition, self.thread = condition, threading.get_ident()

    @property
    def is_ending(self) -> bool:  # type: ignore[override]
        """Return whether its time is over, and its thread has still to notice it."""
        return self.has_expired and not self.is_over

    def end_soon(self) -> None:
        """Let the thread give up, unless it was notified meanwhile."""
        if self.is_over or self._condition is None:
            self.has_expired = not self.is_over
            return
        frame = current_frames().get(self.thread)
        if frame is None or frame.f_code is not _WAIT:
            return
        waiter = frame.f_locals["waiter"]
        with suppress(ValueError, RuntimeError):
            compat.waiters_of(self._condition).remove(waiter)
            self.has_expired = True
            waiter.release()


_WAIT: Final = threading.Condition.wait.__code__
