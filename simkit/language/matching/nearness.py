"""Nearness of a value to a matcher: 0 is equal, 1 has nothing in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from simkit.core.patterns import late_pattern
from simkit.language.matching.misses import Miss
from simkit.language.matching.rendering import common_block
from simkit.language.matching.values import TEXT_KINDS, searched_text, source_text, text_of

FAR: Final = 0.75
"""The distance from which a value is not shown as near."""
_SHORT: Final = 40
"""The length up to which texts are compared by letters; longer ones are compared by words."""
_WORD: Final = late_pattern(r"\w+")
_PART: Final = ("$contains", "$starts", "$ends")


def distance(misses: Iterable[Miss]) -> float:
    """Return the distance of a value from a matcher, as the sum over its misses."""
    return sum(map(_distance, misses))


def _distance(miss: Miss) -> float:
    expected = _text(miss.operand)
    if expected is None or (miss.operator and miss.operator not in _PART):
        return 1.0
    if miss.path[-1:] == ("role",):
        return 1.0  # Roles with similar letters are not nearer to each other.
    if miss.operator:
        searched = searched_text(miss.actual)
        if searched is None:
            return 1.0
        return 1.0 - common_block(searched, expected)[1] / len(expected)
    actual = text_of(miss.actual) if isinstance(miss.actual, TEXT_KINDS) else _text(miss.actual)
    return 1.0 if actual is None else 1.0 - _likeness(expected, actual)


def _text(value: Any) -> str | None:
    """Return a scalar's text; None for other values."""
    if value is None or isinstance(value, bool):
        return None
    return source_text(value) if isinstance(value, (str, int, float)) else None


def _likeness(left: str, right: str) -> float:
    if max(len(left), len(right)) <= _SHORT:
        # Only what failed is compared with what was expected.
        from difflib import SequenceMatcher

        return SequenceMatcher(None, left, right, autojunk=False).ratio()
    words, others = Counter(_WORD.findall(left)), Counter(_WORD.findall(right))
    size = words.total() + others.total()
    return 2 * (words & others).total() / size if size else 0.0
