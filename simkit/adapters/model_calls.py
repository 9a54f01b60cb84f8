"""Model calls that were intercepted: their records, and what answers them besides scripts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from typing import Protocol as Interface

import msgspec

from simkit.adapters.recorder.sessions import Run
from simkit.adapters.recorder.trace import TraceRecorder
from simkit.capture.cassettes.encodings import NotDecodable, decoded
from simkit.capture.http.request_router import Decision
from simkit.core.errors import WireInvalid
from simkit.core.messages import Fails, JsonValue, Message, ToolCall, as_json
from simkit.language.json_schema import schema_errors
from simkit.providers.chains import Chains
from simkit.providers.failures import FAILURES
from simkit.providers.http import HttpAnswer, HttpRequest, NoResponse, header
from simkit.providers.values import Offer, ParsedRequest, Protocol


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
        encodings = header(answer.headers, "content-encoding")
        try:
            plain = msgspec.structs.replace(answer, chunks=decoded(answer.chunks, encodings))
            parsed_answer = call.protocol.parse_response(plain, call.model_request)
            fails, partial = parsed_answer.error, parsed_answer.message.content
        except (WireInvalid, NotDecodable) as problem:
            fails = Fails("malformed_response", answer.status, str(problem))
    if fails is not None:
        recorder.failed(
            run, call.id, fails.kind, fails.status, fails.message, fails.retry_after, partial
        )
        return fails
    call.chains.remember(call.protocol, plain, call.model_request, parsed_answer.message)
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
        self,
        tool: str,
        args: JsonValue,
        agent: str,
        recorder: TraceRecorder,
        real: Callable[[], Any],
    ) -> Any:
        """Return a tool's result or an awaitable: a recorded one, or that of ``real``."""

    def unplayed(self) -> list[str]:
        """Return the unused interactions, a line for each."""

    def drifted(self) -> list[str]:
        """Return the requests that differ from their recordings, a line for each."""
