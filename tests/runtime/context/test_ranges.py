"""Places in a list, as ranges: each operation against the same on sets of places."""

from __future__ import annotations

from itertools import product

import pytest

from simkit.runtime.context.ranges import Ranges, clipped, common, ranges_of, size, without

SOME: list[set[int]] = [set(), {0}, {2}, {0, 1}, {0, 2, 3}, {1, 2, 3, 5}, {0, 1, 2, 3, 4, 5}]


def places(ranges: Ranges) -> set[int]:
    return {place for lo, hi in ranges for place in range(lo, hi)}


def test_places_in_a_row_are_one_range() -> None:
    assert ranges_of([5, 1, 0, 2, 7]) == [(0, 3), (5, 6), (7, 8)]


@pytest.mark.parametrize(("counts", "other"), list(product(SOME, SOME)))
def test_ranges_are_sets_of_places(counts: set[int], other: set[int]) -> None:
    some, others = ranges_of(counts), ranges_of(other)

    assert places(common(some, others)) == counts & other
    assert places(without(some, others)) == counts - other
    assert size(some) == len(counts)


@pytest.mark.parametrize("lo", range(7))
def test_ranges_are_clipped_at_both_ends(lo: int) -> None:
    some = {0, 2, 3, 5}

    for hi in range(lo, 7):
        assert places(clipped(ranges_of(some), lo, hi)) == some & set(range(lo, hi))
