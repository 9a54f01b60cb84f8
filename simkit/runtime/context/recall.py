"""Recall: the items of channels that a section shows, and why it leaves out the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from functools import cached_property
from math import inf
from typing import Any, Final, NamedTuple, TypeAlias

from simkit.core.errors import MatcherError, WriteInvalid
from simkit.core.messages import Message
from simkit.language.json_schema import is_number
from simkit.language.matching import holds
from simkit.language.matching.misses import line
from simkit.runtime.context.rendering import Counter, Root, moment, text_form
from simkit.spec.pipeline.recipe import Recall
from simkit.trace.events import LeftOut
from simkit.trace.reducers import Appended

DAY: Final = timedelta(days=1)
REASONS: Final = ("scopes", "since_days", "time_ranges", "tags", "threshold", "max", "tokens")
"""Why an item is left out; of several reasons, the first one that holds."""

Span: TypeAlias = tuple[float, float]
"""Times from and to, both inclusive, in seconds."""


class RecallResult(NamedTuple):
    """The items that one call shows."""

    items: Sequence[tuple[str, int, Mapping[str, Any]]]
    """Channel, index in it, and the item, in the order of selection."""
    left_out: Sequence[LeftOut]


class Recaller:
    """One compiled ``recall``: selects items by scope, age, tags, score and budget."""

    def __init__(
        self,
        section: str,
        options: Recall,
        channels: Sequence[str],
        scopes: Mapping[str, str],
        count: Counter,
    ) -> None:
        """``scopes`` has each channel's scope; undeclared channels have the scope session."""
        self._section, self._options, self._count = section, options, count
        self._order = options.order or ("score" if options.top is not None else "newest_first")
        self._channels = {
            name: options.scopes is None or scopes.get(name, "session") in options.scopes
            for name in channels
        }

    def recall(self, root: Root, time_ranges: Any) -> RecallResult:
        """Return the selected items; ``time_ranges`` are the option's, with references resolved."""
        question = _Question(self._options, time_ranges, root["now"])
        query, items = _query(root), list[ContextItem]()
        left_out: dict[str, list[ContextItem]] = {by: [] for by in REASONS}
        for channel, is_in_scope in self._channels.items():
            for index, value in enumerate(_items_of(root["state"].get(channel))):
                item = ContextItem(channel, index, value, query)
                reason = question.reason_against(item) if is_in_scope else "scopes"
                (left_out[reason] if reason else items).append(item)
        for reason, rest in self._limited(items):
            left_out[reason] += rest
        return RecallResult(
            [(item.channel, item.index, item.fields) for item in items],
            [
                LeftOut(self._section, channel, by, places)
                for channel in self._channels
                for by, rest in left_out.items()
                if (places := ranges_of(item.index for item in rest if item.channel == channel))
            ],
        )

    def _limited(self, items: list[ContextItem]) -> Iterator[tuple[str, list[ContextItem]]]:
        """Sort items, and take those away for which there is no room; yield them."""
        options, names = self._options, [*self._channels]
        most = options.max if options.top is None else options.top
        if options.top is not None:
            items.sort(key=lambda item: item.rank("score", names))
            yield "max", _taken_from(items, options.top)
        items.sort(key=lambda item: item.rank(self._order, names))
        if most is not None:
            yield "max", _taken_from(items, most)
        if options.tokens is not None:
            budget, size = options.tokens, 0
            for item in items:
                budget -= self._count(text_form(item.fields.get("text", item.fields)))
                if budget < 0:
                    break
                size += 1
            yield "tokens", _taken_from(items, size)


def _taken_from(items: list[ContextItem], size: int) -> list[ContextItem]:
    """Cut a list to a size; return what was behind it."""
    rest = items[size:]
    del items[size:]
    return rest


def ranges_of(indices: Iterator[int]) -> tuple[tuple[int, int], ...]:
    """Return some indices as ranges: a fact about many consecutive items is stored once."""
    ranges: list[tuple[int, int]] = []
    for index in sorted(indices):
        if ranges and ranges[-1][1] == index:
            ranges[-1] = ranges[-1][0], index + 1
        else:
            ranges.append((index, index + 1))
    return tuple(ranges)


class ContextItem:
    """One item of a channel."""

    def __init__(self, channel: str, index: int, value: Any, query: str) -> None:
        """``index`` is its position in the channel; its score may depend on the query."""
        self.channel, self.index, self._query = channel, index, query
        self.fields = fields_of(value)
        at = moment(self.fields.get("at"))
        self.at = -inf if at is None else at.timestamp()
        """Its time in seconds; an item without one comes before all others."""

    @cached_property
    def score(self) -> float | None:
        """Its score; None if it has none."""
        return score_for(self.fields.get("score"), self._query)

    def rank(self, order: str, channels: Sequence[str]) -> tuple[float, int, int]:
        """Return the key by which it is sorted; of equal items those of the first channel win."""
        number = channels.index(self.channel)
        if order == "newest_first":
            return -self.at, number, -self.index
        return (self.at if order == "oldest_first" else -(self.score or 0.0)), number, self.index


def fields_of(value: Any) -> Mapping[str, Any]:
    """Return an item as a mapping; messages and texts become mappings."""
    if isinstance(value, Message):
        return {"text": value.content, "agent": value.agent}
    return value if isinstance(value, Mapping) else {"text": text_form(value)}


def score_for(score: Any, query: str) -> float | None:
    """Return a score: the number, or that of the first rule that holds; None if there is none."""
    if isinstance(score, str) or not isinstance(score, Sequence):
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


class _Question:
    """The options that concern each item alone."""

    def __init__(self, options: Recall, time_ranges: Any, now: str) -> None:
        self._options = options
        self._since: Span | None = None
        if options.since_days is not None:
            at = datetime.fromisoformat(now)
            self._since = _days_before(at, options.since_days), at.timestamp()
        ranges = [time_ranges] if isinstance(time_ranges, Mapping) else time_ranges or ()
        self._spans = [_span(each) for each in ranges]

    def reason_against(self, item: ContextItem) -> str:
        """Return why an item is not shown; empty if it may be."""
        options = self._options
        if self._since is not None and not _is_within(item.at, self._since):
            return "since_days"
        if self._spans and not any(_is_within(item.at, span) for span in self._spans):
            return "time_ranges"
        if options.tags is not None and not _has_one(item.fields.get("tags"), options.tags):
            return "tags"
        if options.threshold is None or (
            item.score is not None and item.score >= options.threshold
        ):
            return ""
        return "threshold"


def _has_one(tags: Any, tags_asked: Sequence[str]) -> bool:
    return any(tag in tags_asked for tag in ((tags,) if isinstance(tags, str) else tags or ()))


def _is_within(at: float, span: Span) -> bool:
    """Return whether a time is in a span; an item without one is in none."""
    return at > -inf and span[0] <= at <= span[1]


def _days_before(at: datetime, days: float) -> float:
    """Return a moment some days earlier; before the first year, the beginning of time."""
    try:
        return (at - days * DAY).timestamp()
    except OverflowError:
        return float("-inf")


def _span(time_range: Any) -> tuple[float, float]:
    start, end = _bound(time_range, "from", "start"), _bound(time_range, "to", "end")
    first, last = moment(start), moment(end)
    if last is not None and _is_date(end):
        # The last date has no next day.
        last = last.replace(hour=23, minute=59, second=59, microsecond=999_999)
    return (
        float("-inf") if first is None else first.timestamp(),
        float("inf") if last is None else last.timestamp(),
    )


def _bound(span: Any, *keys: str) -> Any:
    if not isinstance(span, Mapping):
        return None
    return next((span[key] for key in keys if span.get(key) is not None), None)


def _is_date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _items_of(value: Any) -> Sequence[Any]:
    if isinstance(value, (list, tuple, Appended)):
        return value
    return () if value is None else (value,)


def _query(root: Root) -> str:
    handoff = root.get("handoff")
    if handoff is not None and handoff.get("query"):
        return str(handoff["query"])
    return text_form(root["user"])
