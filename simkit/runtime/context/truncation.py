"""Truncation to a budget: lists keep their first items, texts their first characters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from simkit.core.messages import ABSENT, JsonValue
from simkit.language.yaml import SourcePath, path_text
from simkit.runtime.context.rendering import Loss, json_text

CHARACTERS_PER_ITEM: Final = 16
"""The number of characters of a text that are kept for each item of a list."""


def fitted(value: JsonValue, fits: Callable[[JsonValue], bool]) -> tuple[Any, list[Loss]]:
    """Return the largest part of a value that fits, and the losses; ABSENT if nothing fits.

    Every list is cut to its first n items and every text to its first 16·n characters, with the
    greatest n that fits; mappings keep all their keys, so that the result has the value's shape.
    """
    if fits(value):
        return value, []
    most, too_many = 0, _longest(value)
    while most + 1 < too_many:
        middle = (most + too_many) // 2
        if fits(_cut(value, middle, (), [])):
            most = middle
        else:
            too_many = middle
    losses: list[Loss] = []
    if most:
        return _cut(value, most, (), losses), losses
    return ABSENT, [Loss("", "tokens", characters=len(json_text(value)))]


def _longest(value: JsonValue) -> int:
    """Return the number of items at which nothing is cut."""
    if isinstance(value, str):
        return -(-len(value) // CHARACTERS_PER_ITEM)
    if isinstance(value, dict):
        return max(map(_longest, value.values()), default=0)
    if isinstance(value, list):
        return max(len(value), max(map(_longest, value), default=0))
    return 0


def _cut(value: JsonValue, most: int, at: SourcePath, losses: list[Loss]) -> JsonValue:
    """Return the value with every list cut to ``most`` items; ``losses`` collects the cuts."""
    if isinstance(value, str):
        cut = len(value) - most * CHARACTERS_PER_ITEM
        if cut <= 0:
            return value
        losses.append(Loss(path_text(at), "tokens", characters=cut))
        return value[:-cut]
    if isinstance(value, dict):
        return {key: _cut(inner, most, (*at, key), losses) for key, inner in value.items()}
    if isinstance(value, list):
        if len(value) > most:
            losses.append(Loss(path_text(at), "tokens", items=len(value) - most))
        return [_cut(inner, most, (*at, place), losses) for place, inner in enumerate(value[:most])]
    return value
