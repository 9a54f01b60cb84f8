"""What an agent was sent before, so that its next context is told as what changed. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, TypeAlias

from simkit import events as e

Print: TypeAlias = tuple[Any, ...]
"""What makes two messages the same: role, text, calls, the call that is answered."""


class SentStream:
    """One agent's growing history as `Shown` events tell it.

    What two contexts in a row have in common at the front is settled and told once; what came
    after stands in the tail. So a context that grows is told in proportion to what is new.
    """

    __slots__ = ("_lo", "_prints", "_settled", "_tail", "id")

    def __init__(self, identity: str) -> None:
        self.id = identity
        self._lo = 0
        self._settled: list[int] = []
        self._prints: list[Print] = []
        """Of the settled messages, then of the tail."""
        self._tail: list[int] = []

    def take(self, prints: Sequence[Print], numbered: Callable[[list[int]], list[int]]) -> e.Shown:
        """Takes the next context, and returns how it is told.

        ``numbered`` gets the numbers of the messages that it shares with the last one (its first
        ones, or, where a window has moved, those from another place on), and returns all.
        """
        found = self._aligned(prints)
        if found is None:
            numbers, restarts = numbered([]), bool(self._settled)
            self._lo, self._settled = 0, []
            self._tail, self._prints = numbers, list(prints)
            return e.Shown("", self.id, tail=tuple(numbers), restarts=restarts)
        lo, size = found
        settled = len(self._settled) - lo
        shared = [*self._settled[lo:], *self._tail[: size - settled]]
        numbers = numbered(shared)
        kept = shared[settled:]
        self._lo, self._tail = lo, numbers[size:]
        self._settled += kept
        self._prints[len(self._settled) :] = prints[size:]
        return e.Shown("", self.id, lo, tuple(kept), tail=tuple(self._tail))

    def _aligned(self, prints: Sequence[Print]) -> tuple[int, int] | None:
        """Returns from which settled place on a context goes along with the last, and how far."""
        if not self._prints or not prints:
            return None
        lo = self._lo
        size = self._common(lo, prints)
        if size >= len(self._settled) - lo:
            return lo, size
        # A window that has moved: the context begins with a later message.
        first = prints[0]
        for place in range(lo + 1, len(self._prints)):
            if self._prints[place] == first:
                size = self._common(place, prints)
                if place + size == len(self._prints) and place <= len(self._settled):
                    return place, size
        return None

    def _common(self, lo: int, prints: Sequence[Print]) -> int:
        size = 0
        for old, new in zip(islice(self._prints, lo, None), prints, strict=False):
            if old != new:
                break
            size += 1
        return size
