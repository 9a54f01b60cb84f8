"""Guards: report threads and processes of user code, and refuse the network.

While a guard is active, the network is refused, sleeping takes no time, and every other effect
takes place and is reported. Clocks and random numbers are not watched: `simkit.core.determinism`
answers them.

*Seen by a profile function* of the thread that entered, if user code makes the call itself: starts
of processes. *Replaced*, also for code that imported them by name: sleeping, ``Thread.start`` and
connecting. Those count for every caller, also in threads that the user's code starts.

*Not seen*: calls inside C extensions (grpc, uvloop), ``hash()`` of texts, the environment, effects
in other threads except network and sleep, everything but network and sleep while another profiler
is on.
"""

from __future__ import annotations

import asyncio
import contextvars
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Final

from simkit.capture.http import compat, connections
from simkit.capture.http.connections import watcher
from simkit.capture.http.installing import Installation, Replacement, Row
from simkit.capture.http.places import place, user_frame
from simkit.capture.http.request_router import AllowedHosts, leave
from simkit.capture.http.suspects import BUILTINS, FUNCTIONS, WHOEVER_CALLS, may_cause_effects
from simkit.core.determinism.redirecting import Recoded, Redirected

Slept = Callable[[float], None]
SleptInLoop = Callable[[float], Awaitable[None]]
Report = Callable[[str, str], None]
"""Gets an effect's name and its place in user code, ``file.py:line in function``."""


class Guard:
    """Reports the effects of code inside it; each effect of each line once.

    It may be nested, and entered by several threads and tasks at once; each sees its own.
    """

    __slots__ = (
        "_before", "allowed", "home", "network", "report", "reported", "slept", "slept_in_loop",
        "trusts", "uses", "watches",
    )  # fmt: skip

    def __init__(
        self,
        report: Report,
        network: bool,
        home: str,
        allowed: AllowedHosts,
        slept: Slept | None = None,
        trusts: bool = False,
        slept_in_loop: SleptInLoop | None = None,
    ) -> None:
        self.slept_in_loop = slept_in_loop
        self.report, self.network, self.home, self.allowed = report, network, home, allowed
        self.slept, self.trusts = slept, trusts
        self.reported: set[tuple[str, str]] = set()
        self.uses = 0
        """The number of current entries; code that outlives them is not reported."""
        self.watches = False
        """Whether calls of the user's code are watched."""

    def __enter__(self) -> None:
        self._before = watcher.set(self)
        self.uses += 1
        _installation.__enter__()
        connections.installation.__enter__()
        # Effects of a library on behalf of the user are not in the user's code.
        self.watches = not self.trusts or may_cause_effects(self.home)
        if self.watches:
            _watch_this_thread()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.watches:
            _unwatch_this_thread()
        connections.installation.__exit__()
        _installation.__exit__()
        self.uses -= 1
        watcher.reset(self._before)

    def note(self, effect: str, where: str) -> None:
        """Report an effect, once for each place."""
        if (effect, where) not in self.reported:
            self.reported.add((effect, where))
            self.report(effect, where)

    def counts(self, effect: str) -> bool:
        """Return whether an effect counts if a library causes it on behalf of user code."""
        return effect in WHOEVER_CALLS and not self.trusts

    def caused(self, effect: str) -> None:
        """Report an effect of the caller of a replaced function."""
        if self.trusts and effect != "network":
            return  # The profile function sees calls of the user's own code.
        frame = user_frame(sys._getframe(1), self.home, nearest=True)
        self.note(effect, place(frame) if frame else "")


def guarded(
    report: Report,
    network: bool = True,
    home: str = "",
    allow_hosts: Iterable[str] = (),
    slept: Slept | None = None,
    trusts_libraries: bool = False,
    slept_in_loop: SleptInLoop | None = None,
) -> Guard:
    """Return a context manager, active while a user's function runs.

    ``network=False`` lets connections through, ``allow_hosts`` those to these hosts; raise
    ValueError for an invalid host. ``home`` is the top-level package of the function: its code is
    user code even if it is installed among the libraries. ``slept`` is called with every sleep, in
    seconds; ``slept_in_loop`` is awaited for those of `asyncio`. With ``trusts_libraries`` only the
    user's own calls are reported, because client libraries start threads and processes, and wait
    before a retry; and user code that names no reportable function is not watched
    (`simkit.capture.http.suspects`).
    """
    allowed = AllowedHosts(allow_hosts)
    return Guard(report, network, home, allowed, slept, trusts_libraries, slept_in_loop)


# Effects seen by the profile function.


def _watch(frame: FrameType, event: str, argument: Any) -> None:
    """Profile one call. This runs at every call, so it looks up and returns."""
    if event == "c_call":
        effect = BUILTINS.get(argument)
        if effect is not None:
            _noticed(effect, frame)
    elif event == "call":
        known_effect = FUNCTIONS.get(id(frame.f_code))
        if known_effect is not None and (
            known_effect[1] is None or known_effect[1](frame.f_locals)
        ):
            _noticed(known_effect[0], frame.f_back)


def _noticed(effect: str, caller: FrameType | None) -> None:
    guard = active_guard()
    if guard is None:
        return
    frame = user_frame(caller, guard.home, nearest=guard.counts(effect))
    if frame is not None:
        guard.note(effect, place(frame))


def active_guard() -> Guard | None:
    """Return the active guard of this code; None if there is none."""
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


# Replaced functions.


def _caused(effect: str) -> Guard | None:
    """Report an effect of the caller of a replaced function; return the active guard."""
    guard = active_guard()
    if guard is not None:
        guard.caused(effect)
    return guard


def _sleep(seconds: float) -> None:
    if not _is_duration(seconds):
        _sleeping.original(seconds)  # The original raises its usual error.
    guard = _caused("sleep") if seconds else None
    if guard is None:
        _sleeping.original(seconds)
    elif guard.slept is not None:
        guard.slept(seconds)


def _is_duration(seconds: Any) -> bool:
    try:
        return bool(seconds >= 0)
    except TypeError:
        return False


def sleep_in_loop(delay: float, result: Any) -> Any:
    """Return the awaitable that replaces `asyncio.sleep`."""
    guard = _caused("sleep") if delay > 0 else None
    if guard is None:
        return _sleeping_in_loop.original(delay, result)
    if guard.slept_in_loop is not None:
        return _slept(guard.slept_in_loop, delay, result)
    if guard.slept is not None:
        guard.slept(delay)
    return _sleeping_in_loop.original(0, result)


async def _slept(sleep: SleptInLoop, delay: float, result: Any) -> Any:
    await sleep(delay)
    return result


def _async_sleep(delay: float, result: Any = None) -> Any:
    # This runs as asyncio's own code, with asyncio's globals.
    from simkit.capture.http.guards import sleep_in_loop

    return sleep_in_loop(delay, result)


def _start(before: Replacement) -> Replacement:
    def start(self: threading.Thread) -> None:
        guard = _caused("thread")
        if guard is not None:
            context = contextvars.copy_context()
            if serves_many(self) or not guard.trusts:
                unheard = Guard(
                    _unreported,
                    guard.network,
                    guard.home,
                    guard.allowed,
                    guard.slept,
                    guard.trusts,
                    guard.slept_in_loop,
                )
                context.run(watcher.set, unheard)
            if serves_many(self):
                context.run(leave)
            run = self.run
            self.run = lambda: context.run(run)  # type: ignore[method-assign]
        before(self)

    return start


def _unreported(effect: str, where: str) -> None:
    """Report nothing: effects of threads come in no fixed order, and the thread is reported."""


def serves_many(thread: threading.Thread) -> bool:
    """Return whether a thread is a pool's worker, which serves any run."""
    target = compat.target_of_thread(thread)
    return target is compat.pool_worker or bool(getattr(target, "serves_many", False))


@contextmanager
def watched_thread() -> Iterator[None]:
    """Watch user code in this thread, as in the one that entered the guard."""
    guard = active_guard()
    if guard is None or not guard.watches:
        yield
        return
    _watch_this_thread()
    try:
        yield
    finally:
        _unwatch_this_thread()


_REPLACED: Final[tuple[Row, ...]] = ((threading.Thread, "start", _start),)
_sleeping: Final = Redirected(time, "sleep", 1, _sleep)
_sleeping_in_loop: Final = Recoded(asyncio.tasks.sleep, _async_sleep)


def _begin() -> None:
    _sleeping.begin()
    _sleeping_in_loop.begin()


def _end() -> None:
    _sleeping_in_loop.end()
    _sleeping.end()


_installation: Final = Installation(lambda: _REPLACED, _begin, _end)
