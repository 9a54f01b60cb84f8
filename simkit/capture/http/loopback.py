"""A small HTTP server on the loopback interface, answered by a handler.

h11 does the framing. An answer is sent piece by piece; a planned cut or silence happens on the
connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import ipaddress
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import urlsplit

import h11
import msgspec

from simkit.capture.http.request_router import Decision, Forward
from simkit.providers.http import Headers, HttpRequest, HttpResponse, NoResponse

HOST: Final = "127.0.0.1"
BODY_MAX: Final = 256 * 1024 * 1024
"""Bytes of a request; a larger one is refused with status 413."""
_READ: Final = 65_536
_LINGER_S: Final = 2.0
"""How long a refused client may go on sending before the connection is cut."""
_JSON: Final = (("content-type", "application/json"),)

Handle = Callable[[HttpRequest], Decision | Awaitable[Decision]]
"""Decides at once, or later; other connections are served meanwhile."""


class _Refused(Exception):
    """A request that is refused before the handler: ``args`` are status and problem."""


class Loopback:
    """The running server, with its address."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._connections: set[asyncio.Task[None]] = set()
        self.url = ""
        """``http://127.0.0.1:49152``."""
        self.problem: Exception | None = None
        """The first exception of the handler; None if there is none."""

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until it ends."""
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await _Connection(self._decided, reader, writer).run()
        except asyncio.CancelledError:
            writer.transport.abort()  # The server stops: nobody reads the rest.
        except (OSError, h11.ProtocolError):
            pass  # The client has closed.
        finally:
            self._connections.discard(task)
            writer.close()

    async def _decided(self, request: HttpRequest) -> Decision:
        try:
            decision = self._handle(request)
            return await decision if inspect.isawaitable(decision) else decision
        except Exception as problem:
            self.problem = self.problem or problem
            raise _Refused(500, f"simkit failed: {type(problem).__name__}: {problem}") from problem

    async def close(self) -> None:
        """Close every connection, idle or not."""
        for task in (tasks := list(self._connections)):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def listening(handle: Handle, port: int = 0) -> AsyncIterator[Loopback]:
    """Serve with ``handle`` until the context is left; port 0 takes any free one. Raise OSError."""
    loopback = Loopback(handle)
    server = await asyncio.start_server(loopback.connected, HOST, port)
    loopback.url = "http://{}:{}".format(*server.sockets[0].getsockname()[:2])
    try:
        yield loopback
    finally:
        server.close()
        await loopback.close()
        await server.wait_closed()


class _Connection:
    """One client's connection, request after request."""

    def __init__(
        self,
        handle: Callable[[HttpRequest], Awaitable[Decision]],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._handle, self._reader, self._writer = handle, reader, writer
        self._http = h11.Connection(h11.SERVER)

    async def run(self) -> None:
        """Serve until the client, or an answer, ends the connection."""
        while True:
            try:
                request = await self._request()
                if request is None:
                    return
                goes_on = await self._answer(request.method, await self._handle(request))
            except _Refused as refused:
                await self._refuse(*refused.args)
                return
            except h11.RemoteProtocolError as problem:
                why = str(problem).partition(": bytearray")[0]
                await self._refuse(problem.error_status_hint, f"no HTTP request: {why}")
                return
            if not goes_on or self._http.our_state is h11.MUST_CLOSE:
                return
            self._http.start_next_cycle()

    async def _request(self) -> HttpRequest | None:
        head: h11.Request | None = None
        body = bytearray()
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                if self._http.they_are_waiting_for_100_continue:
                    await self._send(h11.InformationalResponse(status_code=100, headers=[]))
                self._http.receive_data(await self._reader.read(_READ))
            elif isinstance(event, h11.Request):
                head = event
            elif isinstance(event, h11.Data):
                body += event.data
                if len(body) > BODY_MAX:
                    raise _Refused(413, f"a request has at most {BODY_MAX} bytes")
            elif isinstance(event, h11.EndOfMessage) and head is not None:
                return _request_of(head, bytes(body))
            else:
                return None

    async def _answer(self, method: str, decision: Decision) -> bool:
        """Send an answer; return whether the connection stays open."""
        assert not isinstance(decision, Forward), "a loopback server forwards nothing"
        if isinstance(decision, NoResponse):
            if decision.kind == "timeout":
                await self._say_nothing()
            else:
                self._writer.transport.abort()
            return False
        is_whole = len(decision.chunks) < 2 and not decision.ends and not any(decision.waits_ms)
        framing = ("content-length", str(len(decision.body)))
        if not is_whole:
            framing = ("transfer-encoding", "chunked")
        head = h11.Response(status_code=decision.status, headers=[*decision.headers, framing])
        if is_whole:
            body = b"" if method == "HEAD" else decision.body
            await self._send(head, h11.Data(data=body), h11.EndOfMessage())
            return True
        await self._send(head)
        if method != "HEAD":
            await self._stream(decision)
        if decision.ends == "timeout":
            await self._say_nothing()
        if decision.ends:
            return False
        await self._send(h11.EndOfMessage())
        return True

    async def _stream(self, response: HttpResponse) -> None:
        for wait_ms, chunk in response.timed_chunks:
            if wait_ms:
                await asyncio.sleep(wait_ms / 1_000)
            if chunk:
                await self._send(h11.Data(data=chunk))

    async def _send(self, *events: Any) -> None:
        self._writer.write(b"".join(self._http.send(event) or b"" for event in events))
        await self._writer.drain()

    async def _refuse(self, status: int, problem: str) -> None:
        """Send an error about a request, and let the client read it."""
        if self._http.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return
        body = refusal(problem)
        headers = [*_JSON, ("content-length", str(len(body))), ("connection", "close")]
        await self._send(
            h11.Response(status_code=status, headers=headers),
            h11.Data(data=body),
            h11.EndOfMessage(),
        )
        self._writer.write_eof()
        # Closing with unread bytes resets the connection, and the client loses the answer.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LINGER_S):
                await self._say_nothing()

    async def _say_nothing(self) -> None:
        """Read on until the client gives up."""
        while await self._reader.read(_READ):
            pass


def refusal(problem: str) -> bytes:
    """Return the body of a refusal; every provider's client finds the message in it."""
    return msgspec.json.encode({"error": {"type": "simkit", "message": problem}})


def _refuse_strangers(headers: Headers) -> None:
    """Raise _Refused for a page of another site, also under a name that leads to this machine."""
    for name, value in headers:
        if name in ("host", "origin") and not _is_of_this_machine(value):
            problem = f"the request's {name} is {value!r}, and only this machine is answered"
            raise _Refused(403, f"{problem}: send it to http://{HOST}")


def _is_of_this_machine(value: str) -> bool:
    host = ""
    try:
        host = urlsplit(value if "//" in value else f"//{value}").hostname or ""
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        # Names without a dot and below these have no owner on the internet.
        is_name = "." not in host or host.endswith((".localhost", ".internal"))
        return bool(host) and host != "null" and is_name


def _request_of(head: h11.Request, body: bytes) -> HttpRequest:
    headers: Headers = tuple(
        (name.decode("latin-1"), value.decode("latin-1")) for name, value in head.headers
    )
    target = head.target.decode("latin-1")
    if not target.startswith(("http://", "https://")):
        _refuse_strangers(headers)
        host = next((value for name, value in headers if name == "host"), HOST)
        target = f"http://{host}{target}"
    return HttpRequest(head.method.decode("latin-1"), target, headers, body)
