"""Ranges of indices, so that a fact about many consecutive items is stored once."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import TypeAlias

Range: TypeAlias = tuple[int, int]
"""The first index, and the one after the last."""
Ranges: TypeAlias = Sequence[Range]
"""Disjoint ranges in ascending order."""


class Growing:
    """Ranges of indices that come in ascending order."""

    __slots__ = ("ranges",)

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
