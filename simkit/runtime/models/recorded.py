"""Models that are asked in their providers' own words: what answers is recorded, or real."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from simkit.capture.cassettes.encodings import NotDecodable
from simkit.capture.cassettes.traffic import decoded_response
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
from simkit.providers.values import Asked, Heard, Offer
from simkit.runtime.ports import ModelRequest, TurnModel
from simkit.trace.events import UnusedLines

_NO_ANSWER: Final = ("length", "refusal", "content_filter")
"""Reasons to stop that leave no reply, as they do where a line says them: `error: refusal`."""
Thoughts: TypeAlias = Sequence[Mapping[str, Any]]
"""A model's reasoning, as the provider's own parts."""
_PARTS: Final = frozenset(("type", "query", "payload"))
"""What a handoff's tool takes."""
_FOREIGN: Final = re.compile(r"[^a-zA-Z0-9_-]")


def spoken_name(name: str) -> str:
    """Returns the name of a tool as providers take it: letters, digits, `_` and `-`."""
    return _FOREIGN.sub("_", name)


class Speaker(msgspec.Struct, frozen=True):
    """How one agent's model is asked."""

    asked: Asked
    """What is the same in each of its requests."""
    tools: Mapping[str, Offer]
    """Tool to how it is offered."""
    handoffs: Mapping[str, Offer]
    """Agent to the tool that passes control to it."""


class Outgoing(msgspec.Struct, frozen=True):
    """A model call on its way to who answers it."""

    agent: str
    turn: int
    session: str
    request: HttpRequest


class Provider(Protocol):
    """Who answers requests: a recording, or the provider itself."""

    def answer(self, call: Outgoing) -> HttpAnswer:
        """Returns the answer; raises CassetteMissed where there is none."""


class RecordedModel:
    """Asks a provider for the agents for which a turn has no reply lines; the others have those."""

    def __init__(
        self,
        script: TurnModel,
        has_lines: Callable[[int, str], bool],
        speakers: Mapping[str, Speaker],
        provider: Provider,
    ) -> None:
        """``has_lines`` says whether the turn at a place (from 0) has lines for an agent."""
        self._script, self._has_lines = script, has_lines
        self._speakers, self._provider = speakers, provider
        self._place = 0
        self._thoughts: dict[str, list[Thoughts]] = {}
        """By run: what its model thought before each of its replies."""

    def begin_turn(self, place: int) -> None:
        """Takes what belongs to the turn at this place (from 0)."""
        self._place = place
        self._script.begin_turn(place)

    def begin_group(self, agents: Sequence[str]) -> None:
        """Is told which agents now run in parallel."""
        self._script.begin_group(agents)

    def unused(self) -> tuple[UnusedLines, ...]:
        """Returns the turn's reply lines that nobody asked for."""
        return self._script.unused()

    def answer(self, request: ModelRequest) -> Answer:
        """Returns what the agent's line says, or its provider."""
        if self._has_lines(self._place, request.agent):
            return self._script.answer(request)
        speaker = self._speakers.get(request.agent)
        if speaker is None:
            raise ReplyMissing(self._unnamed(request.agent))
        asked = self._asked(speaker, request)
        sent = PROTOCOLS[asked.protocol].asking(asked)
        call = Outgoing(request.agent, request.turn, request.session, sent)
        heard = _heard(self._provider.answer(call), asked)
        if isinstance(heard, Fails):
            return Answer(heard)
        thought = parts_in(heard.message, REASONING)
        self._thoughts.setdefault(request.run, []).append(thought)
        return Answer(_reply(heard, speaker, request), heard.usage)

    def _unnamed(self, agent: str) -> str:
        where = path_text(("turns", self._place, "replies", agent))
        return (
            f"agent {agent!r} made a model call in turn {self._place + 1}, but the scenario has no "
            "reply for it, and the pipeline names no model that could be recorded.\n"
            f"Add one under {where}, or its model under `models` in the pipeline."
        )

    def _asked(self, speaker: Speaker, request: ModelRequest) -> Asked:
        offers = [speaker.tools[name] for name in request.tools]
        offers += [speaker.handoffs[name] for name in request.handoffs]
        output = speaker.asked.output if request.output is not None else None
        messages = _with_thoughts(request.messages(), self._thoughts.get(request.run, ()))
        return msgspec.structs.replace(
            speaker.asked, messages=tuple(messages), offers=tuple(offers), output=output
        )


def _with_thoughts(messages: Sequence[Message], thoughts: Sequence[Thoughts]) -> list[Message]:
    """Returns messages as they are sent.

    What a model thought before it called a tool goes back to it with the call, in the same run:
    some providers refuse the call without it.
    """
    own = [n for n, one in enumerate(messages) if one.section == "run" and one.role == "assistant"]
    before = dict(zip(own, thoughts, strict=True)) if len(own) == len(thoughts) else {}
    return [_sent(message, before.get(n, ())) for n, message in enumerate(messages)]


def _sent(message: Message, thought: Thoughts) -> Message:
    """Returns a message with nothing but what a provider is told of it."""
    return Message(
        message.role,
        message.content,
        calls=tuple(ToolCall(c.id, spoken_name(c.name), c.args) for c in message.calls),
        call_id=message.call_id,
        tool=spoken_name(message.tool),
        data={REASONING: list(thought)} if thought else None,
    )


def _heard(answer: HttpAnswer, asked: Asked) -> Heard | Fails:
    """Reads what came; a failure is one of those that a reply line may say."""
    if isinstance(answer, NoResponse):
        return Fails(answer.kind, FAILURES[answer.kind].status, answer.message)
    try:
        heard = PROTOCOLS[asked.protocol].heard(decoded_response(answer), asked)
    except (WireInvalid, NotDecodable) as problem:
        return Fails("malformed_response", answer.status, str(problem))
    if heard.finish in _NO_ANSWER:
        words = heard.message.content if heard.finish == "refusal" else ""
        usual = FAILURES[heard.finish]
        return Fails(heard.finish, 200, words or usual.message)
    if heard.error is None:
        return heard
    if heard.error.kind == "malformed_json":
        # A text that should be JSON is read by the runtime, as a line's is.
        if any(isinstance(call.args, str) for call in heard.message.calls):
            raise ModelError(heard.error.message, heard.error.kind, heard.error.status)
        return heard
    return heard.error


def _reply(heard: Heard, speaker: Speaker, request: ModelRequest) -> Reply:
    """Returns what a model said as a reply line would say it."""
    said = heard.message
    if not said.calls:
        return Text(said.content)
    tools = {speaker.tools[name].name: name for name in request.tools}
    targets = {speaker.handoffs[name].name: name for name in request.handoffs}
    for call in said.calls:
        if call.name not in tools and call.name not in targets:
            offered = ", ".join((*tools, *targets)) or "none"
            raise ModelError(
                f"the model of agent {request.agent!r} calls tool {call.name!r}, which it is not "
                f"offered. Offered: {offered}.",
                "unknown_tool",
                200,
            )
    passing = [call for call in said.calls if call.name not in tools]
    if not passing:
        lines = tuple(CallLine(tools[call.name], call.args) for call in said.calls)
        return Calls(lines, said.content)
    if len(said.calls) > 1:
        names = ", ".join(call.name for call in said.calls)
        raise ModelError(
            f"the model of agent {request.agent!r} passes control and makes other calls in one "
            f"reply ({names}): an agent here does one after the other. Providers have a setting "
            "for one call at a time.",
            "parallel_handoff",
            200,
        )
    target = targets[passing[0].name]
    return _handoff(passing[0], target, speaker.handoffs[target], said.content)


def _handoff(call: ToolCall, target: str, offer: Offer, text: str) -> Handoff:
    """Reads a call that passes control; of one that says other things they are the payload."""
    args = call.args if isinstance(call.args, Mapping) else {}
    if not {*args} <= _PARTS:
        args = {"payload": args}
    kind, query = args.get("type"), args.get("query")
    # One that should say its type and does not has none that is registered: it is refused.
    is_typed = isinstance(offer.schema, Mapping) and "type" in offer.schema["properties"]
    return Handoff(
        target,
        kind if isinstance(kind, str) else "" if is_typed else None,
        query if isinstance(query, str) else None,
        args.get("payload"),
        text,
    )
