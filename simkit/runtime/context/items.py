"""What is known of a channel's items whatever is asked: their times, tags and fixed scores."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final, TypeAlias

from simkit.core.errors import MatcherError, WriteInvalid
from simkit.core.messages import Message
from simkit.language.json_schema import is_number
from simkit.language.matching import holds
from simkit.language.matching.rendering import line
from simkit.runtime.context.ranges import Growing, Range, Ranges, ranges_of, without
from simkit.runtime.context.rendering import moment, text_form

Spans: TypeAlias = Sequence[tuple[float, float]]
"""Times from and to, both inclusive, in seconds; apart from each other, in ascending order."""

UNDATED: Final = float("-inf")
"""The time of an item that has none: before all others."""
_FOREVER: Final = float("inf")


class ContextItem:
    """One item, read once."""

    __slots__ = ("at", "fields", "score", "size")

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
        """Its tokens, once they have been counted."""


def fields_of(value: Any) -> Mapping[str, Any]:
    """Return an item as a mapping: a message or a text is one too."""
    if isinstance(value, Message):
        return {"text": value.content, "agent": value.agent}
    return value if isinstance(value, Mapping) else {"text": text_form(value)}


def is_judged(score: Any) -> bool:
    """Report whether a score is rules, hence another for every query."""
    return isinstance(score, Sequence) and not isinstance(score, str)


def score_for(score: Any, query: str) -> float | None:
    """Return a score: the number, or the first rule's that holds of the query; None if none."""
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
    """Return a score that is a number; what an agent has written may be anything."""
    if not is_number(score):
        raise _no_score(score)
    return float(score)


def _no_score(score: Any) -> WriteInvalid:
    return WriteInvalid(
        f"an item that is recalled has the score {line(score)}: a score is a number, or a list of "
        "`{when: …, score: …}`"
    )


class Times:
    """Places of items in the order of their times."""

    __slots__ = ("_dated", "_in_order", "_undated")

    def __init__(self) -> None:
        self._dated: list[tuple[float, int]] = []
        self._undated = Growing()
        self._in_order = True
        """Whether later places have later times, as in a channel that is written day by day."""

    def add(self, at: float, place: int) -> None:
        """Add an item behind all others of its list."""
        dated = self._dated
        if at == UNDATED:
            self._undated.add(place)
        elif not dated or dated[-1][0] <= at:
            dated.append((at, place))
        else:
            insort(dated, (at, place))
            self._in_order = False

    def within(self, spans: Spans) -> Ranges:
        """Return the places of what lies in one of the spans."""
        dated = self._dated
        if not self._in_order:
            return ranges_of(place for row in self._rows(spans) for place in self._places(row))
        spans_found = [(dated[lo][1], dated[hi - 1][1] + 1) for lo, hi in self._rows(spans)]
        return without(spans_found, self._undated.ranges)

    def oldest_first(self, spans: Spans | None) -> Iterator[int]:
        """Yield places by time and place, of these spans only; what has no time comes first."""
        rows = chain.from_iterable(map(self._places, self._rows(spans)))
        return rows if spans is not None else chain(self._timeless(), rows)

    def newest_first(self, spans: Spans | None) -> Iterator[int]:
        """Yield the same places the other way round."""
        rows = chain.from_iterable(
            (self._dated[at][1] for at in range(hi - 1, lo - 1, -1))
            for lo, hi in reversed(self._rows(spans))
        )
        return rows if spans is not None else chain(rows, self._timeless(-1))

    def _rows(self, spans: Spans | None) -> list[Range]:
        """Return where the spans lie in the list of times; those that hold nothing left out."""
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
    """A channel's items, sorted by what a section always asks of them.

    It grows with its channel, so a call costs what it shows and not what the channel holds.
    """

    __slots__ = (
        "_by_score", "_tags", "_threshold", "anchor", "base", "below", "fit", "items", "judged",
        "ranked", "times", "untagged",
    )  # fmt: skip

    def __init__(
        self,
        anchor: Any,
        base: int,
        tags: Sequence[str] | None,
        threshold: float | None,
        by_score: bool,
    ) -> None:
        """``anchor`` is a list whose items these are; ``base`` the first one's place."""
        self.anchor, self.base = anchor, base
        self._tags, self._threshold, self._by_score = tags, threshold, by_score
        self.items: list[ContextItem] = []
        self.times, self.fit = Times(), Times()
        """Of all items, and of those that may be shown whatever the query is."""
        self.ranked: list[tuple[float, int]] = []
        """The places of the same, the best score first."""
        self.untagged, self.below = Growing(), Growing()
        self.judged: list[int] = []
        """Places of items whose score depends on the query, where scores matter."""

    def __getitem__(self, place: int) -> ContextItem:
        return self.items[place - self.base]

    @property
    def end(self) -> int:
        """The place of the next item."""
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
