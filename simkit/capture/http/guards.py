"""Guards: report threads and processes of user code, and refuse the network.

While a guard is active, the network is refused, sleeping takes no time, and every other effect
takes place and is reported. Clocks and random numbers are not watched: `simkit.core.determinism`
answers them.

*Seen by an audit hook*: starts of processes and of raw threads, connections, native code that is
loaded. Python calls it for any caller, in any thread, under any name: also for ``_socket`` itself,
``sendmsg``, and names that were imported before. It costs nothing where none of these happens. A
hook cannot be removed; without a guard it only refuses connections of scenarios that are over.
*Replaced*, also for code that imported them by name: sleeping, ``Thread.start`` and connecting.

*Not seen*: calls inside C extensions (grpc, uvloop), ``hash()`` of texts, the environment; in
Python 3.11, which has no audit event for it, a ``start_new_thread`` that was imported by its name
before any run.
"""

from __future__ import annotations

import _thread
import asyncio
import contextvars
import os
import socket
import subprocess
import sys
import threading
import time
from asyncio.base_subprocess import BaseSubprocessTransport
from collections.abc import Awaitable, Callable, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from multiprocessing.process import BaseProcess
from numbers import Real
from pathlib import Path
from types import FrameType, FunctionType
from typing import Any, Final
from weakref import WeakSet

from simkit.capture.http import compat, connections
from simkit.capture.http.connections import ask_address, watcher
from simkit.capture.http.installing import Installation, Keeper, Replacement, Row, enter_all
from simkit.capture.http.places import is_standard, place, user_frame
from simkit.capture.http.polls import Looks
from simkit.capture.http.refusals import log, note_refusal
from simkit.capture.http.request_router import (
    AllowedHosts,
    is_forwarding,
    is_left_behind,
    leave,
    refuse_library_late,
)
from simkit.capture.http.timers import LoopTimer, ThreadTimer, Timer
from simkit.core.branches import branch_off
from simkit.core.context_values import set_until_reset
from simkit.core.determinism.draws import Recoded, Redirected
from simkit.core.errors import NetworkRefused

Slept = Callable[[float], None]
SleptInLoop = Callable[[float], Awaitable[None]]
SetTimer = Callable[[Timer], None]
Report = Callable[[str, str], None]
"""Gets an effect's name and its place in user code, ``file.py:line in function``."""


class Guard:
    """Reports the effects of code inside it; each effect of each line once.

    Active while a user's function runs. It may be nested, and entered by several threads and tasks
    at once; each sees its own.
    """

    def __init__(
        self,
        report: Report,
        home: str = "",
        allow_hosts: Iterable[str] = (),
        slept: Slept | None = None,
        trusts_libraries: bool = False,
        slept_in_loop: SleptInLoop | None = None,
        set_timer: SetTimer | None = None,
        keeper: Keeper | None = None,
        looks: Looks | None = None,
    ) -> None:
        """``allow_hosts`` lets connections to these hosts through.

        Raise ValueError for an invalid host. ``home`` is the top-level package of the function: its
        code is user code even if it is installed among the libraries. ``slept`` is called with
        every sleep, in seconds; ``slept_in_loop`` is awaited for those of `asyncio`, and
        ``set_timer`` is called with every limit of time: timers of loops, waits of threads. With
        ``trusts_libraries`` only the user's own calls are reported, because client libraries start
        threads and processes, and wait before a retry. ``keeper`` keeps in place what the guard
        replaces. ``looks`` are those of the run at its processes.
        """
        self.report, self.home = report, home
        self.allowed, self.trusts = AllowedHosts(allow_hosts), trusts_libraries
        self.slept, self.slept_in_loop, self.keeper = slept, slept_in_loop, keeper
        self.set_timer = set_timer
        self.looks = looks or Looks(WeakSet())
        self.reported: set[tuple[str, str]] = set()
        self.uses = 0
        """The number of current entries; code that outlives them is not reported."""

    def __enter__(self) -> None:
        self._before = set_until_reset(watcher, self, None)
        self.uses += 1
        self._stack = enter_all(_INSTALLATIONS, self.keeper)

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        self.uses -= 1
        watcher.reset(self._before)

    def note(self, effect: str, where: str) -> None:
        """Report an effect, once for each place."""
        if (effect, where) not in self.reported:
            self.reported.add((effect, where))
            self.report(effect, where)

    def caused(self, effect: str) -> None:
        """Report an effect of the caller of a replaced function."""
        if self.trusts and effect != "network":
            return  # The audit hook sees calls of the user's own code.
        frame = user_frame(sys._getframe(1), self.home, nearest=True)
        self.note(effect, place(frame) if frame else "")


# Effects seen by the audit hook.

_PROCESSES: Final = frozenset(
    ("subprocess.Popen", "os.system", "os.posix_spawn", "os.fork", "os.forkpty", "os.exec")
)
_THREADS: Final = frozenset(("_thread.start_new_thread", "_thread.start_joinable_thread"))
_CONNECTIONS: Final = frozenset(("socket.connect", "socket.sendto", "socket.sendmsg"))
_FAMILIES: Final = tuple(
    getattr(socket, name) for name in ("AF_INET", "AF_INET6", "AF_UNIX") if hasattr(socket, name)
)

_LOOK_UPS: Final = frozenset(
    f"socket.{name}" for name in ("getaddrinfo", "gethostbyname", "gethostbyaddr", "getnameinfo")
)
_OTHERS: Final = {
    "ctypes.dlopen": "native code",
    "cpython.PyInterpreterState_New": "an interpreter of its own",
}
_EFFECTS: Final = frozenset((*_PROCESSES, *_THREADS, *_CONNECTIONS, *_LOOK_UPS, *_OTHERS))


def _hook(
    event: str,
    arguments: tuple[Any, ...],
    processes: Container[str] = _PROCESSES,
    threads: Container[str] = _THREADS,
    connections: Container[str] = _CONNECTIONS,
    look_ups: Container[str] = _LOOK_UPS,
    others: Mapping[str, str] = _OTHERS,
    effects: Container[str] = _EFFECTS,
) -> None:
    """Handle an audit event. Python calls this at each, so it looks up and returns.

    The last arguments are its own: an interpreter that ends has emptied this module.
    """
    if event not in effects:
        return
    if event in processes:
        note_effect("process", sys._getframe(1))
    elif event in threads:
        _note_thread(sys._getframe(1))
    elif event in connections:
        _check(*arguments)
    elif event in look_ups:
        _look_up(*arguments[:2])
    else:
        note_effect(others[event], sys._getframe(1))


_ASKS_SYSTEM: Final = frozenset(("platform", "uuid", "ctypes.util"))
"""Modules that start a process to ask about this machine, some of them once in a process: what
they start is no effect of the code, and the order of scenarios must not decide about it."""


def note_effect(effect: str, frame: FrameType | None) -> None:
    """Report an effect of user code through the standard library, not through other libraries.

    Where libraries are not trusted, processes that they start for user code are reported too.
    """
    guard = active_guard()
    if log.is_over or (is_left_behind() and (guard is None or not guard.uses)):
        caller = user_frame(frame, "", nearest=True)
        if caller is not None:
            text = f"code of a scenario that is over reached {effect} at {place(caller)}"
            note_refusal(text, is_late=True)
        return
    if guard is None or not guard.uses:
        return
    walked_frame = frame
    while walked_frame is not None and is_standard(walked_frame.f_code.co_filename):
        if effect == "process" and walked_frame.f_globals.get("__name__") in _ASKS_SYSTEM:
            return
        walked_frame = walked_frame.f_back
    is_anybodys = effect == "process" and not guard.trusts
    caller = user_frame(walked_frame, guard.home, nearest=is_anybodys)
    if walked_frame is None:  # A thread that runs a function of the standard library.
        caller = frame
    if caller is not None:
        guard.note(effect, place(caller))


def _note_thread(frame: FrameType) -> None:
    """Report a thread without an object of `threading`: it takes no turns."""
    guard = active_guard()
    caller = user_frame(frame, guard.home, nearest=not guard.trusts) if guard is not None else None
    if guard is not None and caller is not None and guard.uses:
        guard.note("thread", place(caller))


def _check(sock: socket.socket, address: Any) -> None:
    """Refuse a connection that is not allowed."""
    if address is None or sock.family not in _FAMILIES:
        return
    _refuse_late(str(address))
    ask_address(address, sys._getframe(2))


def _refuse_late(address: str) -> None:
    """Refuse the network to code of a run that is over, and to all code of its own process."""
    if is_left_behind() or (log.is_over and not is_forwarding()):
        text = (
            f"code of a scenario that is over reached for the network, {address}, which is "
            "refused. Wait for it inside the run."
        )
        refuse_library_late(text, address)
        note_refusal(text, is_late=True)
        raise NetworkRefused(text, address, None)


def _look_up(name: Any, port: Any = None) -> None:
    """Refuse to ask for a name's address, or an address's name; this machine's own are known."""
    if isinstance(name, tuple):
        name, port = name[0], name[1] if len(name) > 1 else None
    host = name.decode(errors="replace") if isinstance(name, bytes) else str(name or "")
    if host in ("", "localhost", "::1", socket.gethostname()) or host.startswith("127."):
        return
    _refuse_late(host)
    ask_address((host, port), sys._getframe(2))


def active_guard() -> Guard | None:
    """Return the active guard of this code; None if there is none."""
    watching = watcher.get()
    return watching if isinstance(watching, Guard) else None


class _State:
    is_hooked = False


def add_hook() -> None:
    """Let Python call the hook from now on."""
    if not _State.is_hooked:
        _State.is_hooked = True
        sys.addaudithook(_hook)


# Replaced functions.


def _caused(effect: str) -> Guard | None:
    """Report an effect of the caller of a replaced function; return the active guard."""
    guard = active_guard()
    if guard is not None:
        guard.caused(effect)
    return guard


def _sleep(seconds: float) -> None:
    guard, is_duration = active_guard(), isinstance(seconds, Real) and seconds >= 0
    if guard is None or not is_duration:
        _sleeping.original(seconds)  # It raises its usual error.
        return
    if guard.looks.explain(seconds, sys._getframe(1)):
        _sleeping.original(seconds)
        seconds = 0.0
    if seconds:  # A sleep of no time has no effect, but gives way to other threads.
        guard.caused("sleep")
    if guard.slept is not None:
        guard.slept(seconds)


def look(name: str, arguments: tuple[Any, ...], options: Mapping[str, Any]) -> Any:
    """Answer as one of the functions that say whether a process runs, or a file is there."""
    guard, (looking, not_yet) = active_guard(), _LOOKS[name]
    running = guard.looks.running() if guard is not None else None  # It may end meanwhile.
    answer = looking.original(*arguments, **options)
    if guard is not None and answer is not_yet:
        # A process may have ended before asyncio knows it.
        guard.looks.process = running or (None if not_yet is False else arguments[0])
    return answer


def _look(*arguments: Any, **options: Any) -> Any:
    # This runs as Python's own code, with its globals; its name says in whose place.
    import sys

    from simkit.capture.http.guards import look

    return look(sys._getframe().f_code.co_name, arguments, options)


def sleep_in_loop(delay: float, result: Any) -> Any:
    """Return the awaitable that replaces `asyncio.sleep`."""
    guard = active_guard() if delay > 0 else None
    if guard is None:
        return _sleeping_in_loop.original(delay, result)
    if guard.looks.explain(delay, sys._getframe(1)):
        _sleeping.original(delay)  # No virtual time may pass meanwhile, which another task awaits.
        delay = 0.0
    else:
        guard.caused("sleep")
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


def _call_at(before: Replacement) -> Replacement:
    def call_at(
        self: asyncio.BaseEventLoop,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        guard = active_guard()
        if guard is None or guard.set_timer is None:
            handle: asyncio.TimerHandle = before(self, when, callback, *args, context=context)
            return handle
        context = context or contextvars.copy_context()
        timer = LoopTimer(self, when, callback, args, context)
        timer.handle = before(self, when, timer.end, context=context)
        guard.set_timer(timer)
        return timer.handle

    return call_at


def _wait(before: Replacement) -> Replacement:
    def wait(self: threading.Condition, timeout: float | None = None) -> bool:
        with _limited(timeout, self) as timer:
            return not timer.has_expired and bool(before(self, timeout)) and not timer.has_expired

    return wait


def _join(before: Replacement) -> Replacement:
    def join(self: threading.Thread, timeout: float | None = None) -> None:
        with _limited(timeout, None) as timer:
            left_s = timeout
            while left_s is None or left_s > 0 or left_s == timeout:
                before(self, left_s if left_s is None else min(left_s, _LOOKS_S))
                if timer.has_expired or not self.is_alive():
                    break
                left_s = None if left_s is None else left_s - _LOOKS_S

    return join


_LOOKS_S: Final = 0.02
"""How long a thread that waits for another one does not look whether its time is over: it waits
inside the interpreter, where nothing wakes it."""


@contextmanager
def _limited(timeout: float | None, condition: threading.Condition | None) -> Iterator[ThreadTimer]:
    """Let virtual time end a wait of this thread that has a limit; yield its timer."""
    timer = ThreadTimer(timeout or 0.0, condition)
    guard = active_guard() if timer.delay_s > 0 else None
    if guard is not None and guard.set_timer is not None:
        guard.set_timer(timer)
    try:
        yield timer
    finally:
        timer.is_over = True


def _start(before: Replacement) -> Replacement:
    def start(self: threading.Thread) -> None:
        guard = _caused("thread")
        if guard is not None:
            context = branch_off(contextvars.copy_context())
            if serves_many(self) or not guard.trusts:
                unheard = copy(guard)
                unheard.report, unheard.reported, unheard.uses = _unreported, set(), 0
                context.run(watcher.set, unheard)
            if serves_many(self):
                context.run(leave)
            run = self.run
            self.run = lambda: context.run(run)  # type: ignore[method-assign]
        before(self)

    return start


def _start_raw(before: Replacement) -> Replacement:
    def start_new_thread(*args: Any) -> int:
        _caused("thread")
        ident: int = before(*args)
        return ident

    return start_new_thread


def _unreported(effect: str, where: str) -> None:
    """Report nothing: effects of threads come in no fixed order, and the thread is reported."""


def serves_many(thread: threading.Thread) -> bool:
    """Return whether a thread is a pool's worker, which serves any run."""
    target = compat.target_of_thread(thread)
    return target is compat.pool_worker or bool(getattr(target, "serves_many", False))


_REPLACED: Final[tuple[Row, ...]] = (
    (threading.Thread, "start", _start),
    (threading.Thread, "join", _join),
    (threading.Condition, "wait", _wait),
    (asyncio.BaseEventLoop, "call_at", _call_at),
    *([(_thread, "start_new_thread", _start_raw)] if sys.version_info < (3, 12) else []),
)
_sleeping: Final = Redirected(time, "sleep", 1, _sleep)
_sleeping_in_loop: Final = Recoded(asyncio.tasks.sleep, _async_sleep)
_NOT_YET: Final[dict[Any, object]] = {
    subprocess.Popen.poll: None,
    BaseProcess.is_alive: True,
    BaseSubprocessTransport.get_returncode: None,
    **dict.fromkeys((os.path.exists, os.path.isfile, Path.exists, Path.is_file), False),
}
_LOOKS: Final[dict[str, tuple[Recoded, object]]] = {
    (name := function.__module__ + function.__qualname__): (
        Recoded(function, FunctionType(_look.__code__.replace(co_name=name), {})),
        answer,
    )
    for function, answer in _NOT_YET.items()
    if isinstance(function, FunctionType)  # On Windows some are written in C.
}
_redirections: Final[list[Any]] = [
    _sleeping,
    _sleeping_in_loop,
    *(row[0] for row in _LOOKS.values()),
]


def _begin() -> None:
    add_hook()
    for redirection in _redirections:
        redirection.begin()


def _end() -> None:
    for redirection in _redirections:
        redirection.end()


_INSTALLATIONS: Final = (Installation(lambda: _REPLACED, _begin, _end), connections.installation)
