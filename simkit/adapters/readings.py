"""The history that an agent is sent, message by message: of one that grows, what is new. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from simkit.adapters.streams import Print, leading_same, print_of
from simkit.context.tokens import Counter, tokens_of
from simkit.messages import Message


class Reading:
    """A history's messages, with what is needed of each."""

    __slots__ = ("_given", "_words", "messages", "prints", "tokens")

    def __init__(self) -> None:
        self._given: list[Message] = []
        self._words: object = None
        self.messages: list[Message] = []
        """With the scribe's ids and names."""
        self.prints: list[Print] = []
        self.tokens: list[int] = []

    def go_on(
        self, given: Sequence[Message], ours: Callable[[Message], Message], words: object,
        count: Counter,
    ) -> None:  # fmt: skip
        """Reads the next history. What is at its front and is the very same objects is not read
        again: ``ours`` depends on the message and on ``words`` alone."""
        size = leading_same(self._given, given) if words == self._words else 0
        self._words = words
        self._given[size:] = given[size:]
        new = [ours(message) for message in given[size:]]
        self.messages[size:] = new
        self.prints[size:] = map(print_of, new)
        self.tokens[size:] = [tokens_of(message, count) for message in new]
