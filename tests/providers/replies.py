"""Replies that several protocols render, and what their tests share."""

from __future__ import annotations

import json
from typing import Any, Final

import pydantic

from simkit.core.messages import Message, ToolCall, Usage
from simkit.providers.values import OutgoingReply

OPENAI: Final = {
    "text": Message("assistant", "Grüezi, wie kann ich Ihnen helfen? 🏔"),
    "call": Message("assistant", calls=(ToolCall("call_1", "book", {"city": "Zürich"}),)),
    "parallel": Message(
        "assistant",
        "One moment.",
        calls=(ToolCall("call_1", "book", {}), ToolCall("call_2", "book", {"city": "Chur"})),
    ),
    "structured": Message("assistant", '{"nights":2}', data={"nights": 2}),
    "structured like an extra": Message(
        "assistant", '{"refusal":"x","reasoning":[{}]}', data={"refusal": "x", "reasoning": [{}]}
    ),
    "refusal": Message("assistant", "I must not.", data={"refusal": "I must not."}),
    "empty": Message("assistant"),
}


class Booking(pydantic.BaseModel):
    """What a structured reply is."""

    city: str
    nights: int | None = None


def sdk_replies(first: str, second: str) -> dict[str, Message]:
    """What providers' own libraries are sent, with calls of these ids."""
    call = ToolCall(first, "book", {"city": "Zürich", "nights": 2})
    return {
        "text": Message("assistant", "Grüezi, wie kann ich helfen? 🏔 Ein Zimmer, vielleicht?"),
        "tool call": Message("assistant", calls=(call,)),
        "text and a call": Message("assistant", "One moment.", calls=(call,)),
        "parallel calls": Message("assistant", calls=(call, ToolCall(second, "book", {}))),
    }


def make_reply(message: Message, **more: Any) -> OutgoingReply:
    return OutgoingReply("c1", message, Usage(11, 7), **more)


def contains(whole: Any, part: Any) -> bool:
    """Whether every field of the part stands in the whole; ids of another run may differ."""
    if isinstance(part, dict):
        return all(
            key in ("id", "item_id") or (key in whole and contains(whole[key], value))
            for key, value in part.items()
        )
    if isinstance(part, str) and part.startswith("{"):
        return bool(json.loads(whole) == json.loads(part))
    if isinstance(part, list):
        return len(whole) == len(part) and all(map(contains, whole, part))
    return bool(whole == part)
