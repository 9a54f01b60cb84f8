"""Scaffolded replies: what stands in for a model of which nothing is known but its requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from simkit.adapters.model_calls import ModelCall
from simkit.adapters.recorder.handoffs import PREFIXES
from simkit.adapters.recorder.trace import TraceRecorder
from simkit.core.messages import JsonValue, Message, ToolCall, Usage
from simkit.language.json_schema import schema_errors
from simkit.language.json_schema.examples import example_of
from simkit.providers.http import HttpAnswer
from simkit.providers.values import Offer, OutgoingReply

_USAGE = Usage(1, 1)


class Manner(msgspec.Struct, frozen=True):
    """How scaffolded replies decide where a request leaves a choice."""

    hands_off: bool = True
    """Whether the first tool that passes control is called, once in all."""
    is_true: bool = True
    """The boolean in JSON."""
    has_items: bool = True
    """Whether lists in JSON have an item, so that what works them off works."""
    is_first: bool = True
    """Whether a model that must call some tool calls the first one, not the last."""


MANNERS: Final = (
    Manner(),
    Manner(is_true=False),
    Manner(has_items=False),
    Manner(is_first=False),
    Manner(hands_off=False),
    Manner(hands_off=False, is_true=False),
    Manner(is_true=False, has_items=False),
    Manner(hands_off=False, is_true=False, has_items=False, is_first=False),
)
"""Manners in the order in which to try them: some fail if a guardrail says `is_abusive`, if the
agent that takes over needs more than a handoff gives it, if an item is searched for in the network,
or if the first tool does something real."""


class ScaffoldedReplies:
    """Answers each model call with the least that its request asks for.

    That is JSON where a schema is named, a call where one is required, else a sentence.
    """

    is_live = False

    def __init__(self, manner: Manner) -> None:
        self._manner = manner
        self._has_handed_off = False
        self._has_decided = False
        self._has_filled = False
        self._has_selected = False
        self._count = 0

    def differs_in(self, manner: Manner) -> bool:
        """Return whether the replies would be others in another manner."""
        mine = self._manner
        return (
            (manner.hands_off != mine.hands_off and self._has_handed_off)
            or (manner.is_true != mine.is_true and self._has_decided)
            or (manner.has_items != mine.has_items and self._has_filled)
            or (manner.is_first != mine.is_first and self._has_selected)
        )

    def answer(self, call: ModelCall, recorder: TraceRecorder) -> HttpAnswer:
        """Return the answer, in the words of the provider that is asked."""
        message = self._message(call, recorder)
        reply = OutgoingReply(call.id, message, _USAGE)
        return call.protocol.served(reply, call.model_request)

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
            self._has_selected = self._has_selected or len(offers) > 1
            return self._calling([*offers.values()][-1 + self._manner.is_first], call, recorder)
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
        denying = _with_default(schema, "boolean", "examples", [False])
        self._has_decided = self._has_decided or example_of(schema) != example_of(denying)
        chosen = schema if self._manner.is_true else denying
        plain = example_of(chosen)
        filled = example_of(_with_default(chosen, "array", "minItems", 1))
        if filled == plain or schema_errors(schema, filled):
            return plain
        self._has_filled = True
        return filled if self._manner.has_items else plain


def _with_default(schema: Any, kind: str, keyword: str, value: Any) -> Any:
    """Return a schema whose parts of a type have a keyword, where they do not have it."""
    if isinstance(schema, Mapping):
        inner = {key: _with_default(part, kind, keyword, value) for key, part in schema.items()}
        return {keyword: value, **inner} if schema.get("type") == kind else inner
    if isinstance(schema, list | tuple):
        return [_with_default(part, kind, keyword, value) for part in schema]
    return schema


def _as_json(value: JsonValue) -> str:
    return msgspec.json.encode(value).decode()
