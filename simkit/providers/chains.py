"""Chains: requests that continue an earlier response, and their complete contexts.

OpenAI's Responses give ``previous_response_id``, name a ``conversation`` that the provider keeps,
or name single items of earlier replies by id; Anthropic's messages continue a ``thread``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from simkit.core.errors import WireInvalid
from simkit.core.messages import Message
from simkit.providers.attachments import ITEMS, REASONING, parts_in
from simkit.providers.http import HttpResponse
from simkit.providers.values import ParsedRequest, Protocol

Earlier: TypeAlias = Mapping[str, Sequence[Message]]
"""Contexts by the id of a response, or of a conversation; the last message is the reply."""

INSTRUCTIONS: Final = "instructions"
"""The section of a message that is valid for one request only, not for the next of a chain."""

REFERENCE: Final = "item_reference"

_ITEM_ID: Final = re.compile(
    r"msg_(?P<text>.+)|rs_(?P<thought>.+)_(?P<place>\d+)|fc_(?P<called>.+)_(?P<call>\d+)"
)
"""Ids of items that simkit served; each contains the serial of its response."""


def chained(request: ParsedRequest, earlier: Earlier) -> ParsedRequest:
    """Return the request with its complete context; raise WireInvalid for an unknown id.

    Instructions of earlier requests are not carried over, as the provider documents.
    """
    if not request.previous and not any(
        message.data is not None and _references(message) for message in request.messages
    ):
        return request
    own = [message for message in request.messages if message.section == INSTRUCTIONS]
    own_messages = [message for message in request.messages if message.section != INSTRUCTIONS]
    new = [resolved for message in own_messages for resolved in _resolved(message, earlier)]
    before = [
        m for m in _before(request.previous, earlier, request.protocol) if m.section != INSTRUCTIONS
    ]
    return msgspec.structs.replace(request, messages=(*own, *_named([*before, *new])))


def is_conversation(previous: str) -> bool:
    """Return whether a request continues a conversation, which begins empty."""
    return previous.startswith("conv_")


def _named(messages: Sequence[Message]) -> Iterator[Message]:
    """Yield the messages, with tool names added to results of earlier requests' calls."""
    tools = dict[str, str]()
    for message in messages:
        tools.update((call.id, call.name) for call in message.calls)
        if message.role == "tool" and not message.tool and message.call_id in tools:
            message = msgspec.structs.replace(message, tool=tools[message.call_id])
        yield message


def _before(previous: str, earlier: Earlier, protocol: str) -> Sequence[Message]:
    if not previous:
        return ()
    earlier_messages = earlier.get(previous)
    if earlier_messages is None and not is_conversation(previous):
        problem = f"no response {previous!r} was served in this session"
        field = "thread.previous_message_id" if protocol == "anthropic" else "previous_response_id"
        raise WireInvalid(problem, field)
    return earlier_messages or ()


def _references(message: Message) -> list[str]:
    """Return the ids of the items that a message consists of."""
    return [str(item["id"]) for item in parts_in(message, ITEMS) if item.get("type") == REFERENCE]


def _resolved(message: Message, earlier: Earlier) -> list[Message]:
    """Return the messages that a message's references stand for, one for each reply."""
    by_call = dict[str, Message]()
    for item_id in _references(message):
        match = _ITEM_ID.fullmatch(item_id)
        serial = (match["text"] or match["thought"] or match["called"]) if match else ""
        context = earlier.get(f"resp_{serial}")
        if match is None or not context:
            raise WireInvalid(f"no item {item_id!r} was served in this session", "input")
        now = by_call.get(serial) or Message("assistant")
        by_call[serial] = _with_item(now, context[-1], match, item_id)
    return list(by_call.values()) or [message]


def _with_item(now: Message, reply: Message, match: re.Match[str], item_id: str) -> Message:
    if match["text"]:
        return msgspec.structs.replace(now, content=reply.content)
    items = parts_in(reply, REASONING) if match["thought"] else reply.calls
    place = int(match["place"] or match["call"] or 0)
    if place >= len(items):
        raise WireInvalid(f"no item {item_id!r} was served in this session", "input")
    if match["called"]:
        return msgspec.structs.replace(now, calls=(*now.calls, reply.calls[place]))
    thoughts = [*parts_in(now, REASONING), items[place]]
    return msgspec.structs.replace(now, data={REASONING: thoughts})


class Chains:
    """The contexts of the responses and conversations of one scenario, by id."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Message, ...]] = {}

    def followed(self, model_request: ParsedRequest) -> ParsedRequest:
        """Return a request with the complete context that it continues; raise WireInvalid."""
        return chained(model_request, self._known)

    def remember(
        self,
        protocol: Protocol,
        served: HttpResponse,
        model_request: ParsedRequest,
        message: Message,
    ) -> None:
        """Store the context that a later request may continue."""
        if not protocol.keeps_conversations:
            return
        whole = (*model_request.messages, message)
        identity = protocol.parse_response(served, model_request).id
        if identity:
            self._known[identity] = whole
        if is_conversation(model_request.previous):
            self._known[model_request.previous] = whole
