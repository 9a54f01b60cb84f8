"""What an agent was sent before, so that its next context is told as what changed. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import is_
from typing import Any, Final, TypeAlias

import msgspec

from simkit.adapters.plain_values import is_equal
from simkit.core.messages import Message, thinking_of
from simkit.trace import events as e

_encode: Final = msgspec.json.Encoder(order="sorted").encode

_NEAR: Final = 16
Print: TypeAlias = tuple[Any, ...]
"""What makes two messages the same: role, text, calls, the call that is answered, thinking."""


def print_of(message: Message) -> Print:
    """Return what makes a message the same as another."""
    calls: tuple[Any, ...] = ()
    if message.calls:
        calls = tuple((c.id, c.name, _encode(c.args), c.to) for c in message.calls)
    fields = message.role, message.content, calls, message.call_id
    thinking = None if message.data is None else thinking_of(message)
    return fields if thinking is None else (*fields, thinking)


class SentStream:
    """One agent's growing history as `Shown` events tell it.

    What two contexts in a row have in common at the front is settled and told once; what came
    after stands in the tail. So a context that grows is told in proportion to what is new. The
    same goes for what filters took out.
    """

    __slots__ = ("_cuts", "_lo", "_prints", "_settled", "_settled_cuts", "_tail", "id")

    def __init__(self, identity: str) -> None:
        self.id = identity
        self._cuts: Sequence[e.Cut] = ()
        """Those of the last context, of which the first ``_settled_cuts`` are settled."""
        self._settled_cuts = 0
        self._lo = 0
        self._settled: list[int] = []
        self._prints: list[Print] = []
        """Of the settled messages, then of the tail."""
        self._tail: list[int] = []

    def take(
        self,
        prints: Sequence[Print],
        numbered: Callable[[list[int]], list[int]],
        cuts: Sequence[e.Cut] = (),
    ) -> e.Shown:
        """Take the next context, and return how it is told.

        ``numbered`` gets the numbers of the messages that it shares with the last one (its first
        ones, or, where a window has moved, those from another place on), and returns all.
        ``cuts`` are what filters took out of it.
        """
        before = self._settled_cuts
        same = leading_equal(self._cuts, cuts)
        self._cuts, self._settled_cuts = cuts, same
        aligned_count = self._aligned(prints) if same >= before else None
        if aligned_count is None:
            numbers, restarts = numbered([]), bool(self._settled or before)
            self._lo, self._settled, self._settled_cuts = 0, [], 0
            self._tail, self._prints = numbers, list(prints)
            return e.Shown(
                "", self.id, tail=tuple(numbers), tail_cuts=tuple(cuts), restarts=restarts
            )
        lo, size = aligned_count
        settled = len(self._settled) - lo
        shared = [*self._settled[lo:], *self._tail[: size - settled]]
        numbers = numbered(shared)
        rest = shared[settled:]
        self._lo, self._tail = lo, numbers[size:]
        self._settled += rest
        self._prints[len(self._settled) :] = prints[size:]
        return e.Shown(
            "",
            self.id,
            lo,
            tuple(rest),
            tuple(cuts[before:same]),
            tuple(self._tail),
            tuple(cuts[same:]),
        )

    def _aligned(self, prints: Sequence[Print]) -> tuple[int, int] | None:
        """Return from which settled place on a context goes along with the last, and how far."""
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
        return leading_equal(self._prints[lo:] if lo else self._prints, prints)


def leading_equal(before: Sequence[Any], after: Sequence[Any]) -> int:
    """Return how many of the first ones are equal; both are lists."""
    if before == after[: len(before)]:
        return len(before)
    start = leading_same(before, after)
    pairs = enumerate(zip(before[start:], after[start:], strict=False), start)
    return next((n for n, (old, new) in pairs if old != new), min(len(before), len(after)))


def leading_same(before: Sequence[Any], after: Sequence[Any]) -> int:
    """Return how many of the first ones are the same objects; both are lists.

    An equal one that stands between such counts too.
    """
    size = min(len(before), len(after))
    # Mostly they part near their end. What they share is compared without a look at any of it.
    for end in range(size, max(size - _NEAR, 0), -1):
        if before[end - 1] is after[end - 1]:
            if is_equal(before[:end], after[:end]):
                return end
            break
    return [*map(is_, before, after), False].index(False)
