"""Interception of `aiohttp` at its connector: its own writer and parser work in memory.

The client gets a connection that collects the request; then the router decides, and the client's
protocol gets either the answer or, over a real connection that is opened only now, the bytes that
the server sends.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable, Iterator
from errno import ECONNREFUSED
from types import ModuleType
from typing import Any

from simkit.capture.http import compat, request_router
from simkit.capture.http.connections import seconds, shortened
from simkit.capture.http.http_connections import Listening, Message, response_bytes
from simkit.capture.http.installing import Replacement, Row
from simkit.capture.http.places import asked_by, library_asking
from simkit.core.context_values import Inside
from simkit.providers.http import HttpRequest, HttpResponse, header


def rows(library: ModuleType) -> list[Row]:
    """Return the replacements for `aiohttp.connector`."""

    def replacement(before: Replacement) -> Replacement:
        async def connect(connector: Any, req: Any, traces: Any, timeout: Any) -> Any:
            router = request_router.current_router(HttpRequest(req.method.upper(), str(req.url)))
            if router is None:
                return await before(connector, req, traces, timeout)

            async def dial() -> Any:
                with request_router.forwarding():
                    return await before(connector, req, traces, timeout)

            def refused(problem: OSError) -> Any:
                return library.ClientConnectorError(req.connection_key, problem)

            loop = asyncio.get_running_loop()
            protocol = library.ResponseHandler(loop)
            owner = request_router.current_owner()
            home = owner.home if owner is not None else ""
            asking = library_asking(sys._getframe(), home)
            url = str(req.url)
            transport = _Transport(protocol, loop, router, url, dial, refused, asking)
            protocol.connection_made(transport)
            stand_in = compat.StandInConnector(bool(connector.force_close))
            return library.Connection(stand_in, req.connection_key, protocol, loop)

        return connect

    return [(*compat.connector(), replacement)]


class _Transport(asyncio.Transport):
    """The transport in place of a client's socket."""

    def __init__(
        self, protocol: Any, loop: asyncio.AbstractEventLoop, router: request_router.RequestRouter,
        url: str, dial: Replacement, refused: Replacement, asking: str,
    ) -> None:  # fmt: skip
        """``dial`` opens a real connection; ``refused`` makes the client's connection error.

        ``asking`` is the library that sends the request by itself, if one does.
        """
        super().__init__()
        self._asking = asking
        self._router, self._url, self._dial, self._refused = router, url, dial, refused
        self.reusable = False
        self._protocol, self._loop = protocol, loop
        self._message, self._body = Message(), bytearray()
        self._chunks_sent: list[bytes] = []
        self._pieces: Iterator[tuple[int, bytes]] = iter(())
        self._ends = ""
        self._is_paused = self._is_closing = self._is_waiting = False
        self._real: Any = None
        self._dialing: asyncio.Task[None] | None = None
        self._listening: Listening | None = None

    # Calls of the client's writer.

    def write(self, data: Any) -> None:
        if self._real is not None:
            self._real.transport.write(data)
        elif not self._is_closing:
            self._chunks_sent.append(bytes(data))
            if not self._message.is_over:
                self._read(bytes(data))

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        self.write(b"".join(list_of_data))

    def _read(self, data: bytes) -> None:
        was_read = bool(self._message.start)
        for piece in self._message.feed(data):
            self._body += piece
        if self._message.is_over:
            self._loop.call_soon(self._decide)
        elif not was_read and header(self._message.headers, "expect").lower() == "100-continue":
            self._loop.call_soon(self._feed, b"HTTP/1.1 100 Continue\r\n\r\n")

    def _decide(self) -> None:
        if self._is_closing:
            return
        method = self._message.start.partition(" ")[0].upper()
        request = HttpRequest(method, self._url, self._message.headers, bytes(self._body))
        try:
            with Inside(asked_by, self._asking):
                decision = self._router.take(request)
        except BaseException as problem:
            # Raised where the client waits; an exception in a callback would only reach the loop.
            self._protocol.set_exception(problem)
            return
        if isinstance(decision, request_router.Later):
            self._dialing = self._loop.create_task(self._wait_for(decision, method))
        else:
            self._decided(decision, method)

    async def _wait_for(self, later: request_router.Later, method: str) -> None:
        try:
            decision = await request_router.wait_in_loop(later)
        except asyncio.CancelledError:
            raise
        except BaseException as problem:
            self._protocol.set_exception(problem)
            return
        if not self._is_closing:
            self._decided(decision, method)

    def _decided(self, decision: request_router.Decision, method: str) -> None:
        if isinstance(decision, request_router.Forward):
            self._dialing = self._loop.create_task(self._forward(decision.tap, method))
        elif isinstance(decision, HttpResponse):
            self._answer(decision, method)
        elif decision.kind == "timeout":
            self._time_out()
        else:
            refused = self._refused(ConnectionRefusedError(ECONNREFUSED, decision.message))
            self._protocol.set_exception(request_router.failing_with(decision, refused))

    # An answer from memory.

    def _answer(self, answer: HttpResponse, method: str) -> None:
        self._pieces, self._ends = response_bytes(answer, method), answer.ends
        self._next()

    def _next(self) -> None:
        if self._is_paused or self._is_closing or self._is_waiting:
            return
        wait_ms, piece = next(self._pieces, (0, b""))
        if not piece:
            self._end()
            return
        limit_s = seconds(getattr(self._protocol, "read_timeout", None))
        delay_s, is_patient = shortened(wait_ms, limit_s)
        self._is_waiting = True
        self._loop.call_later(delay_s, self._deliver, piece if is_patient else b"")

    def _deliver(self, piece: bytes) -> None:
        self._is_waiting = False
        if not piece:
            self._time_out()
            return
        self._feed(piece)
        self._loop.call_soon(self._next)

    def _feed(self, data: bytes) -> None:
        if not self._is_closing:
            self._protocol.data_received(data)

    def _end(self) -> None:
        if self._ends == "cut":
            self._is_closing = True
            self._protocol.connection_lost(None)
        elif self._ends == "timeout":
            self._time_out()

    def _time_out(self) -> None:
        if not self._is_closing:
            compat.time_out(self._protocol)

    # A real connection.

    async def _forward(self, tap: request_router.ChunkRecorder | None, method: str) -> None:
        self._listening = Listening(tap, method)
        try:
            self._real = await self._dial()
        except asyncio.CancelledError:
            self._listening.ended(request_router.CLOSED_EARLY)
            raise
        except BaseException as problem:
            self._listening.ended(request_router.problem_text(problem))
            if isinstance(problem, TimeoutError):
                self._time_out()
            else:
                self._protocol.set_exception(problem)
            return
        relay = _Relay(self._protocol, self._real, self._listening)
        self._real.transport.set_protocol(relay)
        self._real.transport.write(b"".join(self._chunks_sent))
        if self._is_paused:
            self._real.transport.pause_reading()

    def pause_reading(self) -> None:
        self._is_paused = True
        if self._real is not None:
            self._real.transport.pause_reading()

    def resume_reading(self) -> None:
        self._is_paused = False
        if self._real is not None:
            self._real.transport.resume_reading()
        else:
            self._loop.call_soon(self._next)

    # The other methods of a transport.

    def is_reading(self) -> bool:
        return not self._is_paused

    def is_closing(self) -> bool:
        return self._is_closing

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default if self._real is None else self._real.transport.get_extra_info(name, default)

    def close(self) -> None:
        if self._is_closing:
            return
        self._is_closing = True
        if self._dialing is not None and not self._dialing.done():
            self._dialing.cancel()
        if self._real is not None and self._listening is not None:
            self._give_back(self._listening)
        self._loop.call_soon(self._protocol.connection_lost, None)

    def abort(self) -> None:
        self.close()

    def _give_back(self, listening: Listening) -> None:
        """Return the real connection to its pool if it can be used again, else close it."""
        real, self._real = self._real, None
        if real.transport is None:
            return  # the server has closed it
        real.transport.set_protocol(real.protocol)
        if self.reusable and listening.is_whole and not real.transport.is_closing():
            real.release()
        else:
            listening.ended(request_router.CLOSED_EARLY)
            real.close()


class _Relay(asyncio.Protocol):
    """Passes a server's bytes on to the client's protocol, and observes them."""

    def __init__(self, protocol: Any, real: Any, listening: Listening) -> None:
        self._protocol, self._real, self._listening = protocol, real, listening

    def data_received(self, data: bytes) -> None:
        self._listening.feed_answer(data)
        self._protocol.data_received(data)

    def eof_received(self) -> None:
        self._listening.feed_answer(b"")
        self._protocol.eof_received()

    def connection_lost(self, problem: Exception | None) -> None:
        if problem is None:
            self._listening.feed_answer(b"")
        else:
            self._listening.ended(request_router.problem_text(problem))
        if self._protocol.transport is not None:
            self._protocol.connection_lost(problem)
        if self._real.protocol is not None:
            self._real.protocol.connection_lost(problem)  # a session that closes waits for it
            self._real.close()

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()
