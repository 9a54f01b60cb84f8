"""Recall: the items of channels that a section shows, and why it leaves out the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from heapq import merge
from itertools import islice
from typing import Any, Final, NamedTuple, TypeAlias

from simkit.runtime.context.items import (
    ContextItem,
    Index,
    Ranges,
    Spans,
    clipped,
    common,
    ranges_of,
    score_for,
    size,
    without,
)
from simkit.runtime.context.rendering import Counter, Root, moment, text_form
from simkit.spec.pipeline.recipe import Recall
from simkit.trace.events import LeftOut
from simkit.trace.reducers import Appended

DAY: Final = timedelta(days=1)
_INDEXES_MAX: Final = 16
"""The number of lists that a section keeps sorted: one for each channel of each session."""

Ranked: TypeAlias = tuple[float, int, int]
"""The sort key of items: time or score, the channel's index in ``from``, the item's index; times
and indices are negative if the newest come first."""


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
        self._by_score = options.top is not None or options.order == "score"
        self._channels = {
            name: options.scopes is None or scopes.get(name, "session") in options.scopes
            for name in channels
        }
        self._indexes: dict[tuple[str, int], Index] = {}

    def recall(self, root: Root, time_ranges: Any) -> RecallResult:
        """Return the selected items; ``time_ranges`` are the option's, with references resolved."""
        options = self._options
        spans = _Spans(options.since_days, time_ranges, root["now"])
        query = _query(root)
        pools: list[_Pool] = []
        for channel, is_in_scope in self._channels.items():
            items = _items_of(root["state"].get(channel))
            pool = _Pool(channel, len(pools), *self._indexed(channel, items))
            pools.append(pool)
            if is_in_scope:
                pool.ask(options, spans, query)
            else:
                pool.keep("scopes", ())
        items = self._chosen(pools)
        left_out = [
            LeftOut(self._section, pool.channel, by, tuple(places))
            for pool in pools
            for by, places in pool.refused
        ]
        return RecallResult(items, left_out)

    def _indexed(self, channel: str, items: Sequence[Any]) -> tuple[Index, int, int]:
        """Return the channel's index, with the first and last index of its items."""
        known = items if isinstance(items, Appended) else None
        start = 0 if known is None else known.start
        key = channel, id(items) if known is None else known.family
        index = self._indexes.pop(key, None)
        if index is None or index.base > start:
            index = Index(items, start, self._options.tags, self._options.threshold, self._by_score)
        self._indexes[key] = index
        if len(self._indexes) > _INDEXES_MAX:
            del self._indexes[next(iter(self._indexes))]
        end = start + len(items)
        for place in range(index.end, end):
            index.add(items[place - start])
        return index, start, end

    def _chosen(self, pools: Sequence[_Pool]) -> Sequence[tuple[str, int, Mapping[str, Any]]]:
        """Take the items in order until the maximum or the budget is reached."""
        options = self._options
        order = options.order or ("score" if options.top is not None else "newest_first")
        walk: Iterator[Ranked]
        if options.top is not None:
            best = islice(_walked(pools, "score"), options.top)
            walk = iter(sorted(pools[n].ranked(order, abs(place)) for _, n, place in best))
        else:
            walk = _walked(pools, order)
        most = options.max if options.top is None else options.top
        if most is not None and sum(size(pool.open) for pool in pools) > most:
            first_rows = list(islice(walk, most))
            _keep(pools, "max", first_rows)
            walk = iter(first_rows)
        rows_shown = list(self._within_budget(pools, walk))
        _keep(pools, "tokens", rows_shown)
        return [pools[n].entry_at(abs(place)) for _, n, place in rows_shown]

    def _within_budget(self, pools: Sequence[_Pool], walk: Iterator[Ranked]) -> Iterator[Ranked]:
        left = self._options.tokens
        for ranked in walk:
            if left is not None:
                item = pools[ranked[1]].item(abs(ranked[2]))
                if item.size < 0:
                    item.size = self._count(text_form(item.fields.get("text", item.fields)))
                left -= item.size
                if left < 0:
                    return
            yield ranked


def _keep(pools: Sequence[_Pool], by: str, ranked: Iterable[Ranked]) -> None:
    places: list[list[int]] = [[] for _ in pools]
    for _, number, place in ranked:
        places[number].append(abs(place))
    for pool, mine in zip(pools, places, strict=True):
        pool.keep(by, ranges_of(mine))


def _walked(pools: Sequence[_Pool], order: str) -> Iterator[Ranked]:
    return merge(*(pool.walked(order) for pool in pools))


class _Pool:
    """The items of one channel that one call may show."""

    def __init__(self, channel: str, number: int, index: Index, start: int, end: int) -> None:
        """The channel's items are those of its index from ``start`` to before ``end``."""
        self.channel, self._number, self._index = channel, number, index
        self._start, self._end = start, end
        self.open: Ranges = [(start, end)] if start < end else []
        """The items that no option has excluded."""
        self.refused: list[tuple[str, list[tuple[int, int]]]] = []
        """Reasons and indices in the channel."""
        self._spans: Spans | None = None
        self._scores: dict[int, float] = {}
        self._passing_ranges: list[int] = []

    def keep(self, by: str, ranges: Ranges) -> None:
        """Exclude all other items, for the reason ``by``."""
        refused = without(self.open, ranges)
        if refused:
            start = self._start
            self.refused.append((by, [(lo - start, hi - start) for lo, hi in refused]))
            self.open = ranges

    def ask(self, options: Recall, spans: _Spans, query: str) -> None:
        """Apply all options except the maximum and the budget."""
        index = self._index
        self._spans = spans.all
        # Old items are excluded first, as one range, whatever their tags.
        if spans.since is not None:
            self.keep("since_days", common(self.open, index.times.within(spans.since)))
        if spans.ranges is not None:
            self.keep("time_ranges", common(self.open, index.times.within(spans.ranges)))
        if options.tags is not None:
            self.keep("tags", without(self.open, index.untagged.ranges))
        failing: list[int] = []
        for place in index.judged:
            if not clipped(self.open, place, place + 1):
                continue
            score = score_for(index[place].fields["score"], query)
            self._scores[place] = score or 0.0
            is_below = score is None or score < (options.threshold or 0.0)
            (
                failing if options.threshold is not None and is_below else self._passing_ranges
            ).append(place)
        if options.threshold is not None:
            passing_ranges = without(without(self.open, index.below.ranges), ranges_of(failing))
            self.keep("threshold", passing_ranges)

    def walked(self, order: str) -> Iterator[Ranked]:
        """Yield the remaining items lazily, in order."""
        if not self.open:
            return iter(())
        places: Iterable[int]
        fit, spans = self._index.fit, self._spans
        if order == "newest_first":
            places = fit.newest_first(spans)
        elif order == "oldest_first":
            places = fit.oldest_first(spans)
        elif spans is None:
            places = (place for _, place in self._index.ranked)
        else:
            places = sorted(fit.oldest_first(spans), key=lambda place_: self.ranked(order, place_))
        fixed = (self.ranked(order, p) for p in places if self._start <= p < self._end)
        return merge(fixed, sorted(self.ranked(order, place) for place in self._passing_ranges))

    def ranked(self, order: str, place: int) -> Ranked:
        """Return the sort key of an item."""
        item = self._index[place]
        if order == "newest_first":
            return -item.at, self._number, -place
        if order == "oldest_first":
            return item.at, self._number, place
        return -self._scores.get(place, item.score or 0.0), self._number, place

    def item(self, place: int) -> ContextItem:
        """Return the item at an index."""
        return self._index[place]

    def entry_at(self, place: int) -> tuple[str, int, Mapping[str, Any]]:
        """Return channel, index in it, and item."""
        return self.channel, place - self._start, self._index[place].fields


class _Spans:
    """The requested times: None is any time, or no time."""

    def __init__(self, since_days: int | None, time_ranges: Any, now: str) -> None:
        self.since: Spans | None = None
        self.ranges: Spans | None = None
        if since_days is not None:
            at = datetime.fromisoformat(now)
            self.since = [(_days_before(at, since_days), at.timestamp())]
        if isinstance(time_ranges, Mapping):
            time_ranges = [time_ranges]
        if time_ranges:
            self.ranges = _joined(_span(range) for range in time_ranges)
        self.all = self.since if self.ranges is None else self.ranges
        if self.since is not None and self.ranges is not None:
            ((first, last),) = self.since
            both = [(max(first, lo), min(last, hi)) for lo, hi in self.ranges]
            self.all = [(lo, hi) for lo, hi in both if lo <= hi]


def _joined(spans: Iterable[tuple[float, float]]) -> Spans:
    joined: list[tuple[float, float]] = []
    for first, last in sorted(span for span in spans if span[0] <= span[1]):
        if joined and first <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], last)
        else:
            joined.append((first, last))
    return joined


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
