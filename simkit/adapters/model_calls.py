"""Intercepted model calls, their records, and what answers them besides scripts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TypeAlias
from typing import Protocol as Interface
from urllib.parse import urlsplit

import msgspec

from simkit.adapters.annotations import current_mark
from simkit.adapters.recorder.sessions import Run, ToolRequest
from simkit.adapters.recorder.trace import TraceRecorder
from simkit.adapters.refusals import answer_to_library, sending_code
from simkit.capture.cassettes.traffic import Exchange, Traffic, decoded_response
from simkit.capture.cassettes.values import NotDecodable, real_result, result_of, tool_request
from simkit.capture.http.processes import HOST
from simkit.capture.http.request_router import ChunkRecorder, Decision, Forward, Later
from simkit.core.errors import CassetteMissed, NetworkRefused, WireInvalid
from simkit.core.messages import Fails, JsonValue, Message, ToolCall, as_json
from simkit.language.json_schema import schema_errors
from simkit.language.paths import with_parts
from simkit.providers import a2a
from simkit.providers.attachments import Chains
from simkit.providers.failures import FAILURES
from simkit.providers.http import HttpAnswer, HttpRequest, HttpResponse, NoResponse, path_of
from simkit.providers.protocols import answer_token_count, unsupported_interface
from simkit.providers.streams import content_of
from simkit.providers.values import Offer, ParsedRequest, Protocol
from simkit.runtime.context.rendering import tokens_of
from simkit.trace.store import canonical


def output_tool(
    model_request: ParsedRequest, value: JsonValue, tools: Mapping[str, str]
) -> Offer | None:
    """Return the offered tool that takes a structured output; None if it is given as text.

    It is the tool that must be called, or the first of the output ``tools`` that accepts this
    value; if none does, the first one, so that the code can reject it.
    """
    if model_request.output is not None:
        return None
    offers = {offer.name: offer for offer in model_request.offers}
    if model_request.choice in offers:
        return offers[model_request.choice]
    known = [offers[name] for name in tools if name in offers]
    matching = (
        candidate
        for candidate in known
        if not schema_errors(candidate.schema, args_of(value, candidate, tools))
    )
    return next(matching, next(iter(known), None))


def args_of(value: JsonValue, tool: Offer, tools: Mapping[str, str]) -> JsonValue:
    """Return the arguments with which a model calls ``tool`` to give a value as its output.

    ``tools`` names the argument that holds the output. If it names none, the arguments are the
    output, and a value that is no object is the one argument of a tool with one.
    """
    if tools.get(tool.name):
        return {tools[tool.name]: value}
    if isinstance(value, dict) or not isinstance(tool.schema, dict):
        return value
    names = list(tool.schema.get("properties", ()))
    return {names[0]: value} if len(names) == 1 else value


def output_of(call: ToolCall, tools: Mapping[str, str]) -> JsonValue:
    """Return the output in a call of an output tool, the opposite of `args_of`."""
    argument = tools[call.name]
    if not argument or not isinstance(call.args, dict):
        return call.args
    return call.args.get(argument)


class ModelCall(msgspec.Struct, frozen=True):
    """One intercepted model call: its run, its parsed request, its protocol."""

    id: str
    run: Run
    model_request: ParsedRequest
    protocol: Protocol
    request: HttpRequest
    chains: Chains
    """The contexts that later requests may continue."""
    tokens: int = 0
    """The size of its context."""


FILE_LETTERS_MIN: Final = 10_000
"""From this length on, a text without spaces is a file, and its digest is enough."""


def record_request_beside(call: ModelCall, recorder: TraceRecorder) -> None:
    """Record what a client wrote to ask a model, and the user code that called the client."""
    request, events = call.request, recorder.events
    url = urlsplit(request.url)
    # A program asks at a port of this machine, which is another one each time.
    host = "" if url.hostname == HOST else url.netloc.rpartition("@")[2]
    thread = ("request", call.run.agent)
    events.record_request(
        recorder.at(call.run),
        call=call.id,
        method=request.method,
        url=f"{host}{path_of(request.url)}",
        where=sending_code(),
        body=events.last_values.shorten(thread, _body(request.body), lambda body: body),
    )


def record_response_beside(call: ModelCall, answer: HttpAnswer, recorder: TraceRecorder) -> None:
    """Record what a client gets as the answer to a model call."""
    status, body = 0, b""
    if isinstance(answer, HttpResponse):
        with suppress(NotDecodable):
            status, body = answer.status, content_of(decoded_response(answer))
    # Nothing in it is compared with another response, so that a text is enough.
    content = _body(body) if len(body) > FILE_LETTERS_MIN else _text(body)
    recorder.events.record_response(
        recorder.at(call.run), call=call.id, status=status, body=content
    )


def _body(body: bytes) -> JsonValue:
    """Return a body as JSON, else as text; digests stand for files in it."""
    try:
        value = canonical(msgspec.json.decode(body)) if b'"$' in body else msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _text(body)
    return _without_files(value) if len(body) > FILE_LETTERS_MIN else value


def _text(body: bytes) -> JsonValue:
    try:
        return body.decode()
    except UnicodeDecodeError:
        return canonical(body)


def _without_files(value: Any) -> JsonValue:
    is_file = isinstance(value, str) and len(value) > FILE_LETTERS_MIN and " " not in value
    return canonical(value.encode()) if is_file else with_parts(value, _without_files)


def record_answer(
    call: ModelCall, answer: HttpAnswer, recorder: TraceRecorder, is_marked: bool
) -> Fails | None:
    """Record a provider's answer; return the failure, if it is one.

    ``is_marked``: user code itself reports the end of the run.
    """
    run = call.run
    fails, partial = None, ""
    if isinstance(answer, NoResponse):
        fails = Fails(answer.kind, FAILURES[answer.kind].status, answer.message)
    else:
        try:
            decoded = decoded_response(answer)
            parsed_answer = call.protocol.parse_response(decoded, call.model_request)
            fails, partial = parsed_answer.error, parsed_answer.message.content
        except (WireInvalid, NotDecodable) as problem:
            fails = Fails("malformed_response", answer.status, str(problem))
    if fails is not None:
        recorder.failed(run, call.id, fails, partial)
        return fails
    call.chains.remember(call.protocol, decoded, call.model_request, parsed_answer.message)
    is_json = as_json(parsed_answer.message.content) is not None
    kind = "calls" if parsed_answer.message.calls else "json" if is_json else "text"
    reply = recorder.replied(run, call.id, parsed_answer.message, kind, parsed_answer.usage)
    if not is_marked:
        concluded(recorder, run, reply)
    return None


def concluded(recorder: TraceRecorder, run: Run, message: Message) -> None:
    """End an unannotated run when its model has given its output or passed control."""
    if any(call.is_handoff for call in message.calls):
        recorder.end_run(run, "handed_off")
    elif not message.calls:
        recorder.end_run(run)
    elif all(call.name in run.output_tools for call in message.calls):
        recorder.end_run(run, output=output_of(message.calls[0], run.output_tools))


class RemoteCall(msgspec.Struct, frozen=True):
    """A request that asks a remote agent."""

    agent: str
    exchange: a2a.Exchange


class Answerer(Interface):
    """The part that answers calls without reply lines: recorded traffic, or the provider itself."""

    is_live: bool
    """Whether requests may reach the network."""

    def decide(
        self, call: ModelCall, recorder: TraceRecorder, answered: Callable[[HttpAnswer], None]
    ) -> Decision:
        """Answer or forward a model call; raise PipelineError if neither is possible.

        ``answered`` is called with the complete answer, as soon as it is known.
        """

    def decide_other(
        self, request: HttpRequest, agent: str, recorder: TraceRecorder
    ) -> Decision | None:
        """Answer or forward a request that is no model call; None to do neither."""

    def records(self, tool: str) -> bool:
        """Return whether it executes a tool's calls, or records them."""

    def carried_out(
        self, request: ToolRequest, recorder: TraceRecorder, real: Callable[[], Any]
    ) -> Any:
        """Return a tool's result or an awaitable: a recorded one, or that of ``real``."""

    def unplayed(self) -> list[str]:
        """Return the unused interactions, a line for each."""

    def drifted(self) -> list[str]:
        """Return the requests that differ from their recordings, a line for each."""


AnswerCallback: TypeAlias = Callable[[HttpAnswer], None]
"""Receives the complete answer to a model call."""


class GatedTraffic:
    """Answers requests from recorded traffic, or forwards and records them."""

    def __init__(self, traffic: Traffic) -> None:
        self._traffic = traffic
        self.is_live = traffic.is_live
        """Whether real traffic is allowed."""
        self.unplayed, self.drifted = traffic.unplayed, traffic.drifted
        self.records = traffic.records

    def decide(
        self, call: ModelCall, recorder: TraceRecorder, answered: AnswerCallback
    ) -> Decision:
        """Answer or forward a model call; raise CassetteMissed."""
        exchange = self._exchange(call.run.agent, call.request, recorder)
        if exchange.answer is not None:
            answered(exchange.answer)
            return exchange.answer

        def ended(answer: HttpAnswer) -> None:
            self._traffic.answered(exchange, answer)
            answered(answer)

        self._traffic.wait_for(exchange)
        return Forward(ChunkRecorder(ended, lambda response: _is_whole(response, call)))

    def decide_other(
        self, request: HttpRequest, agent: str, recorder: TraceRecorder
    ) -> Decision | None:
        """Answer a request that is no model call; None if the cassette has none of this kind."""
        if not self._traffic.knows_others:
            return None
        exchange = self._exchange(agent or _at_work(recorder), request, recorder)
        if exchange.answer is not None:
            return exchange.answer
        self._traffic.wait_for(exchange)
        return Forward(ChunkRecorder(lambda answer: self._traffic.answered(exchange, answer)))

    def carried_out(
        self, request: ToolRequest, recorder: TraceRecorder, real: Callable[[], Any]
    ) -> Any:
        """Return a tool's result, or an awaitable: the recorded one, or the real one.

        Raise CassetteMissed, ToolFailed if the recorded call failed, and CassetteInvalid for a
        result that is no plain data.
        """
        tool = request.call.name
        exchange = self._exchange(request.agent, tool_request(tool, request.call.args), recorder)
        if exchange.answer is not None:
            return result_of(exchange.answer)
        return real_result(tool, real, lambda answer: self._traffic.answered(exchange, answer))

    def ask_server(
        self, server: str, request: HttpRequest, recorder: TraceRecorder
    ) -> tuple[HttpResponse | None, Callable[[HttpResponse], None]]:
        """Return a server's recorded answer, if it is used, and what takes the real one.

        Raise CassetteMissed.
        """
        exchange = self._exchange(server, request, recorder)
        if exchange.answer is None:
            self._traffic.wait_for(exchange)
        return exchange.answer, lambda answer: self._traffic.answered(exchange, answer)

    def _exchange(self, agent: str, request: HttpRequest, recorder: TraceRecorder) -> Exchange:
        return self._traffic.ask(agent, recorder.turn, recorder.session, request)


def _at_work(recorder: TraceRecorder) -> str:
    """Return the only running agent; empty if there is none, or several."""
    open_runs = {run.agent for run in recorder.runs if not run.is_over}
    return next(iter(open_runs)) if len(open_runs) == 1 else ""


def _is_whole(response: HttpResponse, call: ModelCall) -> bool:
    """Return whether a model call's response is complete."""
    try:
        answer = call.protocol.parse_response(decoded_response(response), call.model_request)
        return answer.error is None
    except (WireInvalid, NotDecodable):
        return False


_OF_CLOUDS: Final = ("169.254.", "fd00:ec2::", "metadata.google.internal")
"""How hosts begin at which the SDKs of AWS, Azure and Google ask for the machine's keys."""
_GIVES_KEYS: Final = (
    "gives a machine's keys, which no recording is to hold; `allow_hosts` lets code ask it"
)


class OtherRequests:
    """Decides about the requests of a pipeline that ask no model."""

    def __init__(
        self,
        recorder: TraceRecorder,
        others: Answerer | None,
        host_is_allowed: Callable[[str], bool],
        chains: Chains,
        has_lines: Callable[[str], bool],
    ) -> None:
        """``has_lines`` returns whether the turn has lines for an agent; empty is any."""
        self._recorder, self._others, self._has_lines = recorder, others, has_lines
        self._host_is_allowed, self._chains = host_is_allowed, chains
        self.of_servers: Callable[[HttpRequest], Decision | Later | None] = lambda request: None
        """Answers what is sent to the scenario's servers; None for all else."""
        self.home = ""
        """The top-level package of the pipeline's code."""
        self.remote_agent: Callable[[HttpRequest], RemoteCall | None] = lambda request: None
        """Returns the remote agent of the scenario that a request asks."""
        self.sampling_server: Callable[[Sequence[Message]], str] = lambda messages: ""
        """Returns the server that asks its client's model these messages; empty for none."""

    def decide(self, request: HttpRequest) -> Decision | Later:
        """Decide about a request that is no model call: answer, forward or refuse it."""
        served = self.of_servers(request)
        if served is not None:
            return served
        if self._host_is_allowed(request.url):
            self._record_unread(request)
            return Forward(None)
        host = urlsplit(request.url).hostname or ""
        if host.startswith(_OF_CLOUDS):
            return NoResponse("connection", f"simkit: {host} {_GIVES_KEYS}")
        is_scripted = self._has_lines(_at_work(self._recorder))
        if is_scripted and (counted := self.counted(request)) is not None:
            return counted
        try:
            decision = self._of_others(request)
        except CassetteMissed:
            decision = self.counted(request)
            if decision is None:
                raise
            return decision
        if decision is not None:
            self._record_unread(request)
            return decision
        decision = self.counted(request)
        return answer_to_library(request, self.home) if decision is None else decision

    def _record_unread(self, request: HttpRequest) -> None:
        """Record a request to a model's provider in an interface that simkit cannot parse."""
        interface = unsupported_interface(request)
        if interface:
            host = urlsplit(request.url).netloc.rpartition("@")[2]
            self._recorder.events.record_unread_request(
                self._recorder.at(),
                method=request.method,
                url=f"{host}{path_of(request.url)}",
                interface=interface,
            )

    def _of_others(self, request: HttpRequest) -> Decision | None:
        """Return the decision of recorded traffic, or the provider, about other requests."""
        if self._others is None:
            return None
        mark = current_mark()
        agent = mark.agent if mark is not None else ""
        return self._others.decide_other(request, agent, self._recorder)

    def counted(self, request: HttpRequest) -> HttpResponse | None:
        """Return the answer to a request that counts tokens; None for others."""
        count = self._recorder.count
        try:
            return answer_token_count(
                request,
                lambda messages: sum(tokens_of(m, count) for m in messages),
                self._chains.followed,
            )
        except WireInvalid as problem:
            raise NetworkRefused(
                f"{request.method} {request.url} counts no context that simkit knows: {problem}",
                "",
                None,
            ) from problem
