"""Histories that are read again and again: of one that grows, only what is new is read."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from simkit.adapters.recorder.histories import (
    GrowingLists,
    MessageHistory,
    leading_equal,
    leading_same,
    print_of,
)
from simkit.adapters.recorder.sessions import Session
from simkit.core.messages import Message
from simkit.runtime.context.rendering import chars_over_four

A, B, C = (Message("user", text) for text in ("one", "two", "three"))


class Read:
    """The readings of a session, with what they have looked at."""

    def __init__(self) -> None:
        self.histories, self.looked_at = GrowingLists(MessageHistory), list[str]()
        self.reading = MessageHistory()

    def go_on(self, *given: Message, words: object = (), owner: str = "desk") -> list[str]:
        """Reads a history; returns what of it was looked at."""
        self.looked_at = []
        self.reading, size = self.histories.find(("agent", owner), given, words)
        self.reading.go_on(given, size, self._ours, words, chars_over_four)
        return self.looked_at

    def _ours(self, message: Message) -> Message:
        self.looked_at.append(message.content)
        return replace(message, agent="ours")


def test_of_a_history_that_grows_only_what_is_new_is_read() -> None:
    read = Read()
    read.go_on(A, B)

    assert read.go_on(A, B, C) == ["three"]
    assert read.reading.messages == [replace(item, agent="ours") for item in (A, B, C)]
    assert read.reading.prints == [print_of(item) for item in (A, B, C)]
    assert read.reading.tokens == [1, 1, 2]


def test_a_history_of_which_something_was_taken_is_read_from_there() -> None:
    read = Read()
    read.go_on(A, B, C)

    assert read.go_on(A, C) == ["three"]
    assert [message.content for message in read.reading.messages] == ["one", "three"]
    assert read.reading.tokens == [1, 2]


def test_histories_that_share_their_front_stay_apart_behind_it() -> None:
    read = Read()
    read.go_on(A, B)
    first = read.reading
    read.go_on(A, C, owner="other")

    assert [message.content for message in first.messages] == ["one", "two"]
    assert [message.content for message in read.reading.messages] == ["one", "three"]


def test_a_history_is_read_again_where_calls_go_by_other_names() -> None:
    read = Read()
    read.go_on(A, B, words="before")

    assert read.go_on(A, B, words="after") == ["one", "two"]


@pytest.mark.parametrize(
    ("before", "after", "same", "equal"),
    [
        ([], [A], 0, 0),
        ([A, B], [A, B, C], 2, 2),
        ([A, B, C], [A, B], 2, 2),
        ([A, B], [A, replace(B)], 1, 2),
        ([A, B, C], [A, replace(B), C], 3, 3),
        ([A, B], [B, A], 0, 0),
        ([A, C], [replace(A), B], 0, 1),
    ],
)
def test_what_two_lists_have_in_common_at_the_front(
    before: list[Message], after: list[Message], same: int, equal: int
) -> None:
    assert (leading_same(before, after), leading_equal(before, after)) == (same, equal)


@pytest.mark.parametrize("size", [17, 40, 300, 700])
@pytest.mark.parametrize("changed", [None, 0, 1, 10, -1, -10, -40, -290])
@pytest.mark.parametrize("more", [0, 1, 30])
def test_the_common_front_of_long_lists_ends_at_the_first_message_that_differs(
    size: int, changed: int | None, more: int
) -> None:
    before = [replace(A, content=str(number)) for number in range(size)]
    after = [*before, *[B] * more]
    place = size
    if changed is not None and -size <= changed < size:
        place = changed % size
        after[place] = C

    assert leading_same(before, after) == leading_same(after, before) == place
    assert leading_same([*before, C], after) == place


def test_an_equal_message_inside_a_long_list_is_the_same() -> None:
    before = [replace(A, content=str(number)) for number in range(300)]
    after = [*before]
    after[100] = replace(after[100])

    assert leading_same(before, after) == 300
    assert leading_same([*before, B], [*after, C]) == 300


@pytest.mark.parametrize(
    ("logged", "context", "numbers"),
    [
        ([A, B], [A, B], [1, 2]),
        ([A, B], [A, C, B], [1, 0, 2]),
        ([A, B, A], [A], [3]),
        ([A, B, A], [A, B], [1, 2]),
        ([A, B, A], [A, B, A], [1, 2, 3]),
        ([A, B, A], [B, A, C], [2, 3, 0]),
    ],
)
def test_a_message_that_was_said_twice_has_the_number_that_keeps_the_order(
    logged: list[Message], context: list[Message], numbers: list[int]
) -> None:
    session = Session()
    for number, message in enumerate(logged, 1):
        session.add(message, print_of(message), number)

    assert session.numbers_of([*map(print_of, context)], len(logged) + 1) == numbers
