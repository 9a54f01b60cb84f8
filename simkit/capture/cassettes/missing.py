"""Misses: why no recording answers a request, what is near, and the differences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from simkit.capture.cassettes.keys import Question
from simkit.capture.cassettes.nearest import nearest
from simkit.capture.cassettes.normalising import json_of
from simkit.capture.cassettes.reasons import Asking, PlayState, Policy, Reason, why_missed
from simkit.capture.cassettes.values import Interaction
from simkit.core.errors import WireInvalid
from simkit.core.messages import Message
from simkit.providers.http import HttpRequest
from simkit.providers.protocols import protocol_of
from simkit.providers.values import ParsedRequest
from simkit.trace.diff import Added, Changed, Edit, MessageEdit, Removed, Same, aligned
from simkit.trace.diff.values import edits, key_of, message_fields


class Miss(msgspec.Struct, frozen=True, gc=False):
    """The reason of a miss, and the differences to the nearest recording."""

    reason: Reason
    cassette: str
    agent: str
    turn: int
    method: str
    address: str
    number: int | None = None
    """The index of the nearest recording; None if there is none."""
    near: Interaction | None = None
    is_played: bool = False
    """Whether the nearest recording was used already."""
    same: int = 0
    """The number of recordings that ask the same or, if all are used up, of the agent's in this
    turn."""
    messages: tuple[MessageEdit, ...] = ()
    """The edits from the recorded messages to those of the request."""
    edits: tuple[Edit, ...] = ()
    """All other differences: settings, tools, model, or the body if it is no model call."""


def missed(call: Asking, state: PlayState, policy: Policy) -> Miss:
    """Return why a request is not answered, and the nearest recording."""
    why = why_missed(call, state, policy)
    number, reason = why.number, why.reason
    if reason == "differs" and number is None:
        number = nearest(call, state)
        reason = "differs" if number is not None else "nothing similar"
    miss = Miss(
        reason,
        state.name,
        call.agent,
        call.turn,
        call.question.method,
        call.question.address,
        same=why.same,
    )
    if number is None:
        return miss
    recorded = state.cassette.interactions[number]
    messages, rest = differences(
        (recorded.request, state.questions[number]), (call.request, call.question)
    )
    return msgspec.structs.replace(
        miss,
        number=state.cassette.place_of(number),
        near=recorded,
        is_played=bool(state.played[number]),
        messages=messages,
        edits=rest,
    )


def differences(
    left: tuple[HttpRequest, Question], right: tuple[HttpRequest, Question]
) -> tuple[tuple[MessageEdit, ...], tuple[Edit, ...]]:
    """Return the edits between the messages of two requests, and their other differences."""
    around = tuple(edits(_around(left[1]), _around(right[1])))
    mine, its = _parsed_request(*left), _parsed_request(*right)
    if mine is not None and its is not None:
        messages = tuple(_message_edits(mine.messages, its.messages))
        rest = tuple(edits(_settings(mine), _settings(its)))
        if rest or any(not isinstance(edit, Same) for edit in messages):
            return messages, around + rest
    return (), around + tuple(edits(_value(left[1].body), _value(right[1].body), "body"))


def _around(question: Question) -> dict[str, Any]:
    return {"method": question.method, "path": question.address}


def _parsed_request(request: HttpRequest, question: Question) -> ParsedRequest | None:
    """Return the parsed request without the parts that keys ignore; None if it is no model call."""
    protocol = protocol_of(request)
    if protocol is None:
        return None
    try:
        return protocol.parse_request(msgspec.structs.replace(request, body=question.body))
    except WireInvalid:
        return None


def _settings(model_request: ParsedRequest) -> dict[str, Any]:
    """Return the settings of a request; tools are compared by name."""
    return {
        "model": model_request.model,
        "tools": {
            offer.name: {"description": offer.description, "schema": offer.schema}
            for offer in model_request.offers
        },
        "choice": model_request.choice,
        "output": model_request.output,
        "settings": dict(model_request.settings),
        "streamed": model_request.is_streamed,
        "previous": model_request.previous,
    }


def _value(body: bytes) -> Any:
    try:
        return json_of(body)
    except ValueError:
        return body.decode("utf-8", "replace")


def _message_edits(left: Sequence[Message], right: Sequence[Message]) -> Iterator[MessageEdit]:
    """Yield the edits from one list of messages to the other; ids are ignored."""
    for span in aligned([_print(message) for message in left], [_print(m) for m in right]):
        if span.is_equal:
            yield Same(span.hi - span.lo)
            continue
        mine, its = left[span.lo : span.hi], right[span.other_lo : span.other_hi]
        # Messages are paired with messages of the same role.
        for part in aligned([message.role for message in mine], [m.role for m in its]):
            places = range(span.other_lo + part.other_lo, span.other_lo + part.other_hi)
            if part.is_equal:
                for place, old in zip(places, mine[part.lo : part.hi], strict=True):
                    yield Changed(place, old, right[place])
                continue
            for dropped in range(part.lo, part.hi):
                yield Removed(span.lo + dropped, mine[dropped])
            yield from (Added(place, right[place]) for place in places)


def _print(message: Message) -> bytes:
    fields = message_fields(message)
    return key_of([fields, message.data] if message.data is not None else [fields])
