"""Served runs: a scenario for a program that simkit does not start, and sees only by its requests.

A turn begins with the first request whose latest user message contains the turn's, as whole words
and after the message of the turn before; a program may also report it (`NEXT`)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Final
from urllib.parse import unquote

import msgspec

from simkit.adapters.attribution import AGENT_HEADER
from simkit.adapters.model_calls import Answerer
from simkit.adapters.programs import reports
from simkit.adapters.script import Script, error_facts, facts_of
from simkit.capture.http.request_router import Decision, decide
from simkit.core.errors import PipelineError, RunHalted, SimkitError, WireInvalid
from simkit.core.messages import Fails, JsonValue, Message, value_said
from simkit.core.text import short
from simkit.providers.failures import BROKEN_OFF
from simkit.providers.http import HttpRequest, HttpResponse
from simkit.providers.protocols import PROTOCOLS, protocol_of
from simkit.providers.values import ParsedRequest, Protocol
from simkit.runtime.ports import UserTurn
from simkit.runtime.scheduler import VirtualClock
from simkit.spec.scenario.apps import App
from simkit.trace import events as e
from simkit.trace.recorder import Sink


class SessionMarks:
    """The known texts and calls of each session of a served scenario.

    A mark is a text of the model or of the user, or the id of a call. A request with marks of one
    session only belongs to it; one without marks, or with those of several, may belong to any.
    """

    def __init__(self) -> None:
        self._sessions: dict[tuple[str, str], set[str]] = {}

    def note(self, session: str, messages: Collection[Message]) -> None:
        """Add the marks of a session's messages."""
        for message in messages:
            for mark in _marks_of(message):
                self._sessions.setdefault(mark, set()).add(session)

    def sessions_of(self, messages: Collection[Message]) -> frozenset[str]:
        """Return the sessions that a request's history fits; empty if it does not show.

        The latest user message does not count: any session may contain the same.
        """
        users = [index for index, candidate in enumerate(messages) if candidate.role == "user"]
        latest = users[-1] if users else -1
        names: set[str] | None = None
        for index, message in enumerate(messages):
            if index == latest:
                continue
            for mark in _marks_of(message):
                sessions = self._sessions.get(mark)
                if sessions:
                    names = sessions if names is None else names & sessions
        return frozenset(names or ())


def _marks_of(message: Message) -> list[tuple[str, str]]:
    marks = [("call", call.id) for call in message.calls if call.id]
    text = message.content.strip()
    if text and message.role in ("user", "assistant"):
        marks.append((message.role, text))
    return marks


ENDED: Final = "ProgramEnded"
"""The error of a run whose program did not take all turns."""
MIXED: Final = "SessionMixed"
"""The error of a run whose program continues with another session than the scenario."""
_ADDRESS: Final = re.compile(r"^(https?://[^/?#]*)([^?#]*)(.*)$", re.DOTALL)
_AGENT_PATH: Final = re.compile(r"^/agents/([^/]+)(/.*)$")
_SHOWN_MAX: Final = 60


class ServedRun:
    """One served scenario; its turns follow the program's requests, in order.

    Requests are handled one at a time.
    """

    name = "served"

    def __init__(
        self,
        app: App,
        script: Script,
        turns: Sequence[UserTurn],
        sink: Sink,
        others: Answerer | None = None,
        ends_on_tools: Collection[str] = (),
    ) -> None:
        """``others`` answers agents without lines in a turn: a cassette.

        ``ends_on_tools`` are the agents whose tool's result is their output, so that no later
        request contains it.
        """
        self._script, self._turns = script, turns
        self._clock = VirtualClock(script.start)
        facts = facts_of(app, script.limits)
        agents = {
            name: msgspec.structs.replace(
                facts.agents.get(name, e.AgentFacts()), ends_on_tools=True
            )
            for name in ends_on_tools
        }
        facts = msgspec.structs.replace(facts, agents={**facts.agents, **agents})
        session = reports.open_endpoint(
            app,
            script,
            facts,
            sink,
            self._clock,
            driver=self.name,
            has_given_state=bool(app.channels),
            models=others,
            tools=None,
        )
        self._recorder, self._gate, self._reports = session.recorder, session.gate, session.reports
        self._recorder.handoff_tools.know(script.agents())
        self._reply: reports.Reply | None = None
        """The program's reported end of the turn; None if it reported none."""
        self._is_led = False
        """Whether the program reports its turns, so that contexts do not begin any."""
        self._marks = SessionMarks()
        self._failed: Fails | None = None
        """The failure of the last answer, if no other answer followed; else None."""
        self._error: e.ErrorFacts | None = None
        """The pipeline's error after which nothing is answered; None if there is none."""
        self.broken: SimkitError | None = None
        """The scenario's error after which nothing is answered; None if there is none."""
        self.unknown: Counter[str] = Counter()
        """Requests that are no model calls, ``GET /v1/models``, with their counts."""

    @property
    def problem(self) -> str:
        """Return why nothing more is answered; empty if all is well."""
        if self.broken is not None:
            return str(self.broken)
        return self._error.message if self._error is not None else ""

    def take(self, request: HttpRequest) -> Decision:
        """Answer one request of the program; errors come in the form of its provider."""
        request = addressed(request)
        path = _ADDRESS.sub(r"\2", request.url)
        if path == reports.NEXT and request.method == "POST":
            return self._next()
        if path.startswith(reports.ROOT) and request.method == "POST":
            return self._take_report(request, path)
        protocol = protocol_of(request)
        if protocol is None:
            return self._counted(request) or self._something_else(request, path)
        messages = _messages(request, protocol)
        if not self.problem:
            sessions = self._marks.sessions_of(messages)
            self._follow(_latest(messages), sessions)
            self._check_session(sessions)
        if self._error is not None and self._error.type == MIXED:
            fails = Fails("invalid_request", 400, f"simkit: {self._error.message}")
            return protocol.failed("simkit", fails, ParsedRequest(protocol.name, "", ()))
        decision = self._answered(request, protocol)
        self._marks.note(
            self._turns[self._recorder.turn - 1].session, _new_messages(decision, request)
        )
        return decision

    def _check_session(self, sessions: frozenset[str]) -> None:
        """Stop if a request's history belongs to another session than its turn."""
        turn = self._recorder.turn
        session = self._turns[turn - 1].session
        if self._is_led or not sessions or session in sessions:
            return
        named = " or ".join(repr(known_session) for known_session in sorted(sessions))
        self._error = e.ErrorFacts(
            MIXED,
            f"a request continues session {named}, by its history, but turn {turn} is of "
            f"session {session!r}. Let the program ask in the order of the scenario's turns, or "
            f"begin each turn with a POST to {reports.NEXT}.",
        )

    def _answered(self, request: HttpRequest, protocol: Protocol) -> Decision:
        before, self._gate.last_failure = self._clock.now, None
        try:
            decision = decide(self._gate, request)
        except RunHalted as halted:
            self._stop(halted.cause)
            fails = Fails("invalid_request", 400, f"simkit: {halted.cause}")
            return protocol.failed("simkit", fails, ParsedRequest(protocol.name, "", ()))
        self._failed = self._gate.last_failure
        return _later(decision, self._clock.now - before)

    def _stop(self, problem: SimkitError) -> None:
        if not isinstance(problem, PipelineError):
            self.broken = self.broken or problem
        elif self._error is None:
            self._error = error_facts(problem)

    def _take_report(self, request: HttpRequest, path: str) -> HttpResponse:
        """Handle a report of the program."""
        if not self._recorder.turn:
            self._begin()
        try:
            if path == reports.REPLY:
                self._reply = reports.reply_in(request)
                return reports.as_json(200, {})
            return self._reports.take(request) or self._something_else(request, path)
        except RunHalted as halted:
            self._stop(halted.cause)
        except SimkitError as problem:
            self._stop(problem)
        return reports.as_error(400, self.problem)

    # Turns

    def _next(self) -> HttpResponse:
        if self._recorder.turn >= len(self._turns):
            return HttpResponse(204, (), (b"",))
        self._is_led = True
        self._begin()
        turn = self._turns[self._recorder.turn - 1]
        is_new = all(
            turn_.session != turn.session for turn_ in self._turns[: self._recorder.turn - 1]
        )
        return reports.turn_response(
            turn, self._recorder.turn, self._script.initial_state if is_new else {}
        )

    def _follow(self, text_sent: str, sessions: frozenset[str]) -> None:
        """Begin the turn with the latest message that a context contains.

        ``sessions`` are those that the context's history fits; empty if unknown.
        """
        if not self._recorder.turn:
            self._begin()
        if self._is_led:
            return
        coming = self._turn_sent(text_sent, sessions)
        while coming is not None and self._recorder.turn <= coming:
            self._begin()

    def _turn_sent(self, text_sent: str, sessions: frozenset[str]) -> int | None:
        """Return the place of the next turn whose message a context contains; None without."""
        turn = self._recorder.turn
        now = _end_of(self._turns[turn - 1].text, text_sent)
        for coming in range(turn, len(self._turns)):
            text = self._turns[coming].text
            end = _end_of(text, text_sent)
            is_next = coming == turn
            if sessions and not is_next and self._turns[coming].session not in sessions:
                continue
            if is_next and sessions and self._goes_on_instead(turn, sessions):
                return None
            if end > now and (is_next or text_sent.strip() == text.strip()):
                return coming
            # The same message again means the second turn once the first is answered.
            if is_next and end == now >= 0 and not self._script.model.unused():
                return coming
        return None

    def _goes_on_instead(self, index: int, sessions: frozenset[str]) -> bool:
        """Return whether a request belongs to the current turn, not to the next one's."""
        now, coming = self._turns[index - 1].session, self._turns[index].session
        is_asked = bool(self._script.model.unused())
        return is_asked and now in sessions and coming not in sessions

    def _begin(self) -> None:
        if self._recorder.turn:
            self._end_turn()
        index = self._recorder.turn
        turn = self._turns[index]
        self._recorder.begin_turn(index + 1, turn.session, turn.project, turn.text, turn.value)
        self._marks.note(turn.session, [Message("user", turn.text)])
        self._script.begin_parts(index)

    def _end_turn(self) -> None:
        last = self._recorder.last_message()
        reply = _value_of(last) if last is not None else None
        error, fails = self._error, self._failed
        is_lost = fails is not None and (fails.status != 200 or fails.kind in BROKEN_OFF)
        if error is None and fails is not None and is_lost:
            error = e.ErrorFacts(fails.kind, fails.message, status=fails.status)
        self._failed = None
        last_reply, self._reply = self._reply, None
        failure = last_reply.failure() if last_reply is not None else None
        if failure is not None and error is None:
            error = error_facts(failure)
        elif last_reply is not None and last_reply.reply is not None:
            reply = last_reply.reply
        # A program that asks for no results executes its tools itself.
        unused = self._script.tools.unused() if self._reports.asks_tools else ()
        self._recorder.end_turn(reply, error, self._script.model.unused(), unused)

    def finish(self, is_silent: Sequence[bool], before_end: Callable[[], None]) -> None:
        """End the run; ``is_silent`` says for each turn whether it needs no request.

        ``before_end`` is called once all turns have ended, and may record what the run still holds.
        """
        error = self._error
        while error is None and self.broken is None and self._recorder.turn < len(self._turns):
            if not is_silent[self._recorder.turn]:
                error = e.ErrorFacts(ENDED, self._not_asked())
            else:
                self._begin()
        if self._recorder.turn:
            self._end_turn()
        before_end()
        self._gate.ended(error)

    def _not_asked(self) -> str:
        turn = self._recorder.turn
        if not turn:
            return (
                "the program made no model call here. Its client may be built with an address of "
                "its own, or not read the environment."
            )
        excerpt = short(self._turns[turn].text, _SHOWN_MAX)
        if self._is_led:
            return f"the program did not begin turn {turn + 1} with a POST to {reports.NEXT}"
        return (
            f"the program made no model call in turn {turn + 1}: the latest user message of no "
            f"request held {excerpt!r}. If contexts do not show it, begin the turn with a POST "
            f"to {reports.NEXT}."
        )

    # Requests that are no model calls

    def _counted(self, request: HttpRequest) -> HttpResponse | None:
        try:
            return self._gate.counted(request)
        except SimkitError as problem:
            return reports.as_error(400, str(problem))

    def _something_else(self, request: HttpRequest, path: str) -> HttpResponse:
        host = _ADDRESS.sub(r"\1", request.url)
        variables = {
            name: value.format(url=host)
            for protocol in PROTOCOLS.values()
            for name, value in protocol.variables.items()
        }
        if path in ("", "/") and request.method in ("GET", "HEAD"):
            return reports.as_json(
                200, {"simkit": "serve", "turn": self._recorder.turn, **variables}
            )
        self.unknown[f"{request.method} {path}"] += 1
        as_post = msgspec.structs.replace(request, method="POST")
        if path == reports.NEXT or protocol_of(as_post) is not None:
            problem = f"{path} takes POST, not {request.method}"
            return reports.as_error(405, problem, (("allow", "POST"),))
        problem = (
            f"{request.method} {path} is no model call. Spoken here: {', '.join(PROTOCOLS)}, at "
            "their providers' own paths. Clients are pointed here by: "
            + ", ".join(f"{name}={value}" for name, value in variables.items())
        )
        return reports.as_error(404, problem)


def addressed(request: HttpRequest) -> HttpRequest:
    """Return a request with the agent in its path as a header, and the path without it."""
    parts = _ADDRESS.match(request.url)
    match = _AGENT_PATH.match(parts[2]) if parts is not None else None
    if parts is None or match is None:
        return request
    host, query, (agent, path) = parts[1], parts[3], match.groups()
    return msgspec.structs.replace(
        request,
        url=f"{host}{path}{query}",
        headers=(*request.headers, (AGENT_HEADER, unquote(agent))),
    )


def _messages(request: HttpRequest, protocol: Protocol) -> Sequence[Message]:
    """Return the messages of a request's context; none if it cannot be parsed."""
    try:
        return protocol.parse_request(request).messages
    except WireInvalid:
        return ()


def _latest(messages: Sequence[Message]) -> str:
    """Return the latest user message of a context, else its instructions, else an empty text."""
    users = [message.content for message in messages if message.role == "user"]
    return users[-1] if users else "\n".join(m.content for m in messages if m.role == "system")


def _new_messages(decision: Decision, request: HttpRequest) -> list[Message]:
    """Return a response's messages, as the program's next request will contain them."""
    protocol = protocol_of(request)
    if protocol is None or not isinstance(decision, HttpResponse) or decision.status != 200:
        return []
    try:
        return [protocol.parse_response(decision, protocol.parse_request(request)).message]
    except WireInvalid:
        return []


def _end_of(text: str, text_sent: str) -> int:
    """Return the end of a text's last occurrence as whole words; -1 if there is none."""
    if not text.strip():
        return -1
    matches = re.finditer(rf"(?<!\w){re.escape(text.strip())}(?!\w)", text_sent)
    return max((match.end() for match in matches), default=-1)


def _value_of(message: Message) -> JsonValue:
    """Return a model's text as JSON if that was requested, else as text."""
    value = value_said(message)
    try:
        is_json = value is not None and msgspec.json.decode(message.content) == value
    except msgspec.DecodeError:
        is_json = False
    return value if is_json else message.content


def _later(decision: Decision, wait_ms: int) -> Decision:
    """Return an answer with a delay: a scripted latency is real for another process."""
    if not wait_ms or not isinstance(decision, HttpResponse):
        return decision
    first = decision.waits_ms[0] if decision.waits_ms else 0
    return msgspec.structs.replace(decision, waits_ms=(first + wait_ms, *decision.waits_ms[1:]))
