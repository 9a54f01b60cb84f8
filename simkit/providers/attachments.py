"""Attachments and other parts of a message beside its text, and their keys in ``data``.

The keys are the same for every protocol, so that one claim fits all of them::

    parts:      images, documents and files, by reference: an address, or the digest of inline
                bytes; the content shows each as ``[image …]``
    reasoning:  the model's reasoning, as the provider's own parts
    items:      actions of tools that the provider runs, as the provider's own parts
    refusal:    the text in which the model refused; it is the content too
    is_error:   a tool's result is an error
    value:      the text parsed as JSON, if there is also one of the others

A message with none of these whose text is a JSON object or list has that value as its ``data``.
"""

from __future__ import annotations

import binascii
import hashlib
import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, takewhile
from typing import Any, Final, TypeAlias

import msgspec

from simkit.core.errors import WireInvalid, WordUnasked
from simkit.core.messages import REASONING as REASONING
from simkit.core.messages import Citation, JsonValue, Message, Thinking, Token, as_json
from simkit.providers.http import HttpResponse
from simkit.providers.values import OutgoingReply, ParsedRequest, Protocol

Extras: TypeAlias = dict[str, Any]

PARTS: Final = "parts"
ITEMS: Final = "items"
REFUSAL: Final = "refusal"
IS_ERROR: Final = "is_error"

_DIGITS: Final = 12


def inline(kind: str, encoded: str, media_type: str, name: str = "") -> Extras:
    """Return a part with its bytes in the request; their digest identifies it."""
    try:
        content = b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        content = encoded.encode()
    digest = hashlib.sha256(content).hexdigest()
    return _named({"type": kind, "sha256": digest, "media_type": media_type}, name)


def linked(kind: str, source: str, media_type: str = "", name: str = "") -> Extras:
    """Return a part that the request names by its address or id."""
    part = {"type": kind, "url" if "://" in source else "id": source}
    if media_type:
        part["media_type"] = media_type
    return _named(part, name)


def _named(part: Extras, name: str) -> Extras:
    return {**part, "name": name} if name else part


def placeholder(part: Mapping[str, Any]) -> str:
    """Return the text that stands for a part: ``[image https://…]``, ``[document report.pdf]``."""
    source = part.get("url") or part.get("id") or part.get("name") or ""
    if not source and "sha256" in part:
        source = f"sha256:{part['sha256'][:_DIGITS]}"
    return (
        f"[{part['type']} {source}]" if isinstance(source, str) and source else f"[{part['type']}]"
    )


def added(extras: Extras, key: str, item: JsonValue) -> None:
    """Append an item to the list under a key of the extras."""
    extras.setdefault(key, []).append(item)


def data_of(text: str, extras: Extras) -> JsonValue:
    """Return the ``data`` of an assistant's or a tool's message."""
    value = as_json(text)
    if not extras or value is None:
        return extras or value
    return {"value": value, **extras}


def explained(message: Message, why: str) -> Message:
    """Return a message in which the model refused: without another text, it says why."""
    if not why or message.content:
        return message
    return msgspec.structs.replace(message, content=why, data={REFUSAL: why})


def is_failed(message: Message) -> bool:
    """Return whether a tool's message is a failure, by its provider's marker."""
    data = message.data
    is_marked = isinstance(data, dict) and data.get(IS_ERROR) is True
    return is_marked and data != as_json(message.content)


def results_grouped(messages: Iterable[Message]) -> Iterator[list[Message]]:
    """Yield consecutive tool results together, as providers require; any other message alone."""
    for is_result, group in groupby(messages, lambda message: message.role == "tool"):
        together = list(group)
        yield from [together] if is_result else ([message] for message in together)


def instructions_apart(messages: Sequence[Message]) -> tuple[list[str], Sequence[Message]]:
    """Return the texts of the system messages at the front, and the messages after them."""
    front = list(takewhile(lambda message: message.role == "system", messages))
    return [message.content for message in front if message.content], messages[len(front) :]


def parts_in(message: Message, key: str) -> list[Mapping[str, Any]]:
    """Return the provider's own parts under a key of an assistant's message.

    A structured reply may itself have a field such as ``reasoning``; its text shows that.
    """
    data = message.data
    if not isinstance(data, Mapping) or as_json(message.content) == data:
        return []
    items = data.get(key)
    return [item for item in items if isinstance(item, Mapping)] if isinstance(items, list) else []


# Extras of responses beside text and calls, as far as all providers share them


_WORDS: Final = re.compile(r"\s*\S+|\s+$")


def merged(body: JsonValue, raw: JsonValue, at: str = "raw") -> Any:
    """Return a body with ``raw`` merged in: mappings key by key, lists item by item.

    Raise WireInvalid if only one of the two is a mapping, or a list.
    """
    if isinstance(body, Mapping) and isinstance(raw, Mapping):
        new = {key: merged(body.get(key), value, f"{at}.{key}") for key, value in raw.items()}
        return {**body, **new}
    if isinstance(body, (list, tuple)) and isinstance(raw, (list, tuple)):
        both = [
            merged(left, right, f"{at}[{index}]")
            for index, (left, right) in enumerate(zip(body, raw, strict=False))
        ]
        return [*both, *body[len(raw) :], *raw[len(body) :]]
    if isinstance(body, (Mapping, list, tuple)):
        kind = "an object" if isinstance(body, Mapping) else "a list"
        raise WireInvalid(f"is {kind} in the response, so nothing else can be merged", at)
    return raw


def with_raw(body: dict[str, Any], reply: OutgoingReply) -> dict[str, Any]:
    """Return a response's body with the reply's ``raw`` merged in."""
    merged_body: dict[str, Any] = merged(body, reply.extras.raw or {})
    return merged_body


def tokens_of(reply: OutgoingReply) -> Sequence[Token]:
    """Return the tokens of a text: the scripted ones, else its words, each with probability 1."""
    if reply.extras.logprobs:
        return reply.extras.logprobs
    return [Token(word, 0.0) for word in _WORDS.findall(reply.message.content)]


def likeliest(token: Token, top: JsonValue) -> list[tuple[str, float]]:
    """Return as many alternatives at a token's place as a request asks for, itself included."""
    alike = sorted((*token.others, (token.text, token.logprob)), key=lambda row: -row[1])
    return alike[: top if isinstance(top, int) else 0]


def expect_asked(reply: OutgoingReply, is_asked: bool, how: str) -> bool:
    """Return whether the request asks for probabilities.

    Raise WireInvalid if it does not and the script gives some.
    """
    if reply.extras.logprobs and not is_asked:
        raise WordUnasked(f"the request does not ask for them, with {how}", "logprobs")
    return is_asked


def expect_none(reply: OutgoingReply, of: str, *words: str) -> None:
    """Raise WireInvalid if the script gives extras that a provider does not send."""
    for word in words:
        if getattr(reply.extras, word):
            raise WireInvalid(f"{of} have no {word}", word)


def shares(items: Sequence[Any], texts: Sequence[str], pieces: Sequence[str]) -> Iterator[Any]:
    """Yield, for each piece of a text, the items whose own text begins in it."""
    index, begins, ends = 0, 0, 0
    for number, piece in enumerate(pieces):
        ends += len(piece)
        share = []
        while index < len(items) and (begins < ends or number == len(pieces) - 1):
            share.append(items[index])
            begins += len(texts[index])
            index += 1
        yield share


def signature_of(thinking: Thinking, serial: str) -> str:
    """Return the signature of a thought, generated if the script gives none."""
    return thinking.signature or encoded(serial)


def encoded(text: str) -> str:
    """Return an opaque value for a text; equal texts give equal values."""
    return b64encode(f"simkit {text}".encode()).decode()


def queries(citations: Sequence[Citation]) -> dict[str, list[Citation]]:
    """Return the search queries in order, each with the pages found."""
    by_query: dict[str, list[Citation]] = {}
    for citation in citations:
        pages = by_query.setdefault(citation.query, [])
        if all(page.url != citation.url for page in pages):
            pages.append(citation)
    return by_query


# Chains: requests that continue an earlier response, and their complete contexts
#
# OpenAI's Responses give `previous_response_id`, name a `conversation` that the provider keeps, or
# name single items of earlier replies by id; Anthropic's messages continue a `thread`.


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
    return msgspec.structs.replace(request, messages=(*own, *_named_conversation([*before, *new])))


def is_conversation(previous: str) -> bool:
    """Return whether a request continues a conversation, which begins empty."""
    return previous.startswith("conv_")


def _named_conversation(messages: Sequence[Message]) -> Iterator[Message]:
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
    index = int(match["place"] or match["call"] or 0)
    if index >= len(items):
        raise WireInvalid(f"no item {item_id!r} was served in this session", "input")
    if match["called"]:
        return msgspec.structs.replace(now, calls=(*now.calls, reply.calls[index]))
    thoughts = [*parts_in(now, REASONING), items[index]]
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
