"""Growing histories: their new messages, and the events that report only these. Pure."""

from __future__ import annotations

from collections import Counter as Tally
from collections import deque
from collections.abc import Callable, Sequence
from itertools import repeat
from operator import is_
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

import msgspec

from simkit.adapters.plain_values import is_equal
from simkit.core.messages import Message, thinking_of
from simkit.runtime.context.rendering import Counter, tokens_of
from simkit.trace import events as e
from simkit.trace.store import References

_encode: Final = msgspec.json.Encoder(order="sorted").encode

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
    """One agent's growing history, for `HistoryPart` events.

    The common front of two consecutive contexts is settled and reported once; the rest is the tail.
    So a growing context is reported in proportion to its new messages. The same goes for dropped
    messages.
    """

    __slots__ = ("_cuts", "_lo", "_prints", "_settled", "_settled_cuts", "_tail", "id")

    def __init__(self, identity: str) -> None:
        self.id = identity
        self._cuts: Sequence[e.Omission] = ()
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
        cuts: Sequence[e.Omission] = (),
        names: Sequence[str] = (),
    ) -> e.HistoryPart:
        """Add the next context, and return its event.

        ``numbered`` gets the numbers of the messages shared with the last context (its first ones
        or, if a window has moved, those from another index on), and returns all. ``cuts`` are the
        messages that filters dropped, ``names`` those with which the messages were sent, if any.
        """
        prints = [*zip(prints, names, strict=True)] if names else prints
        before = self._settled_cuts
        same = leading_equal(self._cuts, cuts) if self._cuts and cuts else 0
        self._cuts, self._settled_cuts = cuts, same
        aligned_count = self._aligned(prints) if same >= before else None
        restarts = aligned_count is None and bool(self._settled or before)
        if aligned_count is None:
            self._settled, self._tail, self._settled_cuts, before, same = [], [], 0, 0, 0
        lo, size = aligned_count or (0, 0)
        settled = len(self._settled) - lo
        shared = [*self._settled[lo:], *self._tail[: size - settled]]
        numbers = numbered(shared)
        rest = shared[settled:]
        self._lo, self._tail = lo, numbers[size:]
        self._settled += rest
        self._prints[len(self._settled) :] = prints[size:]
        return e.HistoryPart(
            "",
            self.id,
            lo,
            tuple(rest),
            tuple(cuts[before:same]),
            tuple(self._tail),
            tuple(cuts[same:]),
            restarts,
            names=tuple(names[settled:]),
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
        for index in range(lo + 1, len(self._prints)):
            if self._prints[index] == first:
                size = leading_equal(self._prints[index:], prints)
                if index + size == len(self._prints) and index <= len(self._settled):
                    return index, size
        return None


def leading_equal(before: Sequence[Any], after: Sequence[Any]) -> int:
    """Return the number of equal first items of two lists."""
    if before == after[: len(before)]:
        return len(before)
    pairs = enumerate(zip(before, after, strict=False))
    return next((size for size, (old, new) in pairs if old != new), min(len(before), len(after)))


def leading_same(before: Sequence[Any], after: Sequence[Any]) -> int:
    """Return the number of first items of two lists that are the same objects.

    An equal object between such items counts too.
    """
    same = [*map(is_, before, after)]
    if False not in same:
        return len(same)
    first = same.index(False)
    if True in same[first:]:
        end = len(same) - same[::-1].index(True)
        if is_equal(before[:end], after[:end]):
            return end
    return first


class MessageHistory:
    """A history's messages, with what is needed of each."""

    def __init__(self) -> None:
        self.items: list[Message] = []
        """The messages as they were given,"""
        self.words: object = None
        """and what else their form depends on."""
        self.messages: list[Message] = []
        """The messages with the recorder's ids and names."""
        self.prints: list[Print] = []
        self.names: list[str] = []
        """The names with which the messages were sent; empty if none has one."""
        self.tokens: list[int] = []
        self.references = References()
        """References to the first messages, as far as the recorder has found them in the log,"""
        self.repeats = 0
        """and the number of repeated messages in the log at that time."""

    def go_on(
        self,
        messages: Sequence[Message],
        size: int,
        ours: Callable[[Message], Message],
        words: object,
        count: Counter,
    ) -> None:
        """Read the next history, whose first ``size`` messages are the same."""
        self.words = words
        if size == len(messages) == len(self.items):
            return
        self.items[size:] = new = messages[size:]
        self.messages[size:] = new = [*map(ours, new)]
        self.prints[size:] = map(print_of, new)
        if self.names or any(message.name for message in new):
            self.names = [message.name for message in self.messages]
        self.tokens[size:] = map(tokens_of, new, repeat(count))
        del self.references[size:]


class KnownList(Protocol):
    """The known items of one growing list."""

    @property
    def items(self) -> Sequence[Any]:
        """Return the items themselves."""

    @property
    def words(self) -> object:
        """Return what is known of them depends on besides, as ``find`` got it last."""


ListT = TypeVar("ListT", bound=KnownList)


class GrowingLists(Generic[ListT]):
    """The known items of lists that are read again and again, so that only new items are read.

    Each list has an owner, as an agent has its history. Known items at the front of a list are not
    read again.
    """

    def __init__(self, make: Callable[[], ListT]) -> None:
        """``make`` returns the items of an empty list."""
        self._make = make
        self._last: dict[tuple[str, str], ListT] = {}

    def find(
        self, owner: tuple[str, str], current: Sequence[Any], words: object = None
    ) -> tuple[ListT, int]:
        """Return the known items of an owner's list, and how many are at the front of the current.

        ``words`` are what else the known items depend on.
        """
        if owner not in self._last:
            self._last[owner] = self._make()
        items = self._last[owner]
        return items, leading_same(items.items, current) if words == items.words else 0


def cuts_between(before: Sequence[Message], after: Sequence[Message], by: str) -> list[e.Omission]:
    """Return what the filter ``by`` did to numbered messages.

    A message that is missing in the output was dropped; or it was changed, if the output has as
    many new messages of its role as are missing. A message that stands several times in the input
    was not dropped while one copy is left. Linear in both.
    """
    remaining = Tally(print_of(message) for message in after)
    numbers_remaining: set[int] = set()
    dropped_messages: list[Message] = []
    for message in reversed(before):  # Filters mostly keep the latest messages.
        mark = print_of(message)
        if remaining[mark]:
            remaining[mark] -= 1
            numbers_remaining.add(message.number)
        elif message.number not in numbers_remaining:
            dropped_messages.append(message)
    dropped_messages.reverse()
    new: dict[str, deque[Message]] = {}
    for message in reversed(after):
        mark = print_of(message)
        if remaining[mark]:
            remaining[mark] -= 1
            new.setdefault(message.role, deque()).appendleft(message)
    missing = Tally(message.role for message in dropped_messages)
    cuts = []
    for message in dropped_messages:
        fresh = new.get(message.role, deque())
        is_changed = fresh and len(fresh) == missing[message.role]
        cuts.append(_changed(message, fresh, by) if is_changed else e.Omission(message.number, by))
        if is_changed:
            missing[message.role] -= 1
    return cuts


def _changed(message: Message, fresh: deque[Message], by: str) -> e.Omission:
    becomes = fresh.popleft()
    if becomes.content == message.content and message.calls:
        return e.Omission(message.number, by, "tool_calls", becomes=becomes)
    return e.Omission(
        message.number, by, "content", becomes=msgspec.structs.replace(becomes, id=message.id)
    )
