"""The functions of HTTP clients that simkit replaces or uses, and why.

No client library is imported here: simkit uses a library only after the application has imported
it. `simkit.core.compat` says which versions were tried.
"""

from __future__ import annotations

import threading
from asyncio import AbstractEventLoop
from threading import Condition, Thread
from types import ModuleType
from typing import Any, Final

from simkit.core.compat import PYTHON, Library, Slot

_PYTHON: Final = Library(PYTHON)
finalizers: Final = _PYTHON.find("weakref:finalize._registry")
"""All finalizers by themselves; no API lists them."""
thread_exits: Final = _PYTHON.find("threading:_threading_atexits")
"""The functions that Python calls before it waits for its threads."""
child_exits: Final = _PYTHON.find("multiprocessing.util:_finalizer_registry")
"""The finalizers of `multiprocessing`, by priority."""
pool_worker: Final = _PYTHON.find("concurrent.futures.thread:_worker")
"""The function that each thread of a thread pool runs. Such a thread works for many callers."""


EXIT: Final = (threading, "_register_atexit")
"""Registers a function that Python calls before it waits for its threads; thread pools use it."""


def process_slots() -> list[Slot]:
    """Return the method that starts a process, and those that ask whether it has ended."""
    names = ("_execute_child", "_internal_poll", "_try_wait")
    return [_PYTHON.slot(f"subprocess:Popen.{name}") for name in names]


def call_of_child_exit(finalizer: Any) -> Any:
    """Return the function that a finalizer of `multiprocessing` calls; None if it has none."""
    return getattr(finalizer, "_callback", None)


def selector_of(loop: AbstractEventLoop) -> Any:
    """Return what tells a loop which sockets are ready; None for a loop that has no selector."""
    return getattr(loop, "_selector", None)


def waiters_of(condition: Condition) -> Any:
    """Return the locks of the threads that wait for a condition; no API takes one out."""
    waiters: Any = condition._waiters  # type: ignore[attr-defined]
    return waiters


def target_of_thread(thread: Thread) -> Any:
    """Return a thread's target; None for one that overrides ``run``."""
    return getattr(thread, "_target", None)


# httpx and httpx2


def transports(module: ModuleType) -> tuple[Slot, Slot, Slot]:
    """Return what sends the requests of all clients of `httpx`, or a copy of it.

    That is a method of each transport, and the function that makes their TLS contexts.
    """
    name = module.__name__
    return (
        Library(name).slot(f"{name}:HTTPTransport.handle_request"),
        Library(name).slot(f"{name}:AsyncHTTPTransport.handle_async_request"),
        Library(name).slot(f"{name}._transports.default:create_ssl_context"),
    )


def pooled_connections(transport: Any, module: ModuleType) -> list[Any]:
    """Return the connections that a transport keeps. No API closes them."""
    connections = getattr(getattr(transport, "_pool", None), "_connections", None)
    if not isinstance(connections, list):
        name = module.__name__
        raise Library(name).missing(f"{name}:AsyncHTTPTransport._pool._connections")
    return connections


def transport_of(client: Any) -> Any:
    """Return the transport of a client of `httpx`, for `simkit doctor`."""
    return getattr(client, "_transport", None)


# aiohttp


def connector() -> Slot:
    """Return the method that gives each request of `aiohttp` its connection.

    simkit returns a connection of its own, so it needs the classes of its parts.
    """
    library = Library("aiohttp")
    for name in ("ClientConnectorError", "Connection"):
        library.find(f"aiohttp.connector:{name}")
    library.check_layout(
        "aiohttp.connector:ResponseHandler", "_on_read_timeout connection_made should_close"
    )
    library.check_layout("aiohttp.connector:BaseConnector", "_release force_close")
    return library.slot("aiohttp.connector:BaseConnector.connect")


def time_out(protocol: Any) -> None:
    """Wake the reader of the head or the body, as `aiohttp` does after `sock_read` seconds."""
    protocol._on_read_timeout()


class StandInConnector:
    """Takes a connection of `aiohttp` back instead of the connector, which has not made it."""

    def __init__(self, force_close: bool) -> None:
        self.force_close = force_close

    def _release(self, key: Any, protocol: Any, *, should_close: bool = False) -> None:
        if protocol.transport is not None:
            protocol.transport.reusable = not (should_close or protocol.should_close)
        protocol.close()


# http.client, and subclasses of its connections

CONNECTIONS: Final = {
    "http.client": (_PYTHON, "HTTPConnection", "HTTPSConnection"),
    "urllib3.connection": (Library("urllib3"), "HTTPConnection", "HTTPSConnection"),
    "httplib2": (Library("httplib2"), "HTTPConnectionWithTimeout", "HTTPSConnectionWithTimeout"),
}
"""Module to its library and its classes."""


def connects(module: ModuleType) -> list[Slot]:
    """Return the methods that open a module's connections."""
    library, *names = CONNECTIONS[module.__name__]
    return [library.slot(f"{module.__name__}:{name}.connect") for name in names]


def putrequest() -> Slot:
    """Return the method that begins a request, also on an open connection."""
    _PYTHON.check_layout("http.client:HTTPConnection", "_tunnel_host _tunnel_port default_port")
    return _PYTHON.slot("http.client:HTTPConnection.putrequest")


def target_of(connection: Any) -> tuple[str, int | None]:
    """Return a connection's host and port, also behind a proxy."""
    tunnel = getattr(connection, "_tunnel_host", None)
    return (tunnel, connection._tunnel_port) if tunnel else (connection.host, connection.port)
