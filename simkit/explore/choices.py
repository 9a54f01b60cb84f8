"""Choices of one conversation: small numbers, drawn beforehand, that decide what happens.

Nothing is drawn while the pipeline runs: its code may catch any exception and start any thread. A
choice beyond the last number is 0, the simplest option, so that fewer and smaller numbers always
mean a simpler conversation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec

T = TypeVar("T")


class TurnPlan(msgspec.Struct, frozen=True):
    """The numbers of one turn."""

    user: tuple[int, ...] = ()
    """They decide what the user says."""
    answers: tuple[tuple[int, ...], ...] = ()
    """They decide what the models answer, call by call."""
    results: tuple[tuple[int, ...], ...] = ()
    """They decide what the tools return, call by call."""


class Choices:
    """Numbers, used one after the other."""

    def __init__(self, numbers: Sequence[int] = ()) -> None:
        self._numbers = iter(numbers)

    def below(self, count: int) -> int:
        """Return a number from 0 to ``count`` - 1; 0 when no number is left."""
        return next(self._numbers, 0) % count if count > 1 else 0

    def one_of(self, options: Sequence[T]) -> T:
        """Return one of the options, of which the first is the simplest."""
        return options[self.below(len(options))]
