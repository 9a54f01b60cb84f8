"""Search for messages in contexts; parts that many contexts share are searched once."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec.structs import replace

from simkit.core.messages import Message
from simkit.language.matching import Matcher
from simkit.language.paths import walk
from simkit.trace.views import ContextView, HistoryView, InlinePart, StreamView, pieces_of

NEW: Final = 8
"""The number of settled messages that are searched with the current turn's."""
ALTERNATIVES: Final = ("$either", "$in", "$not", "$ne", "$each")
"""Operators that may hold although a text inside them does not occur."""


class _Query:
    """A matcher, with what a search must know of it."""

    def __init__(self, matcher: Matcher) -> None:
        self.matcher, self.holds = matcher, matcher.holds
        self.is_of_sections = "section" in str(matcher.source)
        """Whether it may ask for a message's section; else messages need not get theirs."""

    def test_in(self, section: str) -> Callable[[Message], bool]:
        """Return the test of logged messages that a section shows."""
        if not self.is_of_sections:
            return self.holds
        return lambda message: self.holds(replace(message, section=section))


class Search:
    """A search for messages; the settled part of a stream is searched once for each pattern."""

    def __init__(self) -> None:
        self._streams: dict[StreamView, _Stream] = {}
        self._queries: dict[Matcher, _Query] = {}

    def first(self, context: ContextView, matcher: Matcher) -> Message | None:
        """Return the first message of a context that matches, with its section.

        Of a shared message, each piece is a message too.
        """
        if context.named is not None and names_section(matcher.source):
            # The pipeline's file assigns the section: the parts of the context do not show it.
            return next(
                (message_ for message_ in context.sectioned() if matcher.holds(message_)), None
            )
        query = self._ready(matcher)
        for part in context.parts:
            match = (
                _in_made(part, query) if type(part) is InlinePart else self._in_shown(part, query)
            )
            if match is not None:
                return match
        for message in context.own_messages:
            placed = replace(message, section="run")
            if matcher.holds(placed):
                return placed
        return None

    def occurs(self, context: ContextView, matcher: Matcher) -> bool:
        """Return whether some message of a context matches.

        New messages are searched before settled ones: most claims concern their own turn, and a
        claim with new words in each turn must not search everything said before.
        """
        if context.named is not None and names_section(matcher.source):
            return any(matcher.holds(message_) for message_ in context.sectioned())
        query = self._ready(matcher)
        for message in context.own_messages:
            if matcher.holds(replace(message, section="run")):
                return True
        for part in context.parts:
            if type(part) is InlinePart and _in_made(part, query) is not None:
                return True
        shown_parts = [part for part in context.parts if type(part) is HistoryView]
        if any(_in_newest(part, query) for part in shown_parts if part.rendered is None):
            return True
        return any(self._in_shown(part, query) is not None for part in shown_parts)

    def _ready(self, matcher: Matcher) -> _Query:
        if matcher not in self._queries:
            self._queries[matcher] = _Query(matcher)
        return self._queries[matcher]

    def _in_shown(self, part: HistoryView, query: _Query) -> Message | None:
        if part.rendered is not None:
            return part.rendered if query.holds(part.rendered) else None
        if part.summary is not None and query.holds(part.summary):
            return part.summary
        if part.stream not in self._streams:
            self._streams[part.stream] = _Stream(part.stream)
        indices = self._streams[part.stream].matches(part, query)
        first = bisect_left(indices, part.lo)
        if first < len(indices) and indices[first] < part.hi:
            return part.settled(indices[first])
        test = query.test_in(part.section)
        for message in part.tail[max(0, part.lo - part.hi) :]:
            if test(message):
                return replace(message, section=part.section)
        return None


def names_section(matcher: Any) -> bool:
    """Return whether a matcher of messages mentions their section."""
    if "section" not in str(matcher):
        return False
    if isinstance(matcher, Mapping):
        return any(
            key == "section" or (key.startswith("$") and names_section(inner))
            for key, inner in matcher.items()
        )
    return isinstance(matcher, (list, tuple)) and any(names_section(element) for element in matcher)


def _in_made(part: InlinePart, query: _Query) -> Message | None:
    if part.pieces:
        for piece in pieces_of(part):
            if query.holds(piece):
                return piece
    return part.message if query.holds(part.message) else None


def _in_newest(part: HistoryView, query: _Query) -> bool:
    """Return whether one of a part's newest messages matches."""
    test, end = query.test_in(part.section), part.hi + len(part.tail)
    newest = range(end - 1, max(part.lo, part.hi - NEW) - 1, -1)
    return any(test(part.entry(index)) for index in newest)


class _Stream:
    """The searches of one stream: each of its messages is tried once for each pattern."""

    def __init__(self, stream: StreamView) -> None:
        self._entries = stream.entries
        self._searches: dict[tuple[str, Matcher], tuple[int, list[int]]] = {}
        """Section and pattern to the index up to which it was searched, and the matches."""

    def matches(self, part: HistoryView, query: _Query) -> list[int]:
        """Return the matching indices in order, at least as far as a part shows them."""
        memo = part.section, query.matcher
        searched, indices = self._searches.get(memo, (0, []))
        if searched < part.hi:
            test, entries = query.test_in(part.section), self._entries
            indices += [index for index in range(searched, part.hi) if test(entries[index])]
            self._searches[memo] = (part.hi, indices)
        return indices


def has_alternatives(matcher: Any) -> bool:
    """Return whether a matcher may hold although a text inside it does not occur."""
    return any(path[-1] in ALTERNATIVES for path, _ in walk(matcher) if path)
