"""What the user's own code may not do unseen: clock, chance, threads, processes, the network.

While a guard is active, the network is refused, sleeping takes no time, and every other effect
takes place and is reported: a clock that lies is harder to debug than one that is named.

*Seen by a profile function* of the thread that entered, so that ``from time import time`` and
``datetime.now()`` are seen too: calls of clocks, chance and processes. Those count where user
code calls them itself; a library that reads a clock for its own use is the library's business.
*Replaced*: ``sleep``, ``Thread.start`` and connecting. Those count whoever calls them, in threads
that the user's code starts as well.

*Not seen*: what C extensions do themselves (numpy's chance, grpc, uvloop), ``hash()`` of texts, the
environment, effects in a thread other than network and sleep, everything but network and sleep
while another profiler is on. A ``sleep`` that was imported by name is reported but sleeps.
"""

from __future__ import annotations

import asyncio
import contextvars
import sys
import threading
import time
from collections.abc import Callable, Iterable
from types import FrameType, TracebackType
from typing import Any, Final

from simkit.transports import connections
from simkit.transports.connections import watcher
from simkit.transports.effects import BUILTINS, FUNCTIONS, WHOEVER_CALLS
from simkit.transports.gate import leave
from simkit.transports.hosts import AllowedHosts
from simkit.transports.installing import Installation, Made, Row
from simkit.transports.places import place, user_frame
from simkit.transports.suspects import may_cause_effects

Slept = Callable[[float], None]
Report = Callable[[str, str], None]
"""Gets an effect's name and where user code caused it, ``file.py:line in function``."""


class Guard:
    """Reports the effects of what runs inside; each effect of each line once.

    May be nested and entered by several threads and tasks at once; each sees its own.
    """

    __slots__ = (
        "_before", "_watches", "allowed", "home", "network", "report", "seen", "slept", "trusts",
    )  # fmt: skip

    def __init__(
        self, report: Report, network: bool, home: str, allowed: AllowedHosts,
        slept: Slept | None = None, trusts: bool = False,
    ) -> None:  # fmt: skip
        self.report, self.network, self.home, self.allowed = report, network, home, allowed
        self.slept, self.trusts = slept, trusts
        self.seen: set[tuple[str, str]] = set()

    def __enter__(self) -> None:
        self._before = watcher.set(self)
        _installation.__enter__()
        connections.installation.__enter__()
        # A library's effects in the user's name are in no code of the user's.
        self._watches = not self.trusts or may_cause_effects(self.home)
        if self._watches:
            _watch_this_thread()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._watches:
            _unwatch_this_thread()
        connections.installation.__exit__()
        _installation.__exit__()
        watcher.reset(self._before)

    def note(self, effect: str, where: str) -> None:
        """Reports the effect unless this place has been reported."""
        if (effect, where) not in self.seen:
            self.seen.add((effect, where))
            self.report(effect, where)

    def counts(self, effect: str) -> bool:
        """Whether an effect counts where a library causes it in a user's name."""
        return effect in WHOEVER_CALLS and not self.trusts

    def caused(self, effect: str) -> None:
        """Reports an effect of whoever called a replaced function."""
        if self.trusts and effect != "network":
            return  # The profile function sees what the user's own code calls.
        frame = user_frame(sys._getframe(1), self.home, nearest=True)
        self.note(effect, place(frame) if frame else "")


def guarded(
    report: Report,
    network: bool = True,
    home: str = "",
    allow_hosts: Iterable[str] = (),
    slept: Slept | None = None,
    trusts_libraries: bool = False,
) -> Guard:
    """Returns a context manager, active while a user's function runs.

    ``network=False`` lets connections through, ``allow_hosts`` those to the hosts named; raises
    ValueError for what is no host. ``home`` is the top-level package of the function: its code is
    user code even where it is installed among the libraries. ``slept`` hears of every sleep, in
    seconds. With ``trusts_libraries`` only the user's own calls are reported: client libraries
    start threads and processes, and wait before they try again; and where the user's code names
    nothing that would be reported, it is not watched (`simkit.transports.suspects`).
    """
    allowed = AllowedHosts(allow_hosts)
    return Guard(report, network, home, allowed, slept, trusts_libraries)


# What is seen by the profile function.


def _watch(frame: FrameType, event: str, argument: Any) -> None:
    """Is the profile function; it runs at every call, so it looks up and leaves."""
    if event == "c_call":
        effect = BUILTINS.get(argument)
        if effect is not None:
            _noticed(effect, frame)
    elif event == "call":
        seen = FUNCTIONS.get(id(frame.f_code))
        if seen is not None and (seen[1] is None or seen[1](frame.f_locals)):
            _noticed(seen[0], frame.f_back)


def _noticed(effect: str, caller: FrameType | None) -> None:
    guard = _active()
    if guard is None:
        return
    frame = user_frame(caller, guard.home, nearest=guard.counts(effect))
    if frame is not None:
        guard.note(effect, place(frame))


def _active() -> Guard | None:
    watching = watcher.get()
    return watching if isinstance(watching, Guard) else None


class _Depth(threading.local):
    guards = 0


_depth: Final = _Depth()


def _watch_this_thread() -> None:
    _depth.guards += 1
    if _depth.guards == 1 and sys.getprofile() is None:
        sys.setprofile(_watch)


def _unwatch_this_thread() -> None:
    _depth.guards -= 1
    if _depth.guards == 0 and sys.getprofile() is _watch:
        sys.setprofile(None)


# What is replaced.


def _caused(effect: str) -> Guard | None:
    """Reports an effect of whoever called a replaced function; returns the active guard."""
    guard = _active()
    if guard is not None:
        guard.caused(effect)
    return guard


def _sleep(before: Made) -> Made:
    def sleep(seconds: float, /) -> None:
        guard = _caused("sleep") if seconds else None
        if guard is None:
            before(seconds)
        elif guard.slept is not None:
            guard.slept(seconds)

    return sleep


def _async_sleep(before: Made) -> Made:
    def sleep(delay: float, result: Any = None) -> Any:
        guard = _caused("sleep") if delay else None
        if guard is not None and guard.slept is not None:
            guard.slept(delay)
        return before(delay if guard is None else 0, result)

    return sleep


def _start(before: Made) -> Made:
    def start(self: threading.Thread) -> None:
        guard = _caused("thread")
        if guard is not None:
            context = contextvars.copy_context()
            unheard = Guard(
                _unreported, guard.network, guard.home, guard.allowed, guard.slept, guard.trusts
            )
            context.run(watcher.set, unheard)
            context.run(leave)  # A worker of a pool serves whoever comes next, of any run.
            run = self.run
            self.run = lambda: context.run(run)  # type: ignore[method-assign]
        before(self)

    return start


def _unreported(effect: str, where: str) -> None:
    """Reports nothing: what threads do comes in no certain order, and the thread is reported."""


_REPLACED: Final[tuple[Row, ...]] = (
    (time, "sleep", _sleep),
    (asyncio, "sleep", _async_sleep),
    (asyncio.tasks, "sleep", _async_sleep),
    (threading.Thread, "start", _start),
)


def _rows() -> list[Row]:
    """Returns what is replaced; anyio, with which clients wait, keeps a name of its own."""
    anyio = sys.modules.get("anyio._backends._asyncio")
    return [*_REPLACED, *([(anyio, "sleep", _async_sleep)] if anyio is not None else [])]


_installation: Final = Installation(_rows)
