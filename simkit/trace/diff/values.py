"""Diffs of two lists and of two values: the paths at which they differ.

Lists are aligned, messages compared by content.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, Final, TypeAlias

import msgspec

from simkit.core.messages import ABSENT, Message
from simkit.language.paths import with_parts

# Alignment of two lists: the ranges that are equal, and the ranges between them
#
# Equal beginnings and ends are cut off first; items that occur once in both lists anchor the rest
# (patience diff, Bram Cohen), so that long lists cost little more than their length. Only short
# ranges without anchors are searched for every equal pair.


SEARCHED_MAX: Final = 10_000
"""The number of pairs up to which a range without anchors is searched for equal items."""
DEPTH_MAX: Final = 12
"""The depth up to which a range between anchors is searched for anchors of its own."""

Box: TypeAlias = tuple[int, int, int, int]
"""A range of each list: first, end, first, end."""


class Span(msgspec.Struct, frozen=True, gc=False):
    """Two ranges at the same place: equal item by item, or with nothing in common."""

    lo: int
    hi: int
    other_lo: int
    other_hi: int
    is_equal: bool


def aligned(left: Sequence[Hashable], right: Sequence[Hashable]) -> list[Span]:
    """Return the spans of both lists in order; equal and unequal ones alternate."""
    spans: list[Span] = []
    _align(left, right, (0, len(left), 0, len(right)), DEPTH_MAX, spans)
    return spans


def _align(
    left: Sequence[Hashable], right: Sequence[Hashable], box: Box, depth: int, spans: list[Span]
) -> None:
    first, hi, other_first, end = box
    lo, at = first, other_first
    while lo < hi and at < end and left[lo] == right[at]:
        lo, at = lo + 1, at + 1
    _add(spans, (first, lo, other_first, at), True)
    tail = 0
    while lo < hi and at < end and left[hi - 1] == right[end - 1]:
        hi, end, tail = hi - 1, end - 1, tail + 1
    anchors = _anchors(left, right, (lo, hi, at, end), depth)
    for size, start, other_start in anchors:
        if lo < start or at < other_start:
            _align(left, right, (lo, start, at, other_start), depth - 1, spans)
        lo, at = start + size, other_start + size
        _add(spans, (start, lo, other_start, at), True)
    if anchors:
        _align(left, right, (lo, hi, at, end), depth - 1, spans)
    else:
        _add(spans, (lo, hi, at, end), False)
    _add(spans, (hi, hi + tail, end, end + tail), True)


def _add(spans: list[Span], box: Box, is_equal: bool) -> None:
    lo, hi, other_lo, other_hi = box
    if lo == hi and other_lo == other_hi:
        return
    if spans and spans[-1].is_equal == is_equal:
        before = spans.pop()
        lo, other_lo = before.lo, before.other_lo
    spans.append(Span(lo, hi, other_lo, other_hi, is_equal))


def _anchors(
    left: Sequence[Hashable], right: Sequence[Hashable], box: Box, depth: int
) -> list[tuple[int, int, int]]:
    """Return equal ranges that anchor the alignment: size, left index, right index."""
    lo, hi, at, end = box
    if lo == hi or at == end or not depth:
        return []
    mine, its = Counter(left[lo:hi]), Counter(right[at:end])
    place_of = {right[index]: index for index in range(at, end) if its[right[index]] == 1}
    pairs = [
        (index, place_of[left[index]])
        for index in range(lo, hi)
        if mine[left[index]] == 1 and left[index] in place_of
    ]
    if pairs:
        return [(1, index, other_place) for index, other_place in _rising(pairs)]
    if (hi - lo) * (end - at) > SEARCHED_MAX:
        return []
    blocks = SequenceMatcher(None, left[lo:hi], right[at:end], autojunk=False).get_matching_blocks()
    return [(block.size, lo + block.a, at + block.b) for block in blocks if block.size]


def _rising(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest subsequence of pairs in which both indices rise.

    The first indices rise already.
    """
    ends: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for number, (_, index) in enumerate(pairs):
        length = bisect_left(ends, index)
        before.append(last[length - 1] if length else -1)
        ends[length : length + 1] = [index]
        last[length : length + 1] = [number]
    row = []
    number = last[-1]
    while number >= 0:
        row.append(pairs[number])
        number = before[number]
    return row[::-1]


# Values


_SERVED_ID: Final = re.compile(r"\b[a-z]+_(?=\d{24}\b)0*(\d+)")
"""A call id as a provider writes it in a text; the id in the trace is only the number."""
_ENCODE: Final = msgspec.json.Encoder(order="deterministic").encode


class Edit(msgspec.Struct, frozen=True, gc=False):
    """A path at which two values differ; a missing side is ABSENT."""

    at: str
    """``payload.km``, ``messages[2]``; for a removed item, its index in the first list."""
    left: Any
    right: Any


class ItemEdit(msgspec.Struct, frozen=True, gc=False):
    """A list item that was added (``left`` is None), removed (``right`` is None) or changed."""

    left: Mapping[str, Any] | None
    right: Mapping[str, Any] | None
    edits: tuple[Edit, ...] = ()


def in_own_ids(text: str) -> str:
    """Return a text in which the ids of calls are the trace's, not as a provider writes them."""
    return _SERVED_ID.sub(r"call\1", text)


def message_fields(message: Message) -> dict[str, Any]:
    """Return the content of a message, without its ids, its turn and its section."""
    fields: dict[str, Any] = {"role": message.role, "content": in_own_ids(message.content)}
    if message.agent and message.role != "system":  # Instructions have no speaker.
        fields["agent"] = message.agent
    if message.tool:
        fields["tool"] = message.tool
    if message.calls:
        fields["calls"] = [{call.name: plain(call.args)} for call in message.calls]
    return fields


def plain(value: Any, of_message: Callable[[Message], Any] = message_fields) -> Any:
    """Return a value as JSON; messages become their content, or what a function makes of them."""
    if isinstance(value, Message):
        return of_message(value)
    return with_parts(value, lambda part: plain(part, of_message))


def key_of(value: Any) -> bytes:
    """Return bytes that are equal for equal plain values, whatever the order of their keys."""
    return _ENCODE(value)


def edits(left: Any, right: Any, at: str = "") -> Iterator[Edit]:
    """Yield the paths at which two plain values differ."""
    if left is ABSENT or right is ABSENT:
        if left is not right:
            yield Edit(at, left, right)
    elif isinstance(left, dict) and isinstance(right, dict) and (left or right):
        for key in dict.fromkeys([*left, *right]):
            below = f"{at}.{key}" if at else str(key)
            yield from edits(left.get(key, ABSENT), right.get(key, ABSENT), below)
    elif isinstance(left, list) and isinstance(right, list):
        yield from _list_edits(left, right, at)
    elif key_of(left) != key_of(right):
        yield Edit(at, left, right)


def _list_edits(left: list[Any], right: list[Any], at: str) -> Iterator[Edit]:
    for span in aligned([key_of(item) for item in left], [key_of(item) for item in right]):
        if span.is_equal:
            continue
        pairs = min(span.hi - span.lo, span.other_hi - span.other_lo)
        for step in range(pairs):
            index = span.other_lo + step
            yield from edits(left[span.lo + step], right[index], f"{at}[{index}]")
        for index in range(span.lo + pairs, span.hi):
            yield Edit(f"{at}[{index}]", left[index], ABSENT)
        for index in range(span.other_lo + pairs, span.other_hi):
            yield Edit(f"{at}[{index}]", ABSENT, right[index])


def item_edits(
    before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]], same_by: Sequence[str]
) -> Iterator[ItemEdit]:
    """Yield the items of two lists that were added, removed or changed.

    Two items at the same place with equal values under the keys ``same_by`` are one changed item.
    """
    for span in aligned([key_of(item) for item in before], [key_of(item) for item in after]):
        if span.is_equal:
            continue
        mine, its = before[span.lo : span.hi], after[span.other_lo : span.other_hi]
        kind, its_kind = (
            [key_of([item.get(key) for key in same_by]) for item in row] for row in (mine, its)
        )
        for part in aligned(kind, its_kind):
            left, right = mine[part.lo : part.hi], its[part.other_lo : part.other_hi]
            if part.is_equal:
                for old, new in zip(left, right, strict=True):
                    yield ItemEdit(old, new, tuple(edits(dict(old), dict(new))))
            else:
                yield from (ItemEdit(old, None) for old in left)
                yield from (ItemEdit(None, new) for new in right)
