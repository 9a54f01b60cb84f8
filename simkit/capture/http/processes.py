"""Processes that user code starts: their environment, and what they ask.

Children of `subprocess` and `asyncio` get an environment whose proxies and provider addresses lead
to a server that refuses, and reports the request. `simkit.capture.http.guards` reports the start.

*Not covered*: see SECURITY.md.
"""

from __future__ import annotations

import atexit
import contextvars
import gc
import inspect
import multiprocessing.util
import os
import signal
import socketserver
import subprocess
import sys
import threading
import time
import traceback
import weakref
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import partial
from http.server import BaseHTTPRequestHandler
from multiprocessing.process import BaseProcess
from typing import Any, Final
from weakref import WeakSet

from simkit.capture.http import compat
from simkit.capture.http.guards import active_guard, add_hook, note_effect
from simkit.capture.http.installing import Installation, Replacement, Row
from simkit.capture.http.refusals import late_refusals
from simkit.capture.http.request_router import (
    Owner,
    context_after_run,
    current_owner,
    is_left_behind,
)
from simkit.core.context_values import Inside
from simkit.core.determinism.installing import is_library
from simkit.core.raw_threads import start_raw_thread
from simkit.providers.protocols import PROTOCOLS

_PROXIES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
HOST: Final = "127.0.0.1"
LEFT_MAX_S: Final = 2.0
"""The seconds for which the end of a process waits for threads that runs have left."""
_left: Final[list[threading.Thread]] = []
threads_of_runs: Final = WeakSet[threading.Thread]()
"""The threads that code of runs has started, but for those of pools and servers."""

ReportEffect = Callable[[str, str], None]
"""Gets the method and the address of a child's request."""


class Children:
    """The processes that one run starts, and the server to which their clients are pointed."""

    def __init__(self, listener: ReportEffect) -> None:
        self._listener = listener
        self._started: WeakSet[subprocess.Popen[Any]] = WeakSet()
        self._server: socketserver.TCPServer | None = None

    def environment(self, variables: Mapping[str, str]) -> dict[str, str]:
        """Return a child's environment, with proxies and providers that lead to the server."""
        url = f"http://{HOST}:{self._port()}"
        proxies = {name: url for proxy in _PROXIES for name in (proxy, proxy.lower())}
        addresses = {
            name: value.format(url=url)
            for protocol in PROTOCOLS.values()
            for name, value in protocol.variables.items()
        }
        return {**variables, **proxies, **addresses, "NO_PROXY": "", "no_proxy": ""}

    def started(self, process: subprocess.Popen[Any]) -> None:
        """Add a process."""
        self._started.add(process)

    def refuse(self, method: str, url: str) -> None:
        """Report a child's request, and end the children, which would retry for long."""
        self._listener(method, url)
        for process in [*self._started]:
            with suppress(OSError):
                process.terminate()

    def close(self) -> None:
        """Stop the server."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def _port(self) -> int:
        if self._server is None:
            self._server = server = socketserver.TCPServer((HOST, 0), _handler_for(self))
            # Not a thread of the run, which would be waited for, and would wait for its turn.
            start_raw_thread(server.serve_forever, (0.05,))
        return int(self._server.server_address[1])


def _handler_for(children: Children) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """A handler that refuses every request."""

        timeout = 5

        def __getattr__(self, name: str) -> Any:
            if name.startswith("do_"):
                return self._refuse
            raise AttributeError(name)

        def _refuse(self) -> None:
            children.refuse(self.command, self.path)
            body = b'{"error": {"type": "simkit", "message": "refused by simkit"}}'
            self.send_response(403)
            for name, value in (
                *(("content-type", "application/json"), ("content-length", str(len(body)))),
                *(("x-should-retry", "false"), ("connection", "close")),
            ):
                self.send_header(name, value)
            with suppress(OSError):  # A client that needs no more than the status has hung up.
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Print nothing."""

    return Handler


_children: Final = contextvars.ContextVar[Children | None]("simkit_children", default=None)


def children_of_run(children: Children | None) -> Inside[Children]:
    """Give processes started in this context, and in theirs, the children's environment."""
    return Inside(_children, children)


_PARAMETERS: Final = tuple(inspect.signature(subprocess.Popen).parameters)


def _popen(before: Replacement) -> Replacement:
    def __init__(self: subprocess.Popen[Any], *args: Any, **kwargs: Any) -> None:
        children = _children.get()
        if children is not None and active_guard() is not None:
            kwargs, args = {**dict(zip(_PARAMETERS, args, strict=False)), **kwargs}, ()
            variables = kwargs.get("env")
            kwargs["env"] = children.environment(os.environ if variables is None else variables)
            children.started(self)
        before(self, *args, **kwargs)
        _started(self)

    return __init__


def _system(before: Replacement) -> Replacement:
    def system(command: Any) -> int:
        if _children.get() is None or active_guard() is None:
            return int(before(command))
        # The C library's function takes no environment.
        code = subprocess.call(command, shell=True)
        return code << 8 if code >= 0 else -code

    return system


def _start(before: Replacement) -> Replacement:
    def start(self: BaseProcess) -> None:
        note_effect("process", sys._getframe(1))
        before(self)
        _started(self)

    return start


def _started(process: Any) -> None:
    guard = active_guard()
    if guard is not None:
        guard.looks.started.add(process)


class _InContext:
    """A function for the end of the process or of an object, called as code of its run.

    It may be there as long as the process, and holds nothing of the run.
    """

    def __init__(self, function: Callable[..., Any], named: Any) -> None:
        """``named`` is the function that the code gave, for `atexit.unregister`."""
        self._function, self._named = function, named
        self._owner = current_owner()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._owner is None or not self._owner.is_over:
            return self._function(*args, **kwargs)
        return context_after_run(self._owner).run(self._function, *args, **kwargs)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, _Search):
            other.functions.append(self)
            return False
        return other is self or (not isinstance(other, _InContext) and other == self._named)

    def __hash__(self) -> int:
        return hash(self._named)


class _Search:
    """A search for what code of runs has registered: `atexit.unregister` compares it with all."""

    def __init__(self) -> None:
        self.functions: list[_InContext] = []
        atexit.unregister(self)

    def __call__(self) -> None:
        """Do nothing: `atexit` knows functions only."""


def _register(before: Replacement) -> Replacement:
    def register(function: Any, /, *args: Any, **kwargs: Any) -> Any:
        if not _is_of_run():
            return before(function, *args, **kwargs)
        before(_InContext(partial(function, *args, **kwargs), function))
        return function

    return register


def _finalize(before: Replacement) -> Replacement:
    def __init__(self: Any, watched: Any, function: Any, *args: Any, **kwargs: Any) -> None:
        function = _InContext(function, function) if _is_of_run() else function
        before(self, watched, function, *args, **kwargs)

    return __init__


def _is_of_run() -> bool:
    return active_guard() is not None or is_left_behind()


def _carried(function: Any) -> Any:
    """Return a function of a run's own code that it leaves to the time after the run, as its code.

    Libraries compare what they have left (asyncio, its handler of SIGINT), and end their helpers.
    """
    code = getattr(getattr(function, "func", function), "__code__", None)
    is_left = _is_of_run() and code is not None and not is_library(code.co_filename)
    return _InContext(function, function) if is_left else function


def _carrying(index: int) -> Callable[[Replacement], Replacement]:
    """Return what replaces a function that is given a function at a place."""

    def replacing(before: Replacement) -> Replacement:
        def register(*args: Any, **kwargs: Any) -> Any:
            carried = map(_carried, args[index : index + 1])
            return before(*args[:index], *carried, *args[index + 1 :], **kwargs)

        return register

    return replacing


def leave_threads(busy: Collection[int]) -> Collection[int]:
    """Return the identifiers of threads that a run has left; keep them for the process's end."""
    _left.extend(thread for thread in threading.enumerate() if thread.ident in busy)
    return busy


def end_run(owner: Owner) -> None:
    """Let a scenario be over for the code that outlives it.

    Objects in cycles have their `__del__` called wherever the collector runs: it runs here.
    """
    owner.is_over = True
    context_after_run(owner).run(gc.collect, 1)


def refused_at_exit() -> list[str]:
    """End what code of runs has left to the end of this process; return what it is refused.

    Here, near the end, a refusal can still make a command or a session fail.
    """
    end_what_is_left()
    context_after_run(Owner(is_over=True)).run(gc.collect)  # As `end_run` does, of all ages.
    return late_refusals()


def end_what_is_left() -> None:
    """Call what code of runs has left to the end of this process, as Python does at that end.

    It goes on for LEFT_MAX_S: threads that are not daemons would keep the process alive.
    """
    _left.extend(threads_of_runs)
    with watching_processes, _carrying_late:
        for function in [*compat.thread_exits]:
            if isinstance(getattr(function, "func", None), _InContext):
                compat.thread_exits.remove(function)
                _call(function)
        _join_left()
        while (search := _Search()).functions:
            for function in reversed(search.functions):
                atexit.unregister(function)
                _call(function)
        for finalizer, info in reversed([*compat.finalizers.items()]):
            if isinstance(info.func, _InContext) and finalizer.atexit:
                _call(finalizer)
        by_priority = sorted(
            compat.child_exits.items(), key=lambda exit: (exit[0][0] or 0, exit[0][1])
        )
        for (priority, _), finalizer in reversed(by_priority):
            call = compat.call_of_child_exit(finalizer)
            if priority is not None and isinstance(call, _InContext):
                _call(finalizer)
        _join_left()


def _join_left() -> None:
    until = time.monotonic() + LEFT_MAX_S
    while _left:
        thread = _left.pop()
        threads_of_runs.discard(thread)
        if not thread.daemon:
            # Of one that was started and never begins, CPython 3.11 asserts that it has stopped.
            with suppress(AssertionError):
                thread.join(max(until - time.monotonic(), 0))


def _call(function: Callable[[], object]) -> None:
    try:
        function()
    except Exception:  # As Python does at the end of a process.
        traceback.print_exc()


def _start_late(before: Replacement) -> Replacement:
    def start(self: threading.Thread) -> None:
        if is_left_behind():
            self.run = partial(contextvars.copy_context().run, self.run)  # type: ignore[method-assign]
            _left.append(self)
        before(self)

    return start


_carrying_late: Final = Installation(lambda: [(threading.Thread, "start", _start_late)])
"""Lets threads that are started after a run belong to it."""
_REPLACED: Final[tuple[Row, ...]] = (
    (subprocess.Popen, "__init__", _popen),
    (os, "system", _system),
    (BaseProcess, "start", _start),
    (atexit, "register", _register),
    (weakref.finalize, "__init__", _finalize),
    (signal, "signal", _carrying(1)),
    (*compat.EXIT, _carrying(0)),
    (multiprocessing.util.Finalize, "__init__", _carrying(2)),
)
watching_processes: Final = Installation(lambda: _REPLACED, started=add_hook)
"""A context manager that watches processes; several scenarios may enter it at once."""
