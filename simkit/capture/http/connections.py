"""Connections outside all routers: refused, unless their host is allowed.

A connection inside a guarded function (`simkit.capture.http.guards`) raises NetworkRefused; during
a run it raises NetworkRefused in a RunHalted, which no ``except Exception`` of the pipeline catches
as an outage. Loopback is refused, too.

*Not seen*: existing connections, and those of C extensions (grpc, uvloop, curl).
"""

from __future__ import annotations

import asyncio
import contextvars
import socket
import sys
import time
from collections.abc import Iterable
from errno import ECONNREFUSED
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from simkit.capture.http.installing import Installation, Replacement, Row
from simkit.capture.http.places import library_asking, library_frame, stack
from simkit.capture.http.refusals import LibraryRequest, log, note_refusal
from simkit.capture.http.request_router import AllowedHosts, allowed_hosts, is_forwarding
from simkit.core.errors import NetworkRefused
from simkit.core.stopping import halting, is_copy_of_run
from simkit.providers.protocols import is_providers_host

if TYPE_CHECKING:
    from simkit.capture.http.guards import Guard

watcher: Final = contextvars.ContextVar["Guard | None"]("simkit_watcher", default=None)


def _allowed_hosts(host: str, port: int | None, client: str = "") -> list[AllowedHosts]:
    """Reject a connection, or return the rules that allow it; empty if nobody watches.

    ``client`` is the library that would connect by itself, if it is one.
    """
    watching, runs = watcher.get(), allowed_hosts()
    if is_forwarding():
        return []
    if watching is not None and watching.allowed.allow(host, port):
        return [watching.allowed]
    if runs and all(allowed.allow(host, port) for allowed in runs):
        return runs
    if watching is None and not runs:
        return []
    raise _refused(host, port, client, watching, is_run=bool(runs))


def _refused(
    host: str, port: int | None, client: str, watching: Guard | None, *, is_run: bool
) -> BaseException:
    """Return what a refused connection raises, once it is noted."""
    refusal = _refusal(host, port, client, in_function=watching is not None)
    home, caller = "" if watching is None else watching.home, sys._getframe(1)
    is_known = bool(client) or is_copy_of_run() or is_providers_host(host)
    library = "" if is_known or not is_run else library_asking(caller, home)
    if library:
        error = ConnectionRefusedError(ECONNREFUSED, str(refusal))
        entry = library_frame(caller, home)
        log.to_libraries.append(LibraryRequest(library, host, refusal, [error], entry))
        return error
    if watching is not None:
        watching.caused("network")
    if is_copy_of_run():
        note_refusal(f"in a process that the pipeline started: {refusal}")
    elif is_run:
        note_refusal(str(refusal))  # A thread may end of it, and code may catch anything.
    return halting(refusal) if is_run else refusal


def _refusal(host: str, port: int | None, client: str, in_function: bool) -> NetworkRefused:
    name = "a unix socket" if host.startswith("/") or not host else host
    address = name if port is None else f"{name}:{port}"
    if client:
        address += f", with {client}, in which simkit can answer no request"
    advice = _OF_A_FUNCTION if in_function else _OF_A_TOOL
    advice = _OF_A_PROVIDER if is_providers_host(host) else advice
    if in_function:
        text = f"a user's function reached for the network, {address}, which is refused. {advice}"
    else:
        lines = "".join(f"\n  at {line}" for line in stack(sys._getframe(3)))
        text = (
            f"the pipeline reached for the network, {address}, which is refused.{lines}\n{advice}"
        )
    return NetworkRefused(text, host, port)


_OF_A_FUNCTION: Final = "Stub the tool with `tool_results`, or pass the data in."
_OF_A_TOOL: Final = "Stub the tool that needs it with `tool_results`, or list it in `allow_hosts`."
_OF_A_PROVIDER: Final = (
    "A model answers there, but simkit cannot read what is sent over a socket of the code's own: "
    "let it use a client that simkit knows (`simkit doctor` lists them), or run the code as a "
    "program, `simkit serve SCENARIO --then COMMAND`, which gives clients an address of this "
    "machine."
)


def _named(host: Any) -> str:
    return host.decode(errors="replace") if isinstance(host, bytes) else str(host)


def _number(port: Any) -> int | None:
    """Return a port as a number; None for none, and for a service's name."""
    if isinstance(port, str | bytes) and port.isdigit():
        return int(port)
    return port if isinstance(port, int) else None


def ask_address(address: Any, frame: FrameType) -> None:
    """Refuse or allow a connection to an address; ``frame`` is the connecting code."""
    caller = (frame.f_back or frame if frame.f_code.co_filename == __file__ else frame).f_code
    if caller.co_filename == socket.__file__ and caller.co_name.endswith("socketpair"):
        return  # An event loop without pipes wakes itself by a socket.
    if isinstance(address, tuple):
        _allowed_hosts(_named(address[0]), _number(address[1]) if len(address) > 1 else None)
    else:
        _allowed_hosts(_named(address) if isinstance(address, str | bytes) else "", None)


def ask_client(client: str, url: Any) -> None:
    """Refuse or allow a request of a library that connects by itself."""
    parts = urlsplit(_named(url))
    _allowed_hosts(parts.hostname or "?", parts.port, client)


def _connect(before: Replacement) -> Replacement:
    def connect(self: socket.socket, address: Any, /) -> Any:
        ask_address(address, sys._getframe(1))
        return before(self, address)

    return connect


def _sendto(before: Replacement) -> Replacement:
    def sendto(self: socket.socket, data: Any, *flags_and_address: Any) -> Any:
        ask_address(flags_and_address[-1], sys._getframe(1))
        return before(self, data, *flags_and_address)

    return sendto


def _resolve(before: Replacement) -> Replacement:
    def resolve(host: Any, *args: Any, **options: Any) -> Any:
        if not host:
            return before(host, *args, **options)
        name = _named(host)
        allowing = _allowed_hosts(name, _number(options.get("port", args[0] if args else None)))
        resolved = before(host, *args, **options)
        for allowed in allowing:
            allowed.learn(name, _addresses(resolved))
        return resolved

    return resolve


def _addresses(resolved: Any) -> Iterable[str]:
    """Return the addresses that `gethostbyname`, `gethostbyname_ex` or `getaddrinfo` returned."""
    if isinstance(resolved, str):
        return [resolved]
    return resolved[2] if isinstance(resolved, tuple) else [str(e[4][0]) for e in resolved]


def _loop_resolve(before: Replacement) -> Replacement:
    # The event loop looks names up in a thread, which must know its scenario.
    async def getaddrinfo(self: asyncio.BaseEventLoop, host: Any, port: Any, **options: Any) -> Any:
        look_up = partial(socket.getaddrinfo, host, port, **options)
        return await self.run_in_executor(None, contextvars.copy_context().run, look_up)

    return getaddrinfo


def _create_connection(before: Replacement) -> Replacement:
    # Refused before the event loop looks up the address.
    def create_connection(
        self: asyncio.AbstractEventLoop, factory: Any, host: Any = None, port: Any = None, **o: Any
    ) -> Any:
        if host is not None:
            _allowed_hosts(_named(host), _number(port))
        return before(self, factory, host, port, **o)

    return create_connection


_REPLACED: Final[tuple[Row, ...]] = (
    (socket.socket, "connect", _connect),
    (socket.socket, "connect_ex", _connect),
    (socket.socket, "sendto", _sendto),
    (socket, "getaddrinfo", _resolve),
    (socket, "gethostbyname", _resolve),
    (socket, "gethostbyname_ex", _resolve),
    (asyncio.BaseEventLoop, "create_connection", _create_connection),
    (asyncio.BaseEventLoop, "getaddrinfo", _loop_resolve),
)

installation: Final = Installation(lambda: _REPLACED)
"""Replaces the functions that connect; they refuse nothing unless a guard or a run is active."""


# Delays of answers: real, or none if a guard makes sleep free


def seconds(value: Any) -> float | None:
    """Return a client's read timeout; None if it waits for ever."""
    return float(value) if isinstance(value, int | float) else None


def wait(wait_ms: int, timeout_s: float | None) -> bool:
    """Wait; return False if the client's timeout ran out."""
    delay_s, is_patient = shortened(wait_ms, timeout_s)
    if delay_s:
        time.sleep(delay_s)
    return is_patient


async def wait_async(wait_ms: int, timeout_s: float | None) -> bool:
    """Wait; return False if the client's timeout ran out."""
    delay_s, is_patient = shortened(wait_ms, timeout_s)
    if delay_s:
        await asyncio.sleep(delay_s)
    return is_patient


def shortened(wait_ms: int, timeout_s: float | None) -> tuple[float, bool]:
    """Return how long to wait really, and whether the client waits that long."""
    is_patient = timeout_s is None or wait_ms <= timeout_s * 1_000
    wait_s = wait_ms / 1_000 if is_patient else timeout_s or 0.0
    return (0.0 if watcher.get() is not None else wait_s), is_patient
