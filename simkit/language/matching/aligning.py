"""Alignment of two lists: pair expected with actual elements, as many as possible in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

W = TypeVar("W")

PAIRS_MAX: Final = 40_000
"""The number of pairs up to which the best alignment is computed."""


def aligned(
    expected: Sequence[W],
    actual: Sequence[Any],
    differs: Callable[[W, Any], bool],
    pairs_max: int = PAIRS_MAX,
) -> list[tuple[int, int]]:
    """Return the index pairs of an alignment: matching elements first, then those between."""
    low = 0
    while low < min(len(expected), len(actual)) and not differs(expected[low], actual[low]):
        low += 1
    left, right = len(expected), len(actual)
    while left > low and right > low and not differs(expected[left - 1], actual[right - 1]):
        left, right = left - 1, right - 1
    middle = list(_matching(expected[low:left], actual[low:right], differs, pairs_max))
    anchors = [*((low + a, low + b) for a, b in middle), (left, right)]
    pairs = [(place, place) for place in range(low)]
    a, b = low, low
    for next_a, next_b in anchors:
        pairs += zip(range(a, next_a), range(b, next_b), strict=False)
        if next_a < left:
            pairs.append((next_a, next_b))
        a, b = next_a + 1, next_b + 1
    return [*pairs, *zip(range(left, len(expected)), range(right, len(actual)), strict=True)]


def _matching(
    expected: Sequence[W], actual: Sequence[Any], differs: Callable[[W, Any], bool], pairs_max: int
) -> Iterator[tuple[int, int]]:
    """Yield the longest sequence of pairs that match, both rising."""
    rows, columns = len(expected), len(actual)
    if rows * columns > pairs_max:
        return
    fits = [[not differs(left, right) for right in actual] for left in expected]
    best = [[0] * (columns + 1) for _ in range(rows + 1)]
    for a in reversed(range(rows)):
        for b in reversed(range(columns)):
            step = best[a + 1][b + 1] + 1 if fits[a][b] else 0
            best[a][b] = max(step, best[a + 1][b], best[a][b + 1])
    a = b = 0
    while a < rows and b < columns:
        if fits[a][b] and best[a][b] == best[a + 1][b + 1] + 1:
            yield a, b
            a, b = a + 1, b + 1
        elif best[a + 1][b] >= best[a][b + 1]:
            a += 1
        else:
            b += 1
