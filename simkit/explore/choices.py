"""Choices of one conversation: numbers, drawn beforehand, that decide what happens.

Nothing is drawn while the pipeline runs: its code may catch any exception and start any thread. One
number decides everything about one answer, digit by digit. A choice beyond the last digit is 0, the
simplest option, so that fewer and smaller numbers always mean a simpler conversation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

import msgspec

T = TypeVar("T")
ODDS: Final = 10_000
"""The number of values of a number that decides whether something rare happens."""


class TurnPlan(msgspec.Struct, frozen=True):
    """The numbers of one turn."""

    user: int = 0
    """It decides which user speaks, and what it says."""
    answers: tuple[int, ...] = ()
    """They decide what the models answer, call by call."""
    results: tuple[int, ...] = ()
    """They decide what the tools return, call by call."""
    rare: tuple[int, ...] = ()
    """They decide whether something rare happens: in the turn, then call by call of the models."""


class Plan(msgspec.Struct, frozen=True):
    """The numbers of one conversation."""

    turns: tuple[TurnPlan, ...] = ()
    personas: int = 0
    """It decides who the users are."""
    enabled: tuple[bool, ...] = ()
    """Whether each of the rare things may happen at all: all of them at once hide each other."""


class Choices:
    """The digits of a number, used one after the other."""

    def __init__(self, number: int = 0) -> None:
        self._number = number

    def below(self, count: int) -> int:
        """Return a number from 0 to ``count`` - 1; 0 when no digit is left."""
        self._number, digit = divmod(self._number, count)
        return digit

    def one_of(self, options: Sequence[T]) -> T:
        """Return one of the options, of which the first is the simplest."""
        return options[self.below(len(options))]

    def weighted(self, weights: Mapping[T, int] | Sequence[tuple[T, int]]) -> T:
        """Return one of the options, each as often as its weight says."""
        pairs = [*weights.items()] if isinstance(weights, Mapping) else [*weights]
        place = self.below(sum(weight for _, weight in pairs))
        for option, weight in pairs:
            place -= weight
            if place < 0:
                return option
        raise AssertionError("the weights are more than their sum")


def rare(number: int, shares: Mapping[str, float]) -> str:
    """Return which of the rare things happens; empty for none.

    ``number`` is below `ODDS`; 0 means that nothing happens, and so do small numbers.
    """
    if number == 0:
        return ""
    left = ODDS - number
    for name, share in shares.items():
        left -= round(share * ODDS)
        if left <= 0:
            return name
    return ""
