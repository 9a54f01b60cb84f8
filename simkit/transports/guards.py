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
import socket
import sys
import sysconfig
import threading
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Final

from simkit.errors import NetworkRefused
from simkit.transports.effects import BUILTINS, FUNCTIONS, WHOEVER_CALLS

Report = Callable[[str, str], None]
"""Gets an effect's name and where user code caused it, ``file.py:line in function``."""


class Guard:
    """Reports the effects of what runs inside; each effect of each line once.

    May be nested and entered by several threads and tasks at once; each sees its own.
    """

    __slots__ = ("_before", "home", "network", "report", "seen")

    def __init__(self, report: Report, network: bool, home: str) -> None:
        self.report, self.network, self.home = report, network, home
        self.seen: set[tuple[str, str]] = set()

    def __enter__(self) -> None:
        self._before = _active.set(self)
        _install()
        _watch_this_thread()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _unwatch_this_thread()
        _restore()
        _active.reset(self._before)

    def note(self, effect: str, where: str) -> None:
        """Reports the effect unless this place has been reported."""
        if (effect, where) not in self.seen:
            self.seen.add((effect, where))
            self.report(effect, where)


def guarded(report: Report, network: bool = True, home: str = "") -> Guard:
    """Returns a context manager, active while a user's function runs.

    ``network=False`` lets connections through. ``home`` is the top-level package of the function:
    its code is user code even where it is installed among the libraries.
    """
    return Guard(report, network, home)


_active: Final = contextvars.ContextVar[Guard | None]("simkit_guard", default=None)


# Whose code is it?

_OURS: Final = str(Path(__file__).parent.parent)
_STANDARD: Final = tuple(sysconfig.get_path(name) for name in ("stdlib", "platstdlib"))


@lru_cache(maxsize=4096)
def _is_library(file: str) -> bool:
    """Whether a file is the standard library's, an installed package's or simkit's own."""
    if file.startswith("<frozen "):
        return True
    folders = Path(file).parts
    return (
        "site-packages" in folders
        or "dist-packages" in folders
        or any(Path(file).is_relative_to(folder) for folder in (_OURS, *_STANDARD))
    )


def _is_generated(file: str) -> bool:
    """Whether code was made at run time, as a dataclass's ``__init__``: its caller is asked."""
    return file.startswith("<") and not file.startswith(("<frozen ", "<stdin", "<ipython"))


def _user_frame(frame: FrameType | None, guard: Guard, nearest: bool) -> FrameType | None:
    """Returns the frame if it is user code, or None; with ``nearest`` its callers are asked too."""
    while frame is not None:
        file = frame.f_code.co_filename
        if not _is_generated(file):
            name = frame.f_globals.get("__name__") or ""
            if not _is_library(file) or (guard.home and name.partition(".")[0] == guard.home):
                return frame
            if not nearest:
                return None
        frame = frame.f_back
    return None


def _place(frame: FrameType) -> str:
    """Returns ``package/file.py:line in function``, the same wherever that is run from."""
    file = Path(frame.f_code.co_filename)
    packages = tuple((frame.f_globals.get("__name__") or "").split("."))
    if file.stem != "__init__":
        packages = packages[:-1]
    is_found_there = file.parent.parts[-len(packages) :] == packages
    shown = "/".join([*packages, file.name]) if is_found_there else file.name
    return f"{shown}:{frame.f_lineno} in {frame.f_code.co_qualname}"


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
    guard = _active.get()
    if guard is None:
        return
    frame = _user_frame(caller, guard, nearest=effect in WHOEVER_CALLS)
    if frame is not None:
        guard.note(effect, _place(frame))


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
    guard = _active.get()
    if guard is not None:
        frame = _user_frame(sys._getframe(1), guard, nearest=True)
        guard.note(effect, _place(frame) if frame else "")
    return guard


def _refuse(host: Any, port: Any) -> None:
    """Raises NetworkRefused where a guard is active that guards the network."""
    guard = _active.get()
    if guard is None or not guard.network:
        return
    _caused("network")
    name = host.decode(errors="replace") if isinstance(host, bytes) else str(host)
    number = port if isinstance(port, int) else None
    shown = f"{name}:{port}" if port is not None else name
    raise NetworkRefused(
        f"a user's function reached for the network, {shown}, which is refused. "
        "Stub the tool with `tool_results`, or pass the data in.",
        name,
        number,
    )


def _refuse_address(address: Any) -> None:
    caller = sys._getframe(2).f_code
    if caller.co_filename == socket.__file__ and caller.co_name.endswith("socketpair"):
        return  # Where pipes cannot be waited for, an event loop wakes itself by a socket.
    if isinstance(address, tuple):
        _refuse(address[0], address[1] if len(address) > 1 else None)
    else:
        _refuse("a unix socket", None)


Made = Callable[..., Any]


def _sleep(before: Made) -> Made:
    def sleep(seconds: float, /) -> None:
        if not seconds or _caused("sleep") is None:
            before(seconds)

    return sleep


def _async_sleep(before: Made) -> Made:
    def sleep(delay: float, result: Any = None) -> Any:
        is_guarded = bool(delay) and _caused("sleep") is not None
        return before(0 if is_guarded else delay, result)

    return sleep


def _start(before: Made) -> Made:
    def start(self: threading.Thread) -> None:
        guard = _caused("thread")
        if guard is not None:
            context = contextvars.copy_context()
            context.run(_active.set, Guard(_unreported, guard.network, guard.home))
            run = self.run
            self.run = lambda: context.run(run)  # type: ignore[method-assign]
        before(self)

    return start


def _unreported(effect: str, where: str) -> None:
    """Reports nothing: what threads do comes in no certain order, and the thread is reported."""


def _connect(before: Made) -> Made:
    def connect(self: socket.socket, address: Any, /) -> Any:
        _refuse_address(address)
        return before(self, address)

    return connect


def _sendto(before: Made) -> Made:
    def sendto(self: socket.socket, data: Any, *flags_and_address: Any) -> Any:
        _refuse_address(flags_and_address[-1])
        return before(self, data, *flags_and_address)

    return sendto


def _resolve(before: Made) -> Made:
    def resolve(host: Any, *args: Any, **options: Any) -> Any:
        if host:
            _refuse(host, options.get("port", args[0] if args else None))
        return before(host, *args, **options)

    return resolve


def _create_connection(before: Made) -> Made:
    # Refused before the event loop asks a thread of its own for the address.
    def create_connection(
        self: asyncio.AbstractEventLoop, factory: Any, host: Any = None, port: Any = None, **o: Any
    ) -> Any:
        if host is not None:
            _refuse(host, port)
        return before(self, factory, host, port, **o)

    return create_connection


_REPLACED: Final[tuple[tuple[Any, str, Callable[[Made], Made]], ...]] = (
    (time, "sleep", _sleep),
    (asyncio, "sleep", _async_sleep),
    (asyncio.tasks, "sleep", _async_sleep),
    (threading.Thread, "start", _start),
    (socket.socket, "connect", _connect),
    (socket.socket, "connect_ex", _connect),
    (socket.socket, "sendto", _sendto),
    (socket, "getaddrinfo", _resolve),
    (socket, "gethostbyname", _resolve),
    (asyncio.BaseEventLoop, "create_connection", _create_connection),
)
_ABSENT: Final = object()
_lock: Final = threading.Lock()
_saved: Final[list[tuple[Any, str, Any]]] = []
_entered = 0


def _install() -> None:
    """Replaces for the first guard of the process; what is replaced acts only inside a guard."""
    global _entered
    with _lock:
        _entered += 1
        if _entered == 1:
            for owner, name, made in _REPLACED:
                _saved.append((owner, name, vars(owner).get(name, _ABSENT)))
                setattr(owner, name, made(getattr(owner, name)))


def _restore() -> None:
    """Puts back for the last guard of the process what was there before the first."""
    global _entered
    with _lock:
        _entered -= 1
        if _entered == 0:
            while _saved:
                owner, name, before = _saved.pop()
                if before is _ABSENT:
                    delattr(owner, name)
                else:
                    setattr(owner, name, before)
