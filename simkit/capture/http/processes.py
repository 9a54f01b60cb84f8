"""Processes that user code starts: their environment, and what they ask.

Children of `subprocess` and `asyncio` get an environment whose proxies and provider addresses lead
to a server that refuses, and reports the request. `simkit.capture.http.guards` reports the start.

*Not covered*: see SECURITY.md.
"""

from __future__ import annotations

import _thread
import atexit
import contextvars
import os
import socketserver
import subprocess
import sys
import traceback
import weakref
from collections.abc import Callable, Mapping
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
from simkit.capture.http.request_router import context_after_run, current_owner
from simkit.core.context_values import Inside
from simkit.providers.protocols import PROTOCOLS

_PROXIES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
HOST: Final = "127.0.0.1"
_start_thread: Final = _thread.start_new_thread
"""Python's own function: during a run, the module has another one."""

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
            _start_thread(server.serve_forever, (0.05,))
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
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Print nothing."""

    return Handler


_children: Final = contextvars.ContextVar[Children | None]("simkit_children", default=None)


def children_of_run(children: Children | None) -> Inside[Children]:
    """Give processes started in this context, and in theirs, the children's environment."""
    return Inside(_children, children)


_ENV: Final = 10
"""The index of ``env`` among the arguments of `subprocess.Popen`."""


def _popen(before: Replacement) -> Replacement:
    def __init__(self: subprocess.Popen[Any], *args: Any, **kwargs: Any) -> None:
        children = _children.get()
        if children is not None and active_guard() is not None:
            by_place = len(args) > _ENV
            variables = args[_ENV] if by_place else kwargs.get("env")
            environment = children.environment(os.environ if variables is None else variables)
            if by_place:
                args = (*args[:_ENV], environment, *args[_ENV + 1 :])
            else:
                kwargs["env"] = environment
            children.started(self)
        before(self, *args, **kwargs)

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

    return start


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
    """Given to `atexit.unregister`, it finds what code of runs has registered."""

    def __init__(self) -> None:
        self.functions: list[_InContext] = []

    def __call__(self) -> None:
        """Do nothing: `atexit` knows functions only."""


def _register(before: Replacement) -> Replacement:
    def register(function: Any, /, *args: Any, **kwargs: Any) -> Any:
        if active_guard() is None:
            return before(function, *args, **kwargs)
        before(_InContext(partial(function, *args, **kwargs), function))
        return function

    return register


def _finalize(before: Replacement) -> Replacement:
    def __init__(self: Any, watched: Any, function: Any, *args: Any, **kwargs: Any) -> None:
        is_of_run = active_guard() is not None
        function = _InContext(function, function) if is_of_run else function
        before(self, watched, function, *args, **kwargs)

    return __init__


def refused_at_exit() -> list[str]:
    """Call what code of runs has left to the end of this process; return what it is refused.

    Here, near the end, a refusal can still make a command or a session fail.
    """
    search, finalizers = _Search(), [*compat.finalizers.items()]
    atexit.unregister(search)
    for function in reversed(search.functions):
        atexit.unregister(function)
        _call(function)
    for finalizer, info in reversed(finalizers):
        if isinstance(info.func, _InContext) and finalizer.atexit:
            _call(finalizer)
    return late_refusals()


def _call(function: Callable[[], object]) -> None:
    try:
        function()
    except Exception:  # As Python does at the end of a process.
        traceback.print_exc()


_REPLACED: Final[tuple[Row, ...]] = (
    (subprocess.Popen, "__init__", _popen),
    (os, "system", _system),
    (BaseProcess, "start", _start),
    (atexit, "register", _register),
    (weakref.finalize, "__init__", _finalize),
)
watching_processes: Final = Installation(lambda: _REPLACED, started=add_hook)
"""A context manager that watches processes; several scenarios may enter it at once."""
