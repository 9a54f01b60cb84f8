"""An agent's contexts as a stream: each event reports only the changes. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import is_
from typing import Any, Final, TypeAlias

import msgspec

from simkit.adapters.plain_values import is_equal
from simkit.core.messages import Message, thinking_of
from simkit.trace import events as e

_encode: Final = msgspec.json.Encoder(order="sorted").encode

_NEAR: Final = (16, 256)
"""How near to their ends two lists mostly differ."""
Print: TypeAlias = tuple[Any, ...]
"""The identity of a message: role, text, calls, answered call, thinking."""


def print_of(message: Message) -> Print:
    """Return the identity of a message."""
    calls: tuple[Any, ...] = ()
    if message.calls:
        calls = tuple((c.id, c.name, _encode(c.args), c.to) for c in message.calls)
    fields = message.role, message.content, calls, message.call_id
    thinking = None if message.data is None else thinking_of(message)
    return fields if thinking is None else (*fields, thinking)


class SentStream:
    """One agent's growing history, for `Shown` events.

    The common front of two consecutive contexts is settled and reported once; the rest is the tail.
    So a growing context is reported in proportion to its new messages. The same goes for dropped
    messages.
    """

    __slots__ = ("_cuts", "_lo", "_prints", "_settled", "_settled_cuts", "_tail", "id")

    def __init__(self, identity: str) -> None:
        self.id = identity
        self._cuts: Sequence[e.Cut] = ()
        """The cuts of the last context, of which the first ``_settled_cuts`` are settled."""
        self._settled_cuts = 0
        self._lo = 0
        self._settled: list[int] = []
        self._prints: list[Print] = []
        """The identities of the settled messages, then of the tail."""
        self._tail: list[int] = []

    def take(
        self,
        prints: Sequence[Print],
        numbered: Callable[[list[int]], list[int]],
        cuts: Sequence[e.Cut] = (),
    ) -> e.Shown:
        """Add the next context, and return its event.

        ``numbered`` gets the numbers of the messages shared with the last context (its first ones
        or, if a window has moved, those from another index on), and returns all. ``cuts`` are the
        messages that filters dropped.
        """
        before = self._settled_cuts
        same = leading_equal(self._cuts, cuts) if self._cuts and cuts else 0
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
        """Return the settled index from which a context equals the last one, and how far."""
        if not self._prints or not prints:
            return None
        lo = self._lo
        size = leading_equal(self._prints[lo:] if lo else self._prints, prints)
        if size >= len(self._settled) - lo:
            return lo, size
        # A window that has moved: the context begins with a later message.
        first = prints[0]
        for place in range(lo + 1, len(self._prints)):
            if self._prints[place] == first:
                size = leading_equal(self._prints[place:], prints)
                if place + size == len(self._prints) and place <= len(self._settled):
                    return place, size
        return None


def leading_equal(before: Sequence[Any], after: Sequence[Any]) -> int:
    """Return the number of equal first items of two lists."""
    size = len(before)
    if before == after[:size]:
        return size
    start = leading_same(before, after)
    for old, new in zip(before[start:], after[start:], strict=False):
        if old != new:
            break
        start += 1
    return start


def leading_same(before: Sequence[Any], after: Sequence[Any]) -> int:
    """Return the number of first items of two lists that are the same objects.

    An equal object between such items counts too.
    """
    same = 0
    if len(after) > _NEAR[0] and type(before) is list and type(after) is list:
        # They mostly differ near the end: lists compare their common part without a look at it.
        same = _common_front(before, after)
    for old, new in zip(before[same:], after[same:], strict=False):
        if old is not new:
            break
        same += 1
    else:
        return same
    rest = [*map(is_, before[same:], after[same:])]
    tail = rest[: -_NEAR[0] - 1 : -1]
    if True in tail:
        end = same + len(rest) - tail.index(True)
        if is_equal(before[:end], after[:end]):
            return end
    return same


def _common_front(before: list[Any], after: list[Any]) -> int:
    """Return a length below which two lists are equal; 0 if they differ early."""
    length = min(len(before), len(after))
    if not length or before[0] is not after[0]:
        return 0
    if before[length - 1] is after[length - 1] and is_equal(
        before if len(before) == length else before[:length],
        after if len(after) == length else after[:length],
    ):
        return length
    for near in _NEAR:
        start = length - near
        if start <= 0:
            break
        if before[start - 1] is after[start - 1] and is_equal(before[:start], after[:start]):
            return start
    return 0
