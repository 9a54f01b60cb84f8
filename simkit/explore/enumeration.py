"""Every conversation within a bound, one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeVar

from simkit.explore.choices import Choices

T = TypeVar("T")
RARE_MAX: Final = 1
"""The number of rare things that happen in one conversation."""


class _Path:
    """The digits of one conversation: given ones first, then 0; with how many there could be."""

    def __init__(self, digits: Sequence[int]) -> None:
        self._digits = iter(digits)
        self.steps: list[tuple[int, int]] = []
        """Each digit that was used, and the number of its alternatives."""

    def below(self, count: int) -> int:
        if count <= 1:
            return 0
        digit = next(self._digits, 0)
        self.steps.append((digit, count))
        return digit

    def following(self) -> list[int] | None:
        """Return the digits of the next conversation; None after the last one."""
        steps = list(self.steps)
        while steps:
            digit, count = steps.pop()
            if digit + 1 < count:
                return [*(digit for digit, _ in steps), digit + 1]
        return None


class _EnumeratedChoices(Choices):
    """Choices of which each alternative is taken once, however likely it is."""

    def __init__(self, path: _Path) -> None:
        super().__init__()
        self._path = path

    def below(self, count: int) -> int:
        return self._path.below(count)

    def weighted(self, weights: Mapping[T, int] | Sequence[tuple[T, int]]) -> T:
        pairs = [*weights.items()] if isinstance(weights, Mapping) else [*weights]
        return pairs[self.below(len(pairs))][0]

    def happens(self, share: float) -> bool:
        return share > 0 and self.below(2) == 1


class Enumerated:
    """The choices of one conversation of an enumeration, in the order in which they are asked.

    They are the same ones again only if the pipeline asks in the same order, which it does where
    simkit controls everything that it depends on.
    """

    is_each = True

    def __init__(self, path: _Path, turns: int) -> None:
        self._path, self.turns = path, turns
        self.personas: Choices = _EnumeratedChoices(path)
        self._rare = RARE_MAX
        self._fates: dict[int, str] = {}

    def begin_turn(self, place: int) -> None:
        """Do nothing: choices follow each other."""

    def user(self) -> Choices:
        """Return the choices that come next."""
        return self.personas

    order = answer = result = user

    def fate(self, place: int, shares: Mapping[str, float]) -> str:
        """Return which rare thing happens to a turn; empty for none. It is chosen once."""
        if place not in self._fates:
            self._fates[place] = self.oddity(shares)
        return self._fates[place]

    def oddity(self, shares: Mapping[str, float]) -> str:
        """Return which rare thing happens to the next answer; empty for none."""
        if not shares or not self._rare:
            return ""
        kind = self.personas.one_of(["", *shares])
        self._rare -= bool(kind)
        return kind


class Enumeration:
    """All conversations of at most ``turns`` turns."""

    def __init__(self, turns: int) -> None:
        self._turns = turns
        self.is_complete = False
        """Whether all were taken."""

    def __iter__(self) -> Iterator[Enumerated]:
        digits: list[int] | None = []
        while digits is not None:
            path = _Path(digits)
            yield Enumerated(path, self._turns)
            digits = path.following()
        self.is_complete = True
