"""Messages, what was dropped of them, and tool calls."""

from __future__ import annotations

from typing import Any

import pytest

from simkit.core.messages import Dropped, Message, ToolCall
from simkit.language.matching import Mismatch, holds, mismatches
from simkit.language.yaml.parsing import SourceFloat
from tests.golden import assert_says, cases

CALL = ToolCall("call1", "log_meal", {"food": "pizza"})
USER = Message("user", "I ate pizza", "m1", turn=1)
REPLY = Message(
    "assistant",
    '{"answer": "yes"}',
    "m2",
    "nutrition",
    1,
    data={"answer": "yes"},
    section="history",
    name="bot",
)
CALLING = Message("assistant", "", "m3", "nutrition", 1, (CALL,))
RESULT = Message("tool", '{"kcal": 800}', "m4", "nutrition", 1, call_id="call1", tool="log_meal")
DROPPED = Dropped(RESULT, "message", "tool_messages")
NAMED = {"USER": USER, "REPLY": REPLY, "CALLING": CALLING, "RESULT": RESULT, "DROPPED": DROPPED}


@cases(__file__, "table")
def test_matcher_holds_of_these_messages_and_no_others(matcher: Any, says: str) -> None:
    assert_says(" ".join(name for name, value in NAMED.items() if holds(matcher, value)), says)


@pytest.mark.parametrize(
    ("scalar", "content"),
    [(SourceFloat(1.5, "1.50"), "1.50"), (12, "12"), (True, "true"), ("yes", "yes")],
)
def test_scalar_under_a_role_is_the_text_that_was_written(scalar: Any, content: str) -> None:
    message = Message("user", content)

    assert holds({"user": scalar}, message)
    assert holds(scalar, message)
    assert holds({"content": scalar}, message)
    assert not holds({"user": scalar}, Message("user", f"{content}0"))


def test_mapping_that_is_a_message_is_read_as_one_under_a_role_key() -> None:
    message = {"role": "ai", "content": "Hello", "agent": "x"}

    assert holds({"assistant": {"$starts": "Hel"}, "agent": "x"}, message)
    assert holds({"role": "ai", "content": "Hello"}, message)
    assert holds({"$exact": {"assistant": "Hello", "agent": "x"}}, message)
    assert not holds({"$exact": {"assistant": "Hello"}}, message)
    assert not holds({"user": "Hello"}, message)
    assert not holds({"user": "Hello"}, {"role": ["user"], "content": "Hello"})


def test_role_key_of_a_mapping_that_has_that_key_is_just_a_key() -> None:
    assert holds({"user": {"name": "Ada"}}, {"user": {"name": "Ada"}, "role": 1, "content": 2})
    assert holds({"tool": "log_meal"}, {"tool": "log_meal", "args": {}})


def test_content_that_is_json_is_read_where_no_value_is_known() -> None:
    assert holds({"assistant": {"answer": [1]}}, Message("assistant", '{"answer": [1]}'))
    assert holds({"assistant": [1, 2]}, Message("assistant", "[1, 2]"))
    assert not holds({"assistant": {"answer": 1}}, Message("assistant", "{no json"))


def test_other_role_and_other_content_are_both_told_in_our_own_words() -> None:
    assert mismatches([{"human": "Hi"}], [REPLY]) == (
        Mismatch((0, "role"), '"user"', '"assistant"', "", (0, "human")),
        Mismatch((0, "content"), '"Hi"', '"{\\"answer\\": \\"yes\\"}"', "", (0, "human")),
    )


def test_number_under_a_role_is_shown_as_the_text_it_means() -> None:
    assert mismatches({"user": SourceFloat(1.5, "1.50")}, Message("user", "1.5")) == (
        Mismatch(("content",), '"1.50"', '"1.5"', "", ("user",)),
    )


def test_role_in_other_words_is_told_in_our_own() -> None:
    assert mismatches({"role": "ai"}, USER) == (
        Mismatch(("role",), '"assistant"', '"user"', "", ("role",)),
    )


def test_key_that_no_message_has_is_told_with_those_it_has() -> None:
    assert mismatches({"sender": "x"}, USER) == (
        Mismatch(
            ("sender",),
            '"x"',
            "absent",
            "a message has role, content, text, agent, section, calls, id, turn, tool, call_id, "
            "data, thinking, name, or a role and its content",
            ("sender",),
        ),
    )


def test_tool_as_a_role_is_told_where_the_name_may_have_been_meant() -> None:
    assert mismatches({"tool": "log_meal"}, USER)[0] == Mismatch(
        ("role",),
        '"tool"',
        '"user"',
        "`tool` is the role here; the tool's name is `{role: tool, tool: …}`",
        ("tool",),
    )


def test_missing_and_unexpected_messages_are_shown_as_one_writes_them() -> None:
    note = "1 wanted, 2 found"

    assert mismatches([{"user": "I ate pizza"}], [CALLING, USER]) == (
        Mismatch(
            (0,),
            "nothing",
            '{assistant: "", agent: "nutrition", calls: [{log_meal: {food: "pizza"}}]}',
            note,
        ),
    )
    assert mismatches([], [DROPPED]) == (
        Mismatch(
            (0,),
            "nothing",
            '{tool: "{\\"kcal\\": 800}", agent: "nutrition", what: "message", by: "tool_messages"}',
            "0 wanted, 1 found",
        ),
    )


@pytest.mark.parametrize(
    "field", [name for name in Message.__struct_fields__ if name not in ("role", "content")]
)
def test_every_field_of_a_message_can_be_matched(field: str) -> None:
    # `$not` holds of a known field with another value, and of no unknown one.
    assert holds({"role": "assistant", field: {"$not": "~"}}, REPLY)
