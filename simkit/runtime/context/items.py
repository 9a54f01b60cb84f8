"""Items of channels: the times, tags and fixed scores that do not depend on a query."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final, TypeAlias

from simkit.core.errors import MatcherError, WriteInvalid
from simkit.core.messages import Message
from simkit.language.json_schema import is_number
from simkit.language.matching import holds
from simkit.language.matching.misses import line
from simkit.runtime.context.rendering import moment, text_form

# Ranges of indices, so that a fact about many consecutive items is stored once


Range: TypeAlias = tuple[int, int]
"""The first index, and the one after the last."""
Ranges: TypeAlias = Sequence[Range]
"""Disjoint ranges in ascending order."""


class Growing:
    """Ranges of indices that come in ascending order."""

    def __init__(self) -> None:
        self.ranges: list[Range] = []

    def add(self, place: int) -> None:
        """Add an index after all others."""
        ranges = self.ranges
        if ranges and ranges[-1][1] == place:
            ranges[-1] = ranges[-1][0], place + 1
        else:
            ranges.append((place, place + 1))


def ranges_of(places: Iterable[int]) -> Ranges:
    """Return the ranges of some indices."""
    growing = Growing()
    for place in sorted(places):
        growing.add(place)
    return growing.ranges


def clipped(ranges: Ranges, lo: int, hi: int) -> Ranges:
    """Return the parts of ranges from ``lo`` to before ``hi``; other ranges are skipped."""
    ranges_kept = []
    for at in range(bisect_right(ranges, lo, key=_end), len(ranges)):
        first, end = ranges[at]
        if first >= hi:
            break
        ranges_kept.append((max(first, lo), min(end, hi)))
    return ranges_kept


def _end(range: Range) -> int:
    return range[1]


def common(some: Ranges, others: Ranges) -> Ranges:
    """Return the intersection."""
    return [both for lo, hi in some for both in clipped(others, lo, hi)]


def without(some: Ranges, others: Ranges) -> Ranges:
    """Return the indices in ``some`` and not in ``others``."""
    left = []
    for lo, hi in some:
        for first, end in clipped(others, lo, hi):
            if lo < first:
                left.append((lo, first))
            lo = end
        if lo < hi:
            left.append((lo, hi))
    return left


def size(ranges: Ranges) -> int:
    """Return the number of indices."""
    return sum(hi - lo for lo, hi in ranges)


# Items


Spans: TypeAlias = Sequence[tuple[float, float]]
"""Times from and to, both inclusive, in seconds; disjoint, in ascending order."""

UNDATED: Final = float("-inf")
"""The time of an item without one: before all others."""
_FOREVER: Final = float("inf")


class ContextItem:
    """One item, parsed once."""

    def __init__(self, value: Any) -> None:
        self.fields = fields_of(value)
        at = moment(self.fields.get("at"))
        self.at = UNDATED if at is None else at.timestamp()
        score = self.fields.get("score")
        self.score: float | None = None
        """Its score; None if it has none, or one that depends on the query."""
        if score is not None and not is_judged(score):
            self.score = _number(score)
        self.size = -1
        """Its token count, once it was counted."""


def fields_of(value: Any) -> Mapping[str, Any]:
    """Return an item as a mapping; messages and texts become mappings."""
    if isinstance(value, Message):
        return {"text": value.content, "agent": value.agent}
    return value if isinstance(value, Mapping) else {"text": text_form(value)}


def is_judged(score: Any) -> bool:
    """Return whether a score consists of rules, so that it depends on the query."""
    return isinstance(score, Sequence) and not isinstance(score, str)


def score_for(score: Any, query: str) -> float | None:
    """Return a score: the number, or that of the first rule that holds; None if there is none."""
    if not is_judged(score):
        return None if score is None else _number(score)
    for rule in score:
        if not isinstance(rule, Mapping):
            raise _no_score(rule)
        try:
            is_met = rule.get("when") is None or holds(rule["when"], query)
        except MatcherError as problem:
            raise WriteInvalid(f"the `when` of an item's score: {problem}") from None
        if is_met:
            return _number(rule.get("score"))
    return None


def _number(score: Any) -> float:
    """Return a numeric score; an agent may have written anything."""
    if not is_number(score):
        raise _no_score(score)
    return float(score)


def _no_score(score: Any) -> WriteInvalid:
    return WriteInvalid(
        f"an item that is recalled has the score {line(score)}: a score is a number, or a list of "
        "`{when: …, score: …}`"
    )


class Times:
    """Indices of items in the order of their times."""

    def __init__(self) -> None:
        self._dated: list[tuple[float, int]] = []
        self._undated = Growing()
        self._in_order = True
        """Whether later items have later times, as in a channel that is written day by day."""

    def add(self, at: float, place: int) -> None:
        """Add an item after all others of its list."""
        dated = self._dated
        if at == UNDATED:
            self._undated.add(place)
        elif not dated or dated[-1][0] <= at:
            dated.append((at, place))
        else:
            insort(dated, (at, place))
            self._in_order = False

    def within(self, spans: Spans) -> Ranges:
        """Return the indices of the items in one of the spans."""
        dated = self._dated
        if not self._in_order:
            return ranges_of(place for row in self._rows(spans) for place in self._places(row))
        spans_found = [(dated[lo][1], dated[hi - 1][1] + 1) for lo, hi in self._rows(spans)]
        return without(spans_found, self._undated.ranges)

    def oldest_first(self, spans: Spans | None) -> Iterator[int]:
        """Yield indices by time, of these spans only; items without a time come first."""
        rows = chain.from_iterable(map(self._places, self._rows(spans)))
        return rows if spans is not None else chain(self._timeless(), rows)

    def newest_first(self, spans: Spans | None) -> Iterator[int]:
        """Yield the same indices in reverse order."""
        rows = chain.from_iterable(
            (self._dated[at][1] for at in range(hi - 1, lo - 1, -1))
            for lo, hi in reversed(self._rows(spans))
        )
        return rows if spans is not None else chain(rows, self._timeless(-1))

    def _rows(self, spans: Spans | None) -> list[Range]:
        """Return the non-empty ranges of the spans in the list of times."""
        dated = self._dated
        if spans is None:
            return [(0, len(dated))]
        rows = [
            (bisect_left(dated, (first, -1)), bisect_right(dated, (last, _FOREVER)))
            for first, last in spans
        ]
        return [(lo, hi) for lo, hi in rows if lo < hi]

    def _places(self, row: Range) -> Iterator[int]:
        return (self._dated[at][1] for at in range(*row))

    def _timeless(self, step: int = 1) -> Iterator[int]:
        for lo, hi in self._undated.ranges[::step]:
            yield from range(lo, hi)[::step]


class Index:
    """A channel's items, sorted for one section's options.

    It grows with its channel, so that a call costs its results, not the whole channel.
    """

    def __init__(
        self,
        anchor: Any,
        base: int,
        tags: Sequence[str] | None,
        threshold: float | None,
        by_score: bool,
    ) -> None:
        """``anchor`` is the list of the items; ``base`` is the first item's index."""
        self.anchor, self.base = anchor, base
        self._tags, self._threshold, self._by_score = tags, threshold, by_score
        self.items: list[ContextItem] = []
        self.times, self.fit = Times(), Times()
        """Times of all items, and of those that may be shown for any query."""
        self.ranked: list[tuple[float, int]] = []
        """The indices of the latter, best scores first."""
        self.untagged, self.below = Growing(), Growing()
        self.judged: list[int] = []
        """Indices of items with a score that depends on the query, if scores matter."""

    def __getitem__(self, place: int) -> ContextItem:
        return self.items[place - self.base]

    @property
    def end(self) -> int:
        """Return the index of the next item."""
        return self.base + len(self.items)

    def add(self, value: Any) -> None:
        """Add the next item."""
        item, place = ContextItem(value), self.end
        self.items.append(item)
        self.times.add(item.at, place)
        if self._tags is not None and not _has_one(item.fields.get("tags"), self._tags):
            self.untagged.add(place)
            return
        scores_matter = self._by_score or self._threshold is not None
        if scores_matter and is_judged(item.fields.get("score")):
            self.judged.append(place)
        elif self._threshold is not None and (item.score is None or item.score < self._threshold):
            self.below.add(place)
        else:
            self.fit.add(item.at, place)
            if self._by_score:
                insort(self.ranked, (-(item.score or 0.0), place))


def _has_one(tags: Any, tags_asked: Sequence[str]) -> bool:
    return any(tag in tags_asked for tag in ((tags,) if isinstance(tags, str) else tags or ()))
