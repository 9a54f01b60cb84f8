"""The histories that are told, message by message: of one that grows, what is new. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from simkit.adapters.streams import Print, leading_same, print_of
from simkit.core.messages import Message
from simkit.runtime.context.tokens import Counter, tokens_of
from simkit.trace.store import References

_DEARER: Final = 32
"""To read a message costs as much as to take over so many that another list has read."""


class MessageHistory:
    """A history's messages, with what is needed of each."""

    __slots__ = ("_messages", "_words", "messages", "prints", "references", "repeats", "tokens")

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._words: object = None
        self.messages: list[Message] = []
        """With the recorder's ids and names."""
        self.prints: list[Print] = []
        self.tokens: list[int] = []
        self.references = References()
        """To the first messages as they stand in the log, as far as the recorder has found them,"""
        self.repeats = 0
        """when so many had been said again there."""

    def same(self, messages: Sequence[Message], words: object) -> int:
        """Return how many of the first messages are the very same, under the same names."""
        return leading_same(self._messages, messages) if words == self._words else 0

    def go_on(
        self,
        messages: Sequence[Message],
        size: int,
        ours: Callable[[Message], Message],
        words: object,
        count: Counter,
    ) -> None:
        """Read the next history, of which the first ``size`` messages are the same."""
        self._words = words
        self._messages[size:] = messages[size:]
        new = [ours(message) for message in messages[size:]]
        self.messages[size:] = new
        self.prints[size:] = map(print_of, new)
        self.tokens[size:] = [tokens_of(message, count) for message in new]
        del self.references[size:]

    def take(self, other: MessageHistory, size: int) -> None:
        """Hold what another does of its first messages."""
        self._messages, self.messages = other._messages[:size], other.messages[:size]
        self.prints, self.tokens = other.prints[:size], other.tokens[:size]
        self.references.clear()


def is_worth_it(more: int, size: int) -> bool:
    """Return whether a list of this size is better taken over whole than so many ``more`` read."""
    return more * _DEARER > size


class Readings:
    """The histories of one session: those of its agents, and of the lists in its state.

    What is at the front of one and is the very same objects is not read again, nor what it shares
    with the one that was read before it: agents mostly share what was said.
    """

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], MessageHistory] = {}
        self._newest = MessageHistory()

    def of(
        self,
        owner: tuple[str, str],
        messages: Sequence[Message],
        ours: Callable[[Message], Message],
        words: object,
        count: Counter,
    ) -> MessageHistory:
        """Return the next history of ``owner``: ``ours`` depends on the message and on ``words``
        alone."""
        reading = self._last.setdefault(owner, MessageHistory())
        size = reading.same(messages, words)
        if is_worth_it(len(messages) - size, len(messages)):
            theirs = self._newest.same(messages, words)
            if is_worth_it(theirs - size, theirs):
                reading.take(self._newest, size := theirs)
        reading.go_on(messages, size, ours, words, count)
        self._newest = reading
        return reading
