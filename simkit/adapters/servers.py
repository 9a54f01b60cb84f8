"""The scenario's servers: MCP servers and HTTP routes that it answers in their place.

A request or a process reaches a server by its address or its command line. A call of a tool is
answered by `tool_results`, as if the code had a function for it: no framework is patched.

Over HTTP, clients reach an MCP server as streamable, or with two addresses (SSE). An answer is one
response. A server that asks back leaves its response open, and goes on in it when the client has
answered by another request.
"""

from __future__ import annotations

import os
import re
import socket
from _thread import LockType, allocate_lock
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from pathlib import Path
from shlex import join
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

import msgspec

from simkit.adapters.concurrency.thread_turns import ThreadTurns
from simkit.adapters.mcp_servers import DeclaredServer, ForeignServer, ForeignSession, ServerSession
from simkit.adapters.model_calls import Answerer, GatedTraffic, OtherRequests, RemoteCall
from simkit.adapters.tool_use import ToolUse
from simkit.capture.cassettes.traffic import decoded_response
from simkit.capture.cassettes.values import NotDecodable
from simkit.capture.http import request_router, stdio_servers
from simkit.capture.http.httpx_transports import Feed, OpenResponse
from simkit.capture.http.request_router import ChunkRecorder, Decision, Forward, Later, Pauses
from simkit.capture.http.stdio_servers import StdioServers, stdio_servers_of_run, watching_stdio
from simkit.core.context_values import Inside
from simkit.core.errors import ScriptMisfit
from simkit.core.messages import JsonValue
from simkit.core.raw_threads import start_raw_thread
from simkit.core.text import short
from simkit.language.matching import Matcher, compile_matcher
from simkit.language.recognition import whole_places
from simkit.providers import a2a, mcp, sse
from simkit.providers.http import Headers, HttpRequest, HttpResponse, NoResponse, header
from simkit.providers.values import JSON
from simkit.spec.scenario.servers import (
    DECLARED,
    RECORDED,
    HttpAnswer,
    McpServer,
    RemoteAgent,
    Server,
)

_NOBODYS_METHOD: Final = HttpResponse(405, (("allow", "POST"),), (b"",))
"""The specification lets a server answer so that sends nothing by itself."""
_ACCEPTED: Final = HttpResponse(202, (), (b"",))
_STREAM: Final = (("content-type", sse.CONTENT_TYPE),)
_TICK_S: Final = 0.05
_TCP: Final = (socket.AF_INET, socket.SOCK_STREAM)


class McpOverHttp:
    """One server over HTTP; answers its clients, or lets the real server answer."""

    def __init__(self, server: DeclaredServer | ForeignServer, pauses: Pauses) -> None:
        self._server, self._pauses = server, pauses
        self._posted: set[str] = set()
        """The addresses of streamable HTTP."""
        self._streams: dict[JsonValue, Feed] = {}
        """The id of a question to the response in which it stands."""
        self.connections: dict[str, tuple[ServerSession, Feed]] = {}
        """The second address of a client over SSE to its connection."""
        self._sessions: list[ServerSession] = []
        self._url = ""

    @property
    def is_asked(self) -> bool:
        """Whether a real server owes an answer."""
        self._sessions = [each for each in self._sessions if each.is_asked or each.lasts]
        return any(each.is_asked for each in self._sessions)

    def take(self, request: HttpRequest) -> Decision:
        """Answer a request, or forward it."""
        self._url = request.url
        session, feed = self.connections.get(request.url, (None, None))
        session = session or self._server.session(is_process=False)
        if session.fails:
            return HttpResponse(503, (("content-type", "text/plain"),), (session.fails.encode(),))
        wants_stream = "text/event-stream" in header(request.headers, "accept")
        try:
            if feed is not None:
                return self._answer_elsewhere(request, session, feed)
            if request.method == "GET" and wants_stream and request.url not in self._posted:
                decision = self._opened(request, session)
            else:
                decision = self._streamable(request, session)
        except mcp.ServerEnded as end:
            if feed is not None:
                feed.push(is_last=True)
            return NoResponse("connection", str(end))
        if session.is_asked:
            self._sessions.append(session)
        return decision

    def let_pass(self, seconds: float) -> None:
        """Break off a real server that is silent for too long: nothing else ends that wait."""
        for session in [*self._sessions]:
            session.silent_s = (session.silent_s + seconds) * session.is_asked
            if session.silent_s > stdio_servers.PATIENCE_S:
                session.silent_s = 0.0
                session.fails = self._server.fails = f"no answer for {stdio_servers.PATIENCE_S:g} s"
                _break_off(self._url)

    # Streamable HTTP

    def _streamable(self, request: HttpRequest, session: ServerSession) -> Decision:
        if request.method == "DELETE" and isinstance(session, ForeignSession) and session.is_real:
            return Forward(ChunkRecorder(session.owe("DELETE")))
        if request.method == "GET" and isinstance(session, ForeignSession):
            # A stream of what the server says by itself, which stays open.
            return OpenResponse(200, _STREAM, (), feed=Feed(self._pauses))
        return self._post(request, session) if request.method == "POST" else _NOBODYS_METHOD

    def _post(self, request: HttpRequest, session: ServerSession) -> Decision:
        self._posted.add(request.url)
        answer = session.answer(request.body)
        if answer is None:
            return Forward(_Listener(session))
        message = mcp.decoded(request.body)
        if isinstance(message, dict) and not mcp.is_request(message):
            # It goes on in the response in which a client was asked.
            if (feed := self._streams.pop(message.get("id"), None)) is not None:
                self._say(feed, answer.splitlines())
            return _ACCEPTED
        lines = answer.splitlines()
        begins = mcp.SESSION if session.has_session else ()
        if not _is_whole(lines):
            feed = Feed(self._pauses)
            session.outlast(lambda line: feed.push(_event(line), is_last=True))
            self._say(feed, lines)
            return OpenResponse(200, (*_STREAM, *begins), (), feed=feed)
        if len(lines) == 1 and "application/json" in header(request.headers, "accept"):
            return HttpResponse(200, (*JSON, *begins), (answer.strip(),))
        return HttpResponse(200, (*_STREAM, *begins), tuple(map(_event, lines)))

    def _say(self, feed: Feed, lines: Sequence[bytes]) -> None:
        if lines and mcp.is_request(last := mcp.decoded(lines[-1])):
            self._streams[last["id"]] = feed
        else:
            feed.is_silent = not _is_whole(lines)
        feed.push(*map(_event, lines), is_last=_is_whole(lines))

    # Two addresses

    def _opened(self, request: HttpRequest, session: ServerSession) -> Decision:
        """Begin a stream, whose first event is the address for what the client says."""
        if isinstance(session, ForeignSession) and session.is_real:
            end = session.owe("GET")
            return Forward(_Listener(session, lambda it: end(self._connect(request, it, session))))
        data = f"{urlsplit(request.url).path}?session_id={len(self.connections) + 1}"
        feed = self._connect(request, data, session)
        feed.push(sse.frame(data, "endpoint"))
        return OpenResponse(200, _STREAM, (), feed=feed)

    def _connect(self, request: HttpRequest, data: str, session: ServerSession) -> Feed:
        feed, session.lasts = Feed(self._pauses), True
        self.connections[urljoin(request.url, data)] = session, feed
        self._sessions.append(session)
        return feed

    def _answer_elsewhere(
        self, request: HttpRequest, session: ServerSession, feed: Feed
    ) -> Decision:
        """Answer a request in the client's stream."""
        answer = session.answer(request.body)
        if answer is None:
            return Forward(None)
        session.outlast(lambda line: feed.push(_event(line)))
        feed.push(*map(_event, answer.splitlines()))
        return _ACCEPTED


def _is_whole(lines: Sequence[bytes]) -> bool:
    """Return whether these messages end with an answer; several at once are a list."""
    return bool(lines) and "method" not in mcp.decoded(lines[-1])


def _event(line: bytes) -> bytes:
    return sse.frame(line.decode().strip(), "message")


def _break_off(url: str) -> None:
    """Break all connections of this process to an address."""
    parts = urlsplit(url)
    with suppress(OSError), request_router.forwarding():
        peers = socket.getaddrinfo(parts.hostname, parts.port or parts.scheme)
        for descriptor in map(int, os.listdir("/dev/fd")):
            with suppress(OSError), socket.fromfd(descriptor, *_TCP) as connection:
                if connection.getpeername()[:2] in [address[:2] for *_, address in peers]:
                    connection.shutdown(socket.SHUT_RDWR)


class _Listener(ChunkRecorder):
    """Lets a session observe the answer of a real server, event by event."""

    def __init__(self, session: ServerSession, connect: Any = None) -> None:
        """``connect`` takes the second address of a server over SSE."""
        super().__init__(self._answer)
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

    def _answer(self, answer: HttpResponse | NoResponse) -> None:
        problem = answer.message if isinstance(answer, NoResponse) else ""
        if isinstance(answer, HttpResponse) and not self._is_stream:
            try:
                for message in mcp.messages_in(decoded_response(answer)):
                    self._session.observe(msgspec.json.encode(message))
            except NotDecodable as error:
                problem = str(error)
        if self._session.is_asked:
            lines = self._session.end(self._session.fails or problem or _unanswered(answer), "")
            # Some clients of streamable HTTP wait for ever for a response that broke.
            self.last_words = b"\n\n".join([b"", *map(_event, lines.splitlines())])


def _unanswered(response: HttpResponse | NoResponse) -> str:
    """Return how a server has ended that has sent this, and no answer."""
    if isinstance(response, NoResponse) or response.ends:
        return "the connection broke before the answer"
    text = short(response.body.decode(errors="replace"), 200) or "empty"
    return f"a response without an answer, HTTP status {response.status}: {text}"


class ScriptedServers:
    """The servers of one scenario."""

    def __init__(
        self, servers: Mapping[str, Server], use: ToolUse, pauses: Pauses, others: Answerer | None,
        folder: str,
    ) -> None:  # fmt: skip
        """``others`` answers recorded servers, if it is the scenario's cassette.

        ``folder`` is where files of cards are.
        """
        traffic, self._use = others if isinstance(others, GatedTraffic) else None, use
        self.ends: dict[str, None] = {}
        """How servers have ended before their time."""
        _refuse_recorded(servers if traffic is None else {})
        self._matchers = {name: _matcher_of(name, server) for name, server in servers.items()}
        self._mcp = {
            name: self._mcp_server(name, server.mcp, use, traffic)
            for name, server in servers.items()
            if server.mcp is not None
        }
        self._routes = [
            (name, route, answers)
            for name, server in servers.items()
            for route, answers in (server.http or {}).items()
        ]
        self._remote = {
            name: (server.a2a, a2a.Tasks())
            for name, server in servers.items()
            if server.a2a is not None
        }
        """Remote agent to its declaration and its tasks."""
        self._folder = folder
        self._requests: Counter[str] = Counter()
        """Route to the number of its requests."""
        self._pauses = pauses
        self._stdio = StdioServers(self._server_of)
        self._servers = servers
        self.reached: set[str] = set()
        """The servers that were talked to."""
        self._others: dict[str, None] = {}
        """The commands and addresses that were nobody's."""
        use.serves_others = any(isinstance(each, ForeignServer) for each in self._mcp.values())
        self._over_http = {name: McpOverHttp(each, pauses) for name, each in self._mcp.items()}

    def _mcp_server(
        self, name: str, server: McpServer, use: ToolUse, traffic: GatedTraffic | None
    ) -> DeclaredServer | ForeignServer:
        def ended(how: str) -> None:
            self.ends[text := f"server `{name}` {how}"] = None
            use.questions.note_fault(text)

        if server.source == DECLARED:
            return DeclaredServer(name, server, use, ended)
        return ForeignServer(name, use, traffic if server.source == RECORDED else None, ended)

    @contextmanager
    def serving(self, requests: OtherRequests, turns: ThreadTurns) -> Iterator[None]:
        """Answer requests of a run, and processes that it starts."""
        requests.of_servers, turns.is_awaited = self.decide, self._are_busy

        def end_overdue(server: str, how: str) -> None:
            if turns.end_overdue(is_outside=True):
                self.ends[f"server `{server}` {how}"] = None

        self._use.end_overdue = end_overdue
        self._use.outlast, turns.threads.pipes = turns.outlast, self._stdio.pipes
        requests.remote_agent = self.remote_agent
        is_over = allocate_lock()
        with watching_stdio, is_over:
            if self._use.serves_others:
                start_raw_thread(self._watch, (is_over,))
            try:
                yield
            finally:
                self._stdio.close()

    def _watch(self, is_over: LockType) -> None:
        while not is_over.acquire(timeout=_TICK_S):
            for each in self._over_http.values():
                each.let_pass(_TICK_S)

    def _are_busy(self) -> bool:
        return any(each.is_asked for each in self._over_http.values()) or self._stdio.are_busy()

    def causes(self, problem: str) -> list[str]:
        """Return how servers have ended, and which share a name of which a problem speaks."""
        shared = [
            f"{' and '.join(f'server `{each}`' for each in servers)} have a tool `{tool}`"
            for tool, servers in self._use.served.items()
            if len(servers) > 1 and [*whole_places(problem, tool)]
        ]
        return [*self.ends, *shared]

    def started_here(self) -> Inside[StdioServers]:
        """Let processes that code in here starts be servers."""
        return stdio_servers_of_run(self._stdio)

    def decide(self, request: HttpRequest) -> Decision | Later | None:
        """Answer a request to one of the servers; None for one to somebody else."""
        line = f"{request.method} {request.url}"
        for name, route, answers in self._routes:
            if fnmatchcase(line, route) or fnmatchcase(line.partition("?")[0], route):
                self._requests[route] += 1
                self.reached.add(name)
                answer = answers[min(self._requests[route], len(answers)) - 1]
                return _response(answer, self._pauses)
        for name, over_http in self._over_http.items():
            if request.url in over_http.connections or self._matchers[name].holds(request.url):
                self.reached.add(name)
                return over_http.take(request)
        if (remote := self._of_remote(request)) is not None:
            return remote
        self._others[line] = None
        return None

    def remote_agent(self, request: HttpRequest) -> RemoteCall | None:
        """Return the remote agent that a request asks; None if it asks none."""
        name, _, exchange = self._remote_of(request)
        is_for_agent = request.method == "POST" and exchange.is_for_agent
        return RemoteCall(name, exchange) if is_for_agent else None

    def _remote_of(self, request: HttpRequest) -> tuple[str, RemoteAgent, a2a.Exchange]:
        """Return the name of the remote agent at an address, it, and what it is asked."""
        for name, (agent, tasks) in self._remote.items():
            if self._matchers[name].holds(request.url):
                self.reached.add(name)
                body = mcp.decoded(request.body) or {}
                return name, agent, a2a.Exchange(body, tasks, as_task=agent.answers == "task")
        return "", RemoteAgent(), a2a.Exchange({}, {}, as_task=False)

    def _of_remote(self, request: HttpRequest) -> HttpResponse | None:
        """Answer what no agent is asked: its card, and its tasks."""
        name, agent, exchange = self._remote_of(request)
        if not name or agent.source == RECORDED:
            return None
        if request.method == "POST":
            return exchange.answer()
        card = a2a.card_for(request, name, self._card(name, agent.card))
        return HttpResponse(404 if card is None else 200, JSON, (msgspec.json.encode(card),))

    def _card(self, name: str, card: Mapping[str, Any] | str) -> Mapping[str, Any]:
        """Return a card; read the file that holds it. Raise ScriptMisfit if it is none."""
        if not isinstance(card, str):
            return card
        try:
            return msgspec.json.decode((Path(self._folder) / card).read_bytes(), type=dict)
        except (OSError, msgspec.DecodeError) as problem:
            text = f"the card of `{name}` cannot be read: {problem}"
            raise ScriptMisfit(text, ("servers", name, "a2a", "card")) from None

    def _server_of(self, command: Sequence[str]) -> ServerSession | None:
        """Return the server that a command line starts; None for another program."""
        line = join(command)
        for name, server in self._mcp.items():
            if self._matchers[name].holds(line):
                self.reached.add(name)
                return server.session(is_process=True)
        self._others[line] = None
        return None

    def check(self) -> None:
        """Raise ScriptMisfit for a server that nobody talked to."""
        for name, server in self._servers.items():
            if name in self.reached:
                continue
            lines = "".join(f"\n  {short(other, 90)}" for other in self._others)
            looked_for = "its `match`" if server.match is not None else f"the word `{name}`"
            raise ScriptMisfit(
                f"no process and no request was for server `{name}`: none has {looked_for} in its "
                f"command line or its address.\nThose of others: {lines or 'none'}",
                ("servers", name),
            )


def _response(answer: HttpAnswer, pauses: Pauses) -> Decision | Later:
    is_json = "body" in answer.model_fields_set
    body = msgspec.json.encode(answer.body) if is_json else answer.text.encode()
    kind = "application/json" if is_json else "text/plain; charset=utf-8"
    headers = {"content-type": kind, **{key.lower(): text for key, text in answer.headers.items()}}
    response, wait_ms = HttpResponse(answer.status, (*headers.items(),), (body,)), answer.latency_ms
    return Later(pauses, wait_ms, lambda: response) if wait_ms else response


def _refuse_recorded(servers: Mapping[str, Server]) -> None:
    for name, server in servers.items():
        if getattr(server.mcp or server.a2a, "source", "") == RECORDED:
            raise ScriptMisfit(
                f"server `{name}` is recorded, and the scenario has no `cassette`.\n"
                "Name one: `cassette: NAME`; `simkit record` fills it from the real server.",
                ("servers", name),
            )


def _matcher_of(name: str, server: Server) -> Matcher:
    is_word = {"$regex": rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])"}
    return compile_matcher(is_word if server.match is None else server.match)
