"""Scaffolded replies: what stands in for a model of which nothing is known but its requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from simkit.adapters.handoff_tools import PREFIXES
from simkit.adapters.response_parsing import ModelCall
from simkit.adapters.trace_recorder import TraceRecorder
from simkit.core.messages import JsonValue, Message, ToolCall, Usage
from simkit.language.json_schema.examples import example_of
from simkit.providers.http import HttpAnswer, HttpRequest
from simkit.providers.values import Offer, OutgoingReply

_USAGE = Usage(1, 1)


class Manner(msgspec.Struct, frozen=True):
    """How scaffolded replies decide where a request leaves a choice."""

    hands_off: bool = True
    """Whether the first tool that passes control is called, once in all."""
    is_true: bool = True
    """The boolean in JSON."""


MANNERS: Final = (Manner(), Manner(is_true=False), Manner(False), Manner(False, False))
"""All manners, in the order in which to try them: some fail if a guardrail says `is_abusive`, or if
the agent that takes over needs more than a handoff gives it."""


class ScaffoldedReplies:
    """Answers each model call with the least that its request asks for.

    That is JSON where a schema is named, a call where one is required, else a sentence.
    """

    is_live = False

    def __init__(self, manner: Manner) -> None:
        self._manner = manner
        self._has_handed_off = False
        self._has_decided = False
        self._count = 0

    def differs_in(self, manner: Manner) -> bool:
        """Return whether the replies would be others in another manner."""
        is_other_handoff = manner.hands_off != self._manner.hands_off
        is_other_boolean = manner.is_true != self._manner.is_true
        return (is_other_handoff and self._has_handed_off) or (
            is_other_boolean and self._has_decided
        )

    def answer(self, call: ModelCall, turn: int, recorder: TraceRecorder) -> HttpAnswer:
        """Return the answer, in the words of the provider that is asked."""
        message = self._message(call, recorder)
        reply = OutgoingReply(call.id, message, _USAGE)
        return call.protocol.served(reply, call.model_request)

    def answer_other(
        self, request: HttpRequest, turn: int, recorder: TraceRecorder
    ) -> HttpAnswer | None:
        """Answer no other request."""
        return None

    def _message(self, call: ModelCall, recorder: TraceRecorder) -> Message:
        request = call.model_request
        offers = {offer.name: offer for offer in request.offers}
        output = next((offers[name] for name in call.run.output_tools if name in offers), None)
        handoff = self._handoff(call, recorder)
        if handoff is not None:
            return self._calling(handoff, call, recorder)
        if request.choice in offers:
            return self._calling(offers[request.choice], call, recorder)
        if request.output is not None:
            value = self._example(request.output)
            return Message("assistant", _as_json(value), data=value)
        if output is not None:
            return self._calling(output, call, recorder)
        if request.choice == "required" and offers:
            return self._calling(next(iter(offers.values())), call, recorder)
        self._count += 1
        return Message("assistant", f"Reply {self._count}.")

    def _handoff(self, call: ModelCall, recorder: TraceRecorder) -> Offer | None:
        """Return the tool by which the agent that asks hands off now, if it does."""
        is_forced = call.model_request.choice not in ("auto", "required")
        if not self._manner.hands_off or is_forced or self._has_handed_off:
            return None
        tools = recorder.handoff_tools
        for offer in call.model_request.offers:
            if tools.target_of(offer.name) or offer.name.startswith(PREFIXES):
                self._has_handed_off = True
                return offer
        return None

    def _calling(self, offer: Offer, call: ModelCall, recorder: TraceRecorder) -> Message:
        args: JsonValue = self._example(offer.schema) if offer.schema is not None else {}
        served = recorder.served_id(recorder.new_call_id(), call.protocol.call_prefix)
        return Message("assistant", calls=(ToolCall(served, offer.name, args),))

    def _example(self, schema: Any) -> Any:
        yes, no = example_of(schema), example_of(_denying(schema))
        self._has_decided = self._has_decided or yes != no
        return yes if self._manner.is_true else no


def _denying(schema: Any) -> Any:
    """Return a schema whose booleans have the example False."""
    if isinstance(schema, Mapping):
        inner = {key: _denying(value) for key, value in schema.items()}
        return {"examples": [False], **inner} if schema.get("type") == "boolean" else inner
    return [_denying(part) for part in schema] if isinstance(schema, list | tuple) else schema


def _as_json(value: JsonValue) -> str:
    return msgspec.json.encode(value).decode()
