"""What providers send beside text and calls, as far as it is the same for all of them.

Streams are made from the whole body, so whatever is merged into that is in them, too.
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
    """Return a body with what ``raw`` has: mappings key by key, lists item by item.

    Raises WireInvalid where the one is a mapping or a list and the other is none.
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
    """Return a response's body with what the reply's ``raw`` adds to it."""
    merged_body: dict[str, Any] = merged(body, reply.extras.raw or {})
    return merged_body


def tokens_of(reply: OutgoingReply) -> Sequence[Token]:
    """Return the tokens of a text: as they are scripted, else its words, each certain."""
    if reply.extras.logprobs:
        return reply.extras.logprobs
    return [Token(word, 0.0) for word in _WORDS.findall(reply.message.content)]


def expect_asked(reply: OutgoingReply, is_asked: bool, how: str) -> bool:
    """Return whether probabilities are asked for; raise WireInvalid where a script has some."""
    if reply.extras.logprobs and not is_asked:
        raise WordUnasked(f"the request does not ask for them, with {how}", "logprobs")
    return is_asked


def shares(items: Sequence[Any], texts: Sequence[str], pieces: Sequence[str]) -> Iterator[Any]:
    """Yield, for each piece of a text, those items whose own text begins in it."""
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
    """Return the signature of a thought, made up where the script has none."""
    return thinking.signature or encoded(serial)


def encoded(text: str) -> str:
    """Return what stands where a provider sends something opaque: the same for the same."""
    return b64encode(f"simkit {text}".encode()).decode()


def queries(citations: Sequence[Citation]) -> dict[str, list[Citation]]:
    """Return what was searched for, each with the pages that were found, in order."""
    by_query: dict[str, list[Citation]] = {}
    for citation in citations:
        pages = by_query.setdefault(citation.query, [])
        if all(page.url != citation.url for page in pages):
            pages.append(citation)
    return by_query
