"""MCP servers as clients reach them over HTTP: streamable, or with two addresses (SSE).

An answer is one response. A server that asks back leaves its response open, and goes on in it when
the client has answered by another request.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

import msgspec

from simkit.adapters.mcp_servers import DeclaredServer, ForeignServer, ForeignSession, ServerSession
from simkit.capture.cassettes.traffic import decoded_response
from simkit.capture.cassettes.values import NotDecodable
from simkit.capture.http.open_streams import Feed, OpenResponse
from simkit.capture.http.request_router import ChunkRecorder, Decision, Forward, Pauses
from simkit.core.messages import JsonValue
from simkit.providers import mcp, sse
from simkit.providers.http import Headers, HttpAnswer, HttpRequest, HttpResponse, NoResponse, header
from simkit.providers.values import JSON

_NOBODYS_METHOD: Final = HttpResponse(405, (("allow", "POST"),), (b"",))
"""The specification lets a server answer so that sends nothing by itself."""
_ACCEPTED: Final = HttpResponse(202, (), (b"",))
_STREAM: Final = (("content-type", sse.CONTENT_TYPE),)


class McpOverHttp:
    """One server over HTTP; answers its clients, or lets the real server answer."""

    def __init__(self, server: DeclaredServer | ForeignServer, pauses: Pauses) -> None:
        self._server, self._pauses = server, pauses
        self._posted: set[str] = set()
        """The addresses of streamable HTTP."""
        self._streams: dict[JsonValue, Feed] = {}
        """The id of a question to the response in which it stands."""
        self._connections: dict[str, tuple[ServerSession, Feed]] = {}
        """The second address of a client over SSE to its connection."""
        self._sessions: list[ServerSession] = []

    @property
    def is_asked(self) -> bool:
        """Whether a real server owes an answer."""
        self._sessions = [each for each in self._sessions if each.is_asked or each.lasts]
        return any(each.is_asked for each in self._sessions)

    def take(self, request: HttpRequest) -> Decision:
        """Answer a request, or forward it."""
        connection = self._connections.get(request.url)
        if connection is not None:
            return self._answer_elsewhere(request, *connection)
        session = self._server.session(is_process=False)
        if session.fails:
            return HttpResponse(503, (("content-type", "text/plain"),), (session.fails.encode(),))
        wants_stream = "text/event-stream" in header(request.headers, "accept")
        if request.method == "GET" and wants_stream and request.url not in self._posted:
            return self._opened(request, session)
        decision = self._streamable(request, session)
        if session.is_asked:
            self._sessions.append(session)
        return decision

    # Streamable HTTP

    def _streamable(self, request: HttpRequest, session: ServerSession) -> Decision:
        if request.method == "DELETE" and isinstance(session, ForeignSession) and session.is_real:
            return session.leave()
        if request.method == "GET" and isinstance(session, ForeignSession):
            # A stream of what the server says by itself, which stays open.
            return OpenResponse(200, _STREAM, (), feed=Feed(self._pauses))
        return self._post(request, session) if request.method == "POST" else _NOBODYS_METHOD

    def _post(self, request: HttpRequest, session: ServerSession) -> Decision:
        self._posted.add(request.url)
        try:
            answer = session.answer(request.body)
        except mcp.ServerEnded as end:
            return NoResponse("connection", str(end))
        if answer is None:
            return Forward(_Listener(session))
        message = mcp.decoded(request.body)
        if isinstance(message, dict) and not mcp.is_request(message):
            self._continue(message, answer)
            return _ACCEPTED
        messages = [msgspec.json.decode(line) for line in answer.splitlines()]
        begins = mcp.SESSION if session.has_session else ()
        if not _is_whole(messages):
            feed = Feed(self._pauses)
            self._say(feed, messages)
            return OpenResponse(200, (*_STREAM, *begins), (), feed=feed)
        if len(messages) == 1 and "application/json" in header(request.headers, "accept"):
            return HttpResponse(200, (*JSON, *begins), (answer.strip(),))
        return HttpResponse(200, (*_STREAM, *begins), tuple(map(_event, messages)))

    def _continue(self, answer: dict[str, Any], lines: bytes) -> None:
        """Go on in the response in which a client was asked."""
        feed = self._streams.pop(answer.get("id"), None)
        if feed is not None:
            self._say(feed, [msgspec.json.decode(line) for line in lines.splitlines()])

    def _say(self, feed: Feed, messages: Sequence[Any]) -> None:
        if messages and mcp.is_request(messages[-1]):
            self._streams[messages[-1]["id"]] = feed
        elif not _is_whole(messages):
            feed.is_silent = True
        feed.push(*map(_event, messages), is_last=_is_whole(messages))

    # Two addresses

    def _opened(self, request: HttpRequest, session: ServerSession) -> Decision:
        """Begin a stream, whose first event is the address for what the client says."""
        if session.is_real:
            return Forward(_Listener(session, lambda data: self._connect(request, data, session)))
        data = f"{urlsplit(request.url).path}?session_id={len(self._connections) + 1}"
        feed = self._connect(request, data, session)
        feed.push(sse.frame(data, "endpoint"))
        return OpenResponse(200, _STREAM, (), feed=feed)

    def _connect(self, request: HttpRequest, data: str, session: ServerSession) -> Feed:
        feed, session.lasts = Feed(self._pauses), True
        self._connections[urljoin(request.url, data)] = session, feed
        self._sessions.append(session)
        return feed

    def _answer_elsewhere(
        self, request: HttpRequest, session: ServerSession, feed: Feed
    ) -> Decision:
        """Answer a request in the client's stream."""
        try:
            answer = session.answer(request.body)
        except mcp.ServerEnded as end:
            feed.push(is_last=True)
            return NoResponse("connection", str(end))
        if answer is None:
            return Forward(None)
        feed.push(*(_event(msgspec.json.decode(line)) for line in answer.splitlines()))
        return _ACCEPTED


def _is_whole(messages: Sequence[Any]) -> bool:
    """Return whether these messages end with an answer; several at once are a list."""
    return bool(messages) and (isinstance(messages[-1], list) or "method" not in messages[-1])


def _event(message: JsonValue) -> bytes:
    return sse.frame(msgspec.json.encode(message).decode(), "message")


class _Listener(ChunkRecorder):
    """Lets a session observe the answer of a real server, event by event."""

    def __init__(self, session: ServerSession, connect: Any = None) -> None:
        """``connect`` takes the second address of a server over SSE."""
        super().__init__(self._answer, lambda response: True)
        self._session, self._connect, self._reader = session, connect, sse.Reader()
        self._is_stream = False

    def response_started(self, status: int, headers: Headers) -> None:
        """Observe the response's head."""
        super().response_started(status, headers)
        is_plain = header(headers, "content-encoding") in ("", "identity")
        self._is_stream = is_plain and "event-stream" in header(headers, "content-type")
        self._session.has_session = bool(header(headers, mcp.SESSION[0][0]))

    def chunk(self, data: bytes) -> None:
        """Observe the next piece of the body."""
        super().chunk(data)
        for event, text in self._reader.feed(data) if self._is_stream else ():
            if event == "endpoint" and self._connect is not None:
                self._connect(text)
            elif text:
                self._session.observe(text.encode())

    def _answer(self, answer: HttpAnswer) -> None:
        problem = answer.message if isinstance(answer, NoResponse) else ""
        if isinstance(answer, HttpResponse) and not self._is_stream:
            try:
                for message in mcp.messages_in(decoded_response(answer)):
                    self._session.observe(msgspec.json.encode(message))
            except NotDecodable as error:
                problem = str(error)
        if self._session.is_asked:
            status = f"HTTP status {answer.status}" if isinstance(answer, HttpResponse) else ""
            self._session.end(problem or status, "")
