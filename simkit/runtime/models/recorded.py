"""Recorded models: calls in a provider's protocol, answered by a recording or by the provider."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from simkit.capture.cassettes.traffic import decoded_response
from simkit.capture.cassettes.values import NotDecodable
from simkit.core.errors import ModelError, ReplyMissing, WireInvalid
from simkit.core.messages import (
    Answer,
    CallLine,
    Calls,
    Fails,
    Handoff,
    Message,
    Reply,
    Text,
    ToolCall,
)
from simkit.language.yaml import path_text
from simkit.providers.attachments import REASONING, parts_in
from simkit.providers.failures import FAILURES
from simkit.providers.http import HttpAnswer, HttpRequest, NoResponse
from simkit.providers.protocols import PROTOCOLS
from simkit.providers.values import Offer, ParsedRequest, ParsedResponse
from simkit.runtime.ports import ModelRequest, TurnModel
from simkit.runtime.speakers import Speaker, spoken_name
from simkit.trace.events import UnusedLines

_NO_ANSWER: Final = ("length", "refusal", "content_filter")
"""Finish reasons without a reply; a line writes them as `error: refusal`."""
Thoughts: TypeAlias = Sequence[Mapping[str, Any]]
"""A model's reasoning, as the provider's own parts."""
_PARTS: Final = frozenset(("type", "query", "payload"))
"""The arguments of a handoff's tool."""


class Outgoing(msgspec.Struct, frozen=True):
    """A model call in a provider's protocol."""

    agent: str
    turn: int
    session: str
    request: HttpRequest


class Provider(Protocol):
    """The part that answers requests: a recording, or the provider itself."""

    def answer(self, call: Outgoing) -> HttpAnswer:
        """Return the answer; raise CassetteMissed if there is none."""


class RecordedModel(msgspec.Struct, eq=False):
    """A model that calls a provider for agents without reply lines; the others use their lines."""

    _script: TurnModel
    _has_lines: Callable[[int, str], bool]
    """Returns whether the turn at an index has lines for an agent."""
    _speakers: Mapping[str, Speaker]
    _provider: Provider
    _place: int = 0
    _thoughts: dict[str, list[Thoughts]] = {}
    """Run to the reasoning before each of its replies."""

    def begin_turn(self, index: int) -> None:
        """Begin the turn at this index."""
        self._place = index
        self._script.begin_turn(index)

    def begin_group(self, agents: Sequence[str]) -> None:
        """Announce the agents that now run in parallel."""
        self._script.begin_group(agents)

    def unused(self) -> tuple[UnusedLines, ...]:
        """Return the turn's unused reply lines."""
        return self._script.unused()

    def answer(self, request: ModelRequest) -> Answer:
        """Return the answer of the agent's line, or of its provider."""
        if self._has_lines(self._place, request.agent):
            return self._script.answer(request)
        speaker = self._speakers.get(request.agent)
        if speaker is None:
            raise ReplyMissing(self._unnamed(request.agent))
        parsed_request = self._request_of(speaker, request)
        http_request = PROTOCOLS[parsed_request.protocol].build_request(parsed_request)
        call = Outgoing(request.agent, request.turn, request.session, http_request)
        parsed_answer = parse_answer(self._provider.answer(call), parsed_request)
        if isinstance(parsed_answer, Fails):
            return Answer(parsed_answer)
        thought = parts_in(parsed_answer.message, REASONING)
        self._thoughts.setdefault(request.run, []).append(thought)
        return Answer(_reply(parsed_answer, speaker, request), parsed_answer.usage)

    def _unnamed(self, agent: str) -> str:
        where = path_text(("turns", self._place, "replies", agent))
        return (
            f"agent {agent!r} made a model call in turn {self._place + 1}, but the scenario has no "
            "reply for it, and the pipeline names no model that could be recorded.\n"
            f"Add one under {where}, or its model under `models` in the pipeline."
        )

    def _request_of(self, speaker: Speaker, request: ModelRequest) -> ParsedRequest:
        offers = [speaker.tools[name] for name in request.tools]
        offers += [speaker.handoffs[name] for name in request.handoffs]
        output = speaker.request.output if request.output is not None else None
        messages = _with_thoughts(request.messages(), self._thoughts.get(request.run, ()))
        return msgspec.structs.replace(
            speaker.request, messages=tuple(messages), offers=tuple(offers), output=output
        )


def _with_thoughts(messages: Sequence[Message], thoughts: Sequence[Thoughts]) -> list[Message]:
    """Return messages in the form in which they are sent.

    The reasoning before a tool call is sent back with the call in the same run: some providers
    refuse the call without it.
    """
    lines = [
        n
        for n, message_ in enumerate(messages)
        if message_.section == "run" and message_.role == "assistant"
    ]
    before = dict(zip(lines, thoughts, strict=True)) if len(lines) == len(thoughts) else {}
    return [_with_call_ids(message, before.get(n, ())) for n, message in enumerate(messages)]


def _with_call_ids(message: Message, thought: Thoughts) -> Message:
    """Return a message reduced to the parts that a provider gets."""
    return Message(
        message.role,
        message.content,
        calls=tuple(ToolCall(c.id, spoken_name(c.name), c.args) for c in message.calls),
        call_id=message.call_id,
        tool=spoken_name(message.tool),
        data={REASONING: list(thought)} if thought else None,
    )


def parse_answer(answer: HttpAnswer, request: ParsedRequest) -> ParsedResponse | Fails:
    """Parse a response; a failure becomes one that a reply line can express."""
    if isinstance(answer, NoResponse):
        return Fails(answer.kind, FAILURES[answer.kind].status, answer.message)
    try:
        parsed = PROTOCOLS[request.protocol].parse_response(decoded_response(answer), request)
    except (WireInvalid, NotDecodable) as problem:
        return Fails("malformed_response", answer.status, str(problem))
    if parsed.finish in _NO_ANSWER:
        words = parsed.message.content if parsed.finish == "refusal" else ""
        usual = FAILURES[parsed.finish]
        return Fails(parsed.finish, 200, words or usual.message)
    if parsed.error is None:
        return parsed
    if parsed.error.kind == "malformed_json":
        # The runtime parses a text that should be JSON, as it does for a line.
        if any(isinstance(call.args, str) for call in parsed.message.calls):
            raise ModelError(parsed.error.message, parsed.error.kind, parsed.error.status)
        return parsed
    return parsed.error


def _reply(parsed: ParsedResponse, speaker: Speaker, request: ModelRequest) -> Reply:
    """Return a model's response as a reply line would give it."""
    message = parsed.message
    if not message.calls:
        return Text(message.content)
    tools = {speaker.tools[name].name: name for name in request.tools}
    targets = {speaker.handoffs[name].name: name for name in request.handoffs}
    for call in message.calls:
        if call.name not in tools and call.name not in targets:
            offered = ", ".join((*tools, *targets)) or "none"
            raise ModelError(
                f"the model of agent {request.agent!r} calls tool {call.name!r}, which it is not "
                f"offered. Offered: {offered}.",
                "unknown_tool",
                200,
            )
    handoff_calls = [call for call in message.calls if call.name not in tools]
    if not handoff_calls:
        lines = tuple(CallLine(tools[call.name], call.args) for call in message.calls)
        return Calls(lines, message.content)
    if len(message.calls) > 1:
        names = ", ".join(call.name for call in message.calls)
        raise ModelError(
            f"the model of agent {request.agent!r} passes control and makes other calls in one "
            f"reply ({names}): an agent here does one after the other. Providers have a setting "
            "for one call at a time.",
            "parallel_handoff",
            200,
        )
    target = targets[handoff_calls[0].name]
    return _handoff(handoff_calls[0], target, speaker.handoffs[target], message.content)


def _handoff(call: ToolCall, target: str, offer: Offer, text: str) -> Handoff:
    """Parse a call that passes control; without the expected arguments, they are the payload."""
    args = call.args if isinstance(call.args, Mapping) else {}
    if not {*args} <= _PARTS:
        args = {"payload": args}
    kind, query = args.get("type"), args.get("query")
    # A call without a required type gets an unregistered one, and is rejected.
    is_typed = isinstance(offer.schema, Mapping) and "type" in offer.schema["properties"]
    return Handoff(
        target,
        kind if isinstance(kind, str) else "" if is_typed else None,
        query if isinstance(query, str) else None,
        args.get("payload"),
        text,
    )
