"""Interception of `httpx` and `httpx2` at their transports, for clients of any origin.

A user's own transport stays as it is (`MockTransport` too); one that wraps `HTTPTransport` is
answered where it would have reached the network. A response may stay open: a server says more when
its client has said more elsewhere.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from types import ModuleType
from typing import Any, ClassVar, Final, NoReturn
from weakref import WeakKeyDictionary

from simkit.capture.http import compat, request_router
from simkit.capture.http.connections import seconds, wait, wait_async
from simkit.capture.http.http_connections import framing
from simkit.capture.http.installing import Replacement, Row
from simkit.capture.http.request_router import Pauses
from simkit.core.context_values import LOCK
from simkit.providers.http import Headers, HttpRequest, HttpResponse, NoResponse

_SILENCE_S: Final = 3_600.0
"""How long a client without a timeout waits for a server that never answers."""


class Feed:
    """The pieces of a response that stays open; any thread may push."""

    def __init__(self, pauses: Pauses) -> None:
        self._pauses = pauses
        self._chunks: list[bytes] = []
        self._waiting: tuple[asyncio.AbstractEventLoop, asyncio.Future[None]] | None = None
        self.is_over = False
        self.is_silent = False
        """Whether nothing follows, and the response does not end."""

    def push(self, *chunks: bytes, is_last: bool = False) -> None:
        """Add pieces, and end the response if they are the last ones."""
        with LOCK:
            self._chunks.extend(chunks)
            self.is_over = self.is_over or is_last
            waiting, self._waiting = self._waiting, None
        if waiting is not None:
            loop, future = waiting
            with suppress(RuntimeError):  # Its loop is closed.
                loop.call_soon_threadsafe(_end, future)

    def take(self) -> list[bytes]:
        """Return the pieces that are there now, once."""
        with LOCK:
            chunks, self._chunks = self._chunks, []
        return chunks

    async def pieces(self, timeout_s: float | None) -> AsyncIterator[bytes]:
        """Yield the pieces as they come; raise TimeoutError if the server is silent."""
        while True:
            for chunk in self.take():
                yield chunk
            if self.is_silent:
                await self._pauses.sleep_in_loop(timeout_s or _SILENCE_S)
                if not self._chunks:
                    raise TimeoutError
                continue
            loop = asyncio.get_running_loop()
            future = loop.create_future()
            with LOCK:
                if self._chunks:
                    continue
                if self.is_over:
                    return
                self._waiting = loop, future
            await future


def _end(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class OpenResponse(HttpResponse, frozen=True, kw_only=True):
    """A response whose pieces come from a feed.

    A client that cannot wait for them, as code without an event loop, gets those that are there.
    """

    feed: Feed
    is_open: ClassVar[bool] = True

    @property
    def timed_chunks(self) -> Iterator[tuple[int, bytes]]:
        """Return the pieces that are there now."""
        return ((0, chunk) for chunk in self.feed.take())


_CERTIFICATES: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR", "SSLKEYLOGFILE")
"""The variables on which a TLS context depends."""
_CUT: Final = "peer closed connection without sending complete message body"
_TIMEOUT: Final = "the read operation timed out"


def rows(library: ModuleType) -> list[Row]:
    """Return the replacements for `httpx`, or for a library of the same shape."""
    patch = _Patch(library)
    sync, asynchronous, contexts = compat.transports(library)
    return [(*sync, patch.sync), (*asynchronous, patch.asynchronous), (*contexts, patch.contexts)]


class _Patch:
    """The replacements for one library, with its own classes and exceptions."""

    def __init__(self, library: ModuleType) -> None:
        self.library = library
        self.loops: WeakKeyDictionary[Any, asyncio.AbstractEventLoop] = WeakKeyDictionary()
        """Transport to the event loop in which it sent last."""
        self.shared: dict[tuple[object, ...], Any] = {}
        """Options and variables to the TLS context of all clients with them."""
        self.answered, self.answered_async = _streams(library)
        self.tapped, self.tapped_async = _tapped_streams(library)

    def sync(self, before: Replacement) -> Replacement:
        def handle_request(transport: Any, request: Any) -> Any:
            if not request_router.is_intercepted():
                return before(transport, request)
            http_request = _request_of(request, request.read())
            router = request_router.current_router(http_request)
            if router is None:
                return before(transport, request)
            decision = request_router.decide(router, http_request)
            if not isinstance(decision, request_router.Forward):
                return self.response(decision, request, self.answered)
            with request_router.forwarding(decision.tap):
                response = before(transport, request)
            return _observed(response, decision.tap, self.tapped)

        return handle_request

    def asynchronous(self, before: Replacement) -> Replacement:
        async def handle_async_request(transport: Any, request: Any) -> Any:
            if not request_router.is_intercepted():
                return await before(transport, request)
            http_request = _request_of(request, await request.aread())
            router = request_router.current_router(http_request)
            if router is None:
                return await before(transport, request)
            decision = await request_router.wait_in_loop(router.take(http_request))
            if not isinstance(decision, request_router.Forward):
                return self.response(decision, request, self.answered_async)
            self.leave_loops_that_are_over(transport)
            with request_router.forwarding(decision.tap):
                response = await before(transport, request)
            return _observed(response, decision.tap, self.tapped_async)

        return handle_async_request

    def contexts(self, before: Replacement) -> Replacement:
        """Let clients share the usual certificates, which take longer to load than a turn."""

        def create_ssl_context(verify: Any = True, cert: Any = None, **options: Any) -> Any:
            if verify is not True or cert is not None:
                return before(verify=verify, cert=cert, **options)
            key = (*options.items(), *map(os.environ.get, _CERTIFICATES))
            if key not in self.shared:
                self.shared[key] = before(**options)
            return self.shared[key]

        return create_ssl_context

    def leave_loops_that_are_over(self, transport: Any) -> None:
        """Drop the connections of a client that outlived its event loop.

        Each scenario has its own loop, where the user's code may have one for all its life; a
        connection of a closed loop can neither be used nor closed.
        """
        now = asyncio.get_running_loop()
        before, self.loops[transport] = self.loops.get(transport), now
        if before is None or before is now or not before.is_closed():
            return
        compat.pooled_connections(transport, self.library).clear()

    def response(self, answer: HttpResponse | NoResponse, request: Any, stream: Replacement) -> Any:
        """Return the answer as the library's own response; raise its own error if there is none."""
        if isinstance(answer, NoResponse):
            is_timeout = answer.kind == "timeout"
            error = self.library.ReadTimeout if is_timeout else self.library.ConnectError
            raise request_router.failing_with(answer, error(answer.message, request=request))
        return self.library.Response(
            answer.status,
            headers=[*answer.headers, *framing(answer, request.method)],
            stream=stream(answer, request),
        )


def _request_of(request: Any, body: bytes) -> HttpRequest:
    return HttpRequest(request.method.upper(), str(request.url), _pairs(request), body)


def _pairs(message: Any) -> Headers:
    raw = message.headers.raw
    return tuple([(name.decode("latin-1"), value.decode("latin-1")) for name, value in raw])


def _observed(response: Any, tap: request_router.ChunkRecorder | None, tapped: Replacement) -> Any:
    """Return a real response, whose stream an observer sees."""
    if tap is not None:
        tap.response_started(response.status_code, _pairs(response))
        response.stream = tapped(response.stream, tap)
    return response


def _streams(library: ModuleType) -> tuple[type, type]:
    """Make the stream classes that yield an answer, chunk by chunk."""

    class Answered:
        def __init__(self, answer: HttpResponse, request: Any) -> None:
            self.answer, self.request = answer, request
            self.timeout_s = seconds(request.extensions.get("timeout", {}).get("read"))

        def time_out(self) -> NoReturn:
            raise library.ReadTimeout(_TIMEOUT, request=self.request)

        def end(self) -> None:
            if self.answer.ends == "cut":
                raise library.RemoteProtocolError(_CUT, request=self.request)
            if self.answer.ends == "timeout":
                self.time_out()

    class Sync(Answered, library.SyncByteStream):  # type: ignore[misc, name-defined]
        def __iter__(self) -> Iterator[bytes]:
            for wait_ms, chunk in self.answer.timed_chunks:
                if wait_ms and not wait(wait_ms, self.timeout_s):
                    self.time_out()
                yield chunk
            self.end()

    class Async(Answered, library.AsyncByteStream):  # type: ignore[misc, name-defined]
        async def __aiter__(self) -> AsyncIterator[bytes]:
            if isinstance(self.answer, OpenResponse):
                try:
                    async for chunk in self.answer.feed.pieces(self.timeout_s):
                        yield chunk
                except TimeoutError:
                    self.time_out()
            for wait_ms, chunk in self.answer.timed_chunks:
                if wait_ms and not await wait_async(wait_ms, self.timeout_s):
                    self.time_out()
                yield chunk
            self.end()

    return Sync, Async


def _tapped_streams(library: ModuleType) -> tuple[type, type]:
    """Make the stream classes that pass on a real response and observe it."""

    class Tapped:
        def __init__(self, stream: Any, tap: request_router.ChunkRecorder) -> None:
            self.stream, self.tap = stream, tap

        @contextmanager
        def until_its_end(self) -> Iterator[None]:
            try:
                yield
            except Exception as problem:
                self.tap.ended(request_router.problem_text(problem))
                if not self.tap.last_words:
                    raise
            self.tap.ended("")

    class Sync(Tapped, library.SyncByteStream):  # type: ignore[misc, name-defined]
        def __iter__(self) -> Iterator[bytes]:
            with self.until_its_end():
                for chunk in self.stream:
                    self.tap.chunk(chunk)
                    yield chunk
            yield self.tap.last_words

        def close(self) -> None:
            self.tap.ended(request_router.CLOSED_EARLY)
            self.stream.close()

    class Async(Tapped, library.AsyncByteStream):  # type: ignore[misc, name-defined]
        async def __aiter__(self) -> AsyncIterator[bytes]:
            with self.until_its_end():
                async for chunk in self.stream:
                    self.tap.chunk(chunk)
                    yield chunk
            yield self.tap.last_words

        async def aclose(self) -> None:
            self.tap.ended(request_router.CLOSED_EARLY)
            await self.stream.aclose()

    return Sync, Async
