"""Every conversation within a bound, one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from simkit.explore.choices import Choices

T = TypeVar("T")
LEFT_MAX: Final = 6
"""The number of intervals into which what is left of one is cut."""


class Interval(msgspec.Struct, frozen=True, array_like=True):
    """Conversations of an enumeration that follow each other."""

    start: tuple[int, ...] = ()
    """The digits of the first one, up to its last that is not 0."""
    shared: int = 0
    """The number of digits that all of them begin with."""


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

    def following(self, shared: int = 0) -> list[int] | None:
        """Return the digits of the next conversation with the same first ones; None if none is."""
        steps = list(self.steps)
        while len(steps) > shared:
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
        self.path, self.turns = path, turns
        self.personas: Choices = _EnumeratedChoices(path)
        self._rare = RARE_MAX
        self._fates: dict[int, str] = {}

    @property
    def digits(self) -> tuple[int, ...]:
        """Return the digits that were used so far: they give the same conversation again."""
        return tuple(digit for digit, _ in self.path.steps)

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


def enumerated(digits: Sequence[int], turns: int) -> Enumerated:
    """Return the choices of one conversation by its digits."""
    return Enumerated(_Path(digits), turns)


class Enumeration:
    """All conversations of at most ``turns`` turns, or those of an interval."""

    def __init__(self, turns: int, interval: Interval = Interval()) -> None:  # noqa: B008
        self._turns, self._interval = turns, interval
        self.is_complete = False
        """Whether all were taken."""

    def __iter__(self) -> Iterator[Enumerated]:
        digits: list[int] | None = [*self._interval.start]
        while digits is not None:
            path = _Path(digits)
            yield Enumerated(path, self._turns)
            digits = path.following(self._interval.shared)
        self.is_complete = True

    def left_after(self, source: Enumerated) -> tuple[Interval, ...]:
        """Return the conversations after one of them, as intervals that follow each other."""
        steps = source.path.steps
        digits = [digit for digit, _ in steps]
        left = [
            Interval((*digits[:depth], digit + 1), depth)
            for depth, (digit, count) in enumerate(steps)
            if depth >= self._interval.shared and digit + 1 < count
        ]
        # The first digits change last, and lead to the most conversations.
        large, small = left[: LEFT_MAX - 1], left[LEFT_MAX - 1 :]
        if small:
            large.append(Interval(small[-1].start, small[0].shared))
        return tuple(reversed(large))
