"""Clocks: time-machine replaces the wall clock, redirection replaces the monotonic clocks.

time-machine replaces the functions of ``time`` and ``datetime`` in C, so that it does not matter
which module imported them, or when. It asks one object for the time, which is ours here. It leaves
monotonic clocks alone, because event loops need them; here the caller decides which time it gets.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any, Final

from simkit.core.determinism.draws import Redirected
from simkit.core.determinism.worlds import waited_ns, world_of_time

BASE_NS: Final = 1_000 * 1_000_000_000
"""The first value of monotonic clocks in nanoseconds. It is not 0, which code may read as
"unset"."""

_MONOTONIC: Final = ("monotonic", "perf_counter", "process_time", "thread_time")


class WallClock:
    """The object that time-machine asks for the time."""

    def __init__(self) -> None:
        self._module: Any = None
        self._start: Any = None
        """Where the travel of each turn starts; simkit tells the time from then on."""
        self._travel: Any = None

    def begin(self) -> None:
        """Start to answer, unless freezegun answers already."""
        time_machine = self._module
        if time_machine is None:
            time_machine = self._module = _time_machine()
            self._start = time_machine.travel(0, tick=False)
        travel = self._start
        # A clock that was set before wins: by a test of the user, or by `--verify`.
        before = time_machine.traveller_stack
        real_ns = before[-1].time_ns if before else time_machine.escape_hatch.time.time_ns
        try:
            traveller = travel.start()
        except RuntimeError:
            return
        self._travel = travel

        def time_ns() -> int:
            world = world_of_time(sys._getframe(1))
            return _told_by(real_ns) if world is None else world.wall_ns()

        traveller.time_ns = time_ns

    def end(self) -> None:
        """Stop to answer."""
        if self._travel is not None:
            self._travel.stop()
            self._travel = None


def _told_by(real_ns: Callable[[], float]) -> int:
    """Return the real time, also if another thread has ended the travel since the clock was asked.

    Then no function is replaced any more, and time-machine refuses to look behind one.
    """
    try:
        return int(real_ns())
    except ValueError:
        return time.time_ns()


def later(by: timedelta) -> AbstractContextManager[Any]:
    """Return a context manager that puts the real wall clock of this process forward."""
    travel: AbstractContextManager[Any] = _time_machine().travel(by, tick=True)
    return travel


def _time_machine() -> Any:
    """Import time-machine without pytest, which it needs only in tests."""
    if "time_machine" in sys.modules or "pytest" in sys.modules:
        import time_machine

        return time_machine
    sys.modules["pytest"] = None  # type: ignore[assignment]
    try:
        import time_machine
    finally:
        del sys.modules["pytest"]
    return time_machine


def monotonic_clocks() -> Iterator[Redirected]:
    """Yield the monotonic clocks; the world of the caller answers each."""
    for name in _MONOTONIC:
        if hasattr(time, name):
            yield _redirected(name, lambda ns: ns / 1_000_000_000)
            yield _redirected(f"{name}_ns", lambda ns: ns)


def _redirected(name: str, convert: Callable[[int], Any]) -> Redirected:
    def read(*_: Any) -> Any:
        caller = sys._getframe(1)
        world = world_of_time(caller)
        if world is None:
            return redirect.original() + convert(waited_ns(caller))
        return convert(BASE_NS + world.elapsed_ns())

    redirect = Redirected(time, name, 0, read)
    return redirect


def clock_gettime(
    before: Callable[[int], Any], convert: Callable[[int], Any]
) -> Callable[..., Any]:
    """Return ``time.clock_gettime``; time-machine replaces it for the wall clock only."""

    def read(clock: int, /) -> Any:
        real = before(clock)  # It raises for an unknown clock.
        world = world_of_time(sys._getframe(1))
        if world is None:
            return real
        is_wall = clock == time.CLOCK_REALTIME
        return convert(world.wall_ns() if is_wall else BASE_NS + world.elapsed_ns())

    return read


def ctime(before: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``time.ctime`` and ``time.asctime``, which read the clock in C."""

    def text(*arguments: Any) -> Any:
        if arguments and arguments[0] is not None:
            return before(*arguments)
        world = world_of_time(sys._getframe(1))
        if world is None:
            return before(*arguments)
        return time.asctime(time.localtime(world.wall_ns() // 1_000_000_000))

    return text
