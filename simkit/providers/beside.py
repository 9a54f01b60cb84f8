"""Extras of responses beside text and calls, as far as all providers share them.

Streams are made from the whole body, so they contain everything that is merged into it.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from simkit.core.errors import WireInvalid, WordUnasked
from simkit.core.messages import Citation, JsonValue, Thinking, Token
from simkit.providers.values import OutgoingReply

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
            merged(left, right, f"{at}[{place}]")
            for place, (left, right) in enumerate(zip(body, raw, strict=False))
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


def expect_asked(reply: OutgoingReply, is_asked: bool, how: str) -> bool:
    """Return whether the request asks for probabilities.

    Raise WireInvalid if it does not and the script gives some.
    """
    if reply.extras.logprobs and not is_asked:
        raise WordUnasked(f"the request does not ask for them, with {how}", "logprobs")
    return is_asked


def shares(items: Sequence[Any], texts: Sequence[str], pieces: Sequence[str]) -> Iterator[Any]:
    """Yield, for each piece of a text, the items whose own text begins in it."""
    place, begins, ends = 0, 0, 0
    for number, piece in enumerate(pieces):
        ends += len(piece)
        share = []
        while place < len(items) and (begins < ends or number == len(pieces) - 1):
            share.append(items[place])
            begins += len(texts[place])
            place += 1
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
