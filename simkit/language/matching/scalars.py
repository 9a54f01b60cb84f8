"""Equality with a scalar; of a message, with its content as it is written."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from simkit.language.matching.misses import Miss, Misses, Path
from simkit.language.matching.values import TEXT_KINDS, source_text, text_of


def scalar(expected: Any, at: Path) -> Misses:
    """Returns the matcher that holds of what is equal: ``1`` is ``1.0``, ``true`` is not ``1``."""
    is_bool = isinstance(expected, bool)
    source = source_text(expected)

    def misses(value: Any) -> Iterable[Miss]:
        if value == expected and (value.__class__ is bool) is is_bool:
            return ()
        if isinstance(value, TEXT_KINDS) and text_of(value) == source:
            return ()
        return (Miss((), at, "", expected, value),)

    return misses
