from __future__ import annotations

import pytest

from simkit.core.messages import Dropped, Message, ToolCall
from simkit.report.wording import moment, value_text, wrapped


@pytest.mark.parametrize(
    ("at_ms", "text"),
    [
        (0, "0 ms"),
        (9_999, "9999 ms"),
        (10_000, "10.0 s"),
        (599_949, "599.9 s"),
        (600_000, "10 min 00 s"),
        (3_725_000, "1 h 02 min"),
    ],
)
def test_a_virtual_time_reads_in_the_unit_of_its_size(at_ms: int, text: str) -> None:
    assert moment(at_ms) == text


def test_values_stand_on_one_line_and_messages_as_they_are_spoken() -> None:
    call = ToolCall("call1", "log", {"food": "pizza", "kcal": [1, 2.5]})
    message = Message(role="assistant", content="a\nb", agent="coach", calls=(call,))
    value = {"m": [message, Dropped(message, "message", "window")], "ü": None, "n": True}

    text = value_text(value)

    reply = 'assistant coach: a b log(food: "pizza", kcal: [1, 2.5])'
    assert text == f'{{"m": [{reply}, {reply} (message by window)], "ü": null, "n": true}}'


def test_a_message_without_words_says_nothing() -> None:
    assert value_text(Message(role="user")) == "user: nothing"


def test_wrapping_keeps_line_ends_and_hangs_under_the_first_words() -> None:
    lines = wrapped("one two three\n\nfour", "- ", width=9)

    assert lines == ["- one two", "  three", "", "  four"]
