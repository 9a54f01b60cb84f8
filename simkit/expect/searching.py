"""Looking for a message in a context: what many contexts share is searched once."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from msgspec.structs import replace

from simkit.matching import Matcher
from simkit.messages import Message
from simkit.views import ContextView, MadePart, ShownPart


def first_match(context: ContextView, key: bytes, matcher: Matcher) -> Message | None:
    """Returns the first message of a context that matches, with its section.

    Of a message that several sections share, each piece is a message too. What a stream has
    settled is searched once for each pattern, however many contexts show it.
    """
    for part in context.parts:
        found = _in_made(part, matcher) if isinstance(part, MadePart) else (
            _in_shown(part, key, matcher)
        )  # fmt: skip
        if found is not None:
            return found
    for message in context.said:
        placed = replace(message, section="run")
        if matcher.holds(placed):
            return placed
    return None


def pieces_of(part: MadePart) -> Iterator[Message]:
    """Yields the parts of a message that several sections share, each as its section made it."""
    for piece in part.pieces:
        yield replace(part.message, content=piece.content, section=piece.section, data=None)


def _in_made(part: MadePart, matcher: Matcher) -> Message | None:
    if matcher.holds(part.message):
        return part.message
    return next((piece for piece in pieces_of(part) if matcher.holds(piece)), None)


def _in_shown(part: ShownPart, key: bytes, matcher: Matcher) -> Message | None:
    if part.rendered is not None:
        return part.rendered if matcher.holds(part.rendered) else None
    if part.summary is not None and matcher.holds(part.summary):
        return part.summary
    places = _places_in_stream(part, key, matcher)
    index = bisect_left(places, part.lo)
    if index < len(places) and places[index] < part.hi:
        return part.settled(places[index])
    offset = 1 if part.summary is not None else 0
    for place in range(max(part.hi, part.lo), part.hi + len(part.tail)):
        message = part.message(place - part.lo + offset)
        if matcher.holds(message):
            return message
    return None


def _places_in_stream(part: ShownPart, key: bytes, matcher: Matcher) -> list[int]:
    """The places of the stream that match, at least as far as this part shows them."""
    stream = part.stream
    memo_key = part.section.encode() + b"\0" + key
    searched, places = stream.found.get(memo_key, (0, []))
    if searched < part.hi:
        places.extend(
            place for place in range(searched, part.hi) if matcher.holds(part.settled(place))
        )
        stream.found[memo_key] = (part.hi, places)
    return places
