"""What simkit replaces of HTTP clients, and uses of their inside, and why.

No client library is imported here: it is looked into once somebody else has imported it.
`simkit.core.compat` says which versions were tried.
"""

from __future__ import annotations

from threading import Thread
from types import ModuleType
from typing import Any, Final

from simkit.core.compat import PYTHON, Library, Slot

_PYTHON: Final = Library(PYTHON)
pool_worker: Final = _PYTHON.find("concurrent.futures.thread:_worker")
"""What the threads of a thread pool do, which serve whoever comes next."""


def target_of_thread(thread: Thread) -> Any:
    """Return what a thread was made to do; None for one that overrides ``run``."""
    return getattr(thread, "_target", None)


# httpx and httpx2


def transports(module: ModuleType) -> tuple[Slot, Slot]:
    """Return where `httpx`, or what has its shape, sends a request, whoever built the client."""
    name = module.__name__
    return (
        Library(name).slot(f"{name}:HTTPTransport.handle_request"),
        Library(name).slot(f"{name}:AsyncHTTPTransport.handle_async_request"),
    )


def pooled_connections(transport: Any, module: ModuleType) -> list[Any]:
    """Return the connections that a transport keeps: there is no other way to let go of them."""
    connections = getattr(getattr(transport, "_pool", None), "_connections", None)
    if not isinstance(connections, list):
        name = module.__name__
        raise Library(name).missing(f"{name}:AsyncHTTPTransport._pool._connections")
    return connections


def transport_of(client: Any) -> Any:
    """Return what a client of `httpx` sends through: `simkit doctor` shows one that is not seen."""
    return getattr(client, "_transport", None)


# aiohttp


def connector() -> Slot:
    """Return where every request of `aiohttp` gets its connection.

    simkit gives it one of its own, so it needs what the connection is made of.
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
    """Do what `aiohttp` does when `sock_read` runs out: wake who reads the head or the body."""
    protocol._on_read_timeout()


class StandInConnector:
    """Takes a connection of `aiohttp` back in place of the connector, whose pool never held it."""

    def __init__(self, force_close: bool) -> None:
        self.force_close = force_close

    def _release(self, key: Any, protocol: Any, *, should_close: bool = False) -> None:
        if protocol.transport is not None:
            protocol.transport.reusable = not (should_close or protocol.should_close)
        protocol.close()


# http.client, and what extends its connections

CONNECTIONS: Final = {
    "http.client": (_PYTHON, "HTTPConnection", "HTTPSConnection"),
    "urllib3.connection": (Library("urllib3"), "HTTPConnection", "HTTPSConnection"),
    "httplib2": (Library("httplib2"), "HTTPConnectionWithTimeout", "HTTPSConnectionWithTimeout"),
}
"""Module to its library and its classes."""


def connects(module: ModuleType) -> list[Slot]:
    """Return where connections of a module are opened."""
    library, *names = CONNECTIONS[module.__name__]
    return [library.slot(f"{module.__name__}:{name}.connect") for name in names]


def putrequest() -> Slot:
    """Return where a request begins, also on a connection that is open."""
    _PYTHON.check_layout("http.client:HTTPConnection", "_tunnel_host _tunnel_port default_port")
    return _PYTHON.slot("http.client:HTTPConnection.putrequest")


def target_of(connection: Any) -> tuple[str, int | None]:
    """Return the host and the port that a connection leads to, which may be behind a proxy."""
    tunnel = getattr(connection, "_tunnel_host", None)
    return (tunnel, connection._tunnel_port) if tunnel else (connection.host, connection.port)
