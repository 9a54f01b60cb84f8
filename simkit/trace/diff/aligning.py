"""Alignment of two lists: the ranges that are equal, and the ranges between them.

Equal beginnings and ends are cut off first; items that occur once in both lists anchor the rest
(patience diff, Bram Cohen), so that long lists cost little more than their length. Only short
ranges without anchors are searched for every equal pair.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Sequence
from difflib import SequenceMatcher
from typing import Final, TypeAlias

import msgspec

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
    for size, place, other_place in anchors:
        if lo < place or at < other_place:
            _align(left, right, (lo, place, at, other_place), depth - 1, spans)
        lo, at = place + size, other_place + size
        _add(spans, (place, lo, other_place, at), True)
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
    place_of = {right[place]: place for place in range(at, end) if its[right[place]] == 1}
    pairs = [
        (place, place_of[left[place]])
        for place in range(lo, hi)
        if mine[left[place]] == 1 and left[place] in place_of
    ]
    if pairs:
        return [(1, place, other_place) for place, other_place in _rising(pairs)]
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
    for number, (_, place) in enumerate(pairs):
        length = bisect_left(ends, place)
        before.append(last[length - 1] if length else -1)
        ends[length : length + 1] = [place]
        last[length : length + 1] = [number]
    row = []
    number = last[-1]
    while number >= 0:
        row.append(pairs[number])
        number = before[number]
    return row[::-1]
