"""Choices of one conversation: numbers, drawn beforehand, that decide what happens.

Nothing is drawn while the pipeline runs: its code may catch any exception and start any thread. One
number decides everything about one answer, digit by digit. A choice beyond the last digit is 0, the
simplest option, so that fewer and smaller numbers always mean a simpler conversation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol, TypeVar

import msgspec

T = TypeVar("T")
ODDS: Final = 10_000
"""The number of values of a number that decides whether something rare happens."""


class TurnPlan(msgspec.Struct, frozen=True):
    """The numbers of one turn."""

    user: int = 0
    """It decides which user speaks, and what it says."""
    orders: int = 0
    """It decides in which order parallel agents finish."""
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

    def happens(self, share: float) -> bool:
        """Return whether something happens that has a share."""
        return share > 0 and rare(self.below(ODDS), {"it": share}) != ""

    def order(self, count: int) -> list[int]:
        """Return the numbers from 0 to ``count`` - 1 in some order; the simplest is sorted."""
        left = [*range(count)]
        return [left.pop(self.below(len(left))) for _ in range(count)]


class Source(Protocol):
    """Where the choices of one conversation come from."""

    turns: int
    """The most turns."""
    personas: Choices
    """They decide who the users are."""

    def begin_turn(self, place: int) -> None:
        """Begin the choices of a turn."""

    def user(self) -> Choices:
        """Return the choices of who speaks in the turn, and what is said."""

    def order(self) -> Choices:
        """Return the choices of the order in which parallel agents of the turn finish."""

    def answer(self) -> Choices:
        """Return the choices of a model's next answer."""

    def result(self) -> Choices:
        """Return the choices of a tool's next result."""

    def fate(self, place: int, shares: Mapping[str, float]) -> str:
        """Return which rare thing happens to a turn; empty for none."""

    def oddity(self, shares: Mapping[str, float]) -> str:
        """Return which rare thing happens to the next answer; empty for none."""


class Drawn:
    """The choices of a plan."""

    def __init__(self, plan: Plan, names: Sequence[str] = ()) -> None:
        """``names`` are those of all rare things, of which the plan enables some."""
        self._plan, self.turns, self.personas = plan, len(plan.turns), Choices(plan.personas)
        self._enabled = {name for name, flag in zip(names, plan.enabled, strict=False) if flag}
        self.begin_turn(0)

    def begin_turn(self, place: int) -> None:
        """Begin the choices of a turn."""
        plan = self._plan.turns[place]
        self._user, self._order = Choices(plan.user), Choices(plan.orders)
        self._answers, self._results = iter(plan.answers), iter(plan.results)
        self._rare = iter(plan.rare[1:])

    def user(self) -> Choices:
        """Return the choices of who speaks in the turn, and what is said."""
        return self._user

    def order(self) -> Choices:
        """Return the choices of the order in which parallel agents of the turn finish."""
        return self._order

    def answer(self) -> Choices:
        """Return the choices of a model's next answer."""
        return Choices(next(self._answers, 0))

    def result(self) -> Choices:
        """Return the choices of a tool's next result."""
        return Choices(next(self._results, 0))

    def fate(self, place: int, shares: Mapping[str, float]) -> str:
        """Return which rare thing happens to a turn; empty for none."""
        numbers = self._plan.turns[place].rare
        return rare(numbers[0], self._of_enabled(shares)) if numbers else ""

    def oddity(self, shares: Mapping[str, float]) -> str:
        """Return which rare thing happens to the next answer; empty for none."""
        return rare(next(self._rare, 0), self._of_enabled(shares))

    def _of_enabled(self, shares: Mapping[str, float]) -> dict[str, float]:
        return {name: share for name, share in shares.items() if name in self._enabled}


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
