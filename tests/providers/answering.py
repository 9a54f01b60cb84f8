"""A provider behind a client library's own transport: it answers in a protocol's words."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import assert_never

import httpx2

from simkit.core.messages import Fails
from simkit.providers.http import HttpAnswer, HttpRequest, HttpResponse, NoResponse
from simkit.providers.values import OutgoingReply, ParsedRequest, Protocol

REQUEST = httpx2.Request("POST", "http://provider.test/")


class Arriving(httpx2.SyncByteStream, httpx2.AsyncByteStream):
    """A response's body, chunk by chunk, and the lost connection if it ends so."""

    def __init__(self, response: HttpResponse) -> None:
        self._response = response

    def __iter__(self) -> Iterator[bytes]:
        yield from self._response.chunks
        if self._response.ends == "cut":
            raise httpx2.RemoteProtocolError("peer closed connection", request=REQUEST)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self:
            yield chunk


class Provider:
    """Answers every request with the same answer, and keeps what was asked."""

    def __init__(self, protocol: Protocol, answer: OutgoingReply | Fails) -> None:
        self._protocol, self._answer = protocol, answer
        self.requests: list[ParsedRequest] = []

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        sent_messages = HttpRequest(
            request.method, str(request.url), tuple(request.headers.items()), request.read()
        )
        assert self._protocol.speaks(sent_messages), sent_messages.url
        self.requests.append(self._protocol.parse_request(sent_messages))
        answer = self._answered(self.requests[-1])
        if isinstance(answer, NoResponse):
            kind = httpx2.ReadTimeout if answer.kind == "timeout" else httpx2.ConnectError
            raise kind(answer.message, request=request)
        headers = list(answer.headers)
        return httpx2.Response(answer.status, headers=headers, stream=Arriving(answer))

    def _answered(self, parsed_request: ParsedRequest) -> HttpAnswer:
        match self._answer:
            case OutgoingReply() as reply:
                return self._protocol.served(reply, parsed_request)
            case Fails() as fails:
                return self._protocol.failed(f"c{len(self.requests)}", fails, parsed_request)
            case other:
                assert_never(other)

    def client(self) -> httpx2.Client:
        """A client whose every request comes here."""
        return httpx2.Client(transport=httpx2.MockTransport(self))

    def async_client(self) -> httpx2.AsyncClient:
        """The same for coroutines."""
        return httpx2.AsyncClient(transport=httpx2.MockTransport(self))
