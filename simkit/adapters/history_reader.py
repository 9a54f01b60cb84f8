"""Histories, message by message: finds the new messages of one that grows. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any, Final, Generic, Protocol, Self, TypeVar

from simkit.adapters.streams import Print, leading_same, print_of
from simkit.core.messages import Message
from simkit.runtime.context.tokens import Counter, tokens_of
from simkit.trace.store import References

_DEARER: Final = 32
"""The cost of reading a message, in messages copied from another list."""


class MessageHistory:
    """A history's messages, with what is needed of each."""

    __slots__ = ("items", "messages", "prints", "references", "repeats", "tokens", "words")

    def __init__(self) -> None:
        self.items: list[Message] = []
        """The messages as they were given,"""
        self.words: object = None
        """and what else their form depends on."""
        self.messages: list[Message] = []
        """The messages with the recorder's ids and names."""
        self.prints: list[Print] = []
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
        self.tokens[size:] = map(tokens_of, new, repeat(count))
        del self.references[size:]

    def take(self, other: MessageHistory, size: int) -> None:
        """Copy the first messages of another history."""
        self.items, self.messages = other.items[:size], other.messages[:size]
        self.prints, self.tokens = other.prints[:size], other.tokens[:size]
        self.references.clear()


class MessageSizes:
    """The sizes of the messages of one growing history, so that only new ones are counted."""

    def __init__(self, count: Counter) -> None:
        self._count = count
        self._messages: Sequence[Message] = ()
        self._sizes: list[int] = []

    def total(self, messages: Sequence[Message]) -> int:
        """Return the number of tokens of the next history."""
        same = leading_same(self._messages, messages)
        self._sizes[same:] = [tokens_of(message, self._count) for message in messages[same:]]
        self._messages = messages
        return sum(self._sizes)


class KnownList(Protocol):
    """The known items of one growing list."""

    @property
    def items(self) -> Sequence[Any]:
        """Return the items themselves."""

    @property
    def words(self) -> object:
        """Return what is known of them depends on besides, as ``find`` got it last."""

    def take(self, other: Self, size: int) -> None:
        """Copy the first items of another list."""


ListT = TypeVar("ListT", bound=KnownList)


class GrowingLists(Generic[ListT]):
    """The known items of lists that are read again and again, so that only new items are read.

    Each list has an owner, as an agent has its history. Known items at the front of a list are not
    read again, and neither are those of the list that was read before it: the histories of agents
    mostly begin alike.
    """

    def __init__(self, make: Callable[[], ListT]) -> None:
        """``make`` returns the items of an empty list."""
        self._make = make
        self._last: dict[tuple[str, str], ListT] = {}
        self._newest = make()

    def find(
        self, owner: tuple[str, str], current: Sequence[Any], words: object = None
    ) -> tuple[ListT, int]:
        """Return the known items of an owner's list, and how many are at the front of the current.

        ``words`` are what else the known items depend on.
        """
        if owner not in self._last:
            self._last[owner] = self._make()
        items, newest, length = self._last[owner], self._newest, len(current)
        size = leading_same(items.items, current) if words == items.words else 0
        # Is it cheaper to copy a list than to read the messages that differ?
        if (length - size) * _DEARER > length and items is not newest and words == newest.words:
            theirs = leading_same(newest.items, current)
            if (theirs - size) * _DEARER > theirs:
                items.take(newest, size := theirs)
        self._newest = items
        return items, size


class Readings:
    """The histories of one session: those of its agents, and of the lists in its state."""

    def __init__(self) -> None:
        self._histories = GrowingLists(MessageHistory)

    def of(
        self,
        owner: tuple[str, str],
        messages: Sequence[Message],
        ours: Callable[[Message], Message],
        words: object,
        count: Counter,
    ) -> MessageHistory:
        """Return the next history of ``owner``.

        ``ours`` depends on the message and ``words`` only.
        """
        history, size = self._histories.find(owner, messages, words)
        history.go_on(messages, size, ours, words, count)
        return history
