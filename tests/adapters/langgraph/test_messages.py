"""LangChain's messages as ours, each converted once, and again where it was changed in place."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from importlib.util import find_spec
from typing import Any

import msgspec
import pytest

if find_spec("langgraph") is None:
    pytest.skip("langgraph is not installed", allow_module_level=True)

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from pydantic import ConfigDict

from simkit.adapters.langgraph.messages import Conversions, as_message
from simkit.core.messages import Message, ToolCall

A, B = ("agent", "a"), ("agent", "b")


def make_messages() -> list[Any]:
    return [
        HumanMessage("Hello"),
        AIMessage("", tool_calls=[{"name": "look", "args": {"at": ["a"]}, "id": "1"}], name="desk"),
        ToolMessage("seen", tool_call_id="1", name="look"),
        HumanMessage([{"type": "text", "text": "and this"}]),
        AIMessage("Fine"),
    ]


def test_messages_say_in_our_words_what_they_said() -> None:
    assert Conversions().of(A, make_messages()) == [
        Message("user", "Hello"),
        Message(
            "assistant", agent="desk", calls=(ToolCall("1", "look", {"at": ["a"]}),), name="desk"
        ),
        Message("tool", "seen", call_id="1", tool="look"),
        Message("user", "and this"),
        Message("assistant", "Fine"),
    ]


def test_of_a_list_that_grows_only_what_is_new_is_converted() -> None:
    conversions, messages = Conversions(), make_messages()
    before = conversions.of(A, messages)

    after = conversions.of(A, [*messages, HumanMessage("More")])

    assert [item is other for item, other in zip(before, after, strict=False)] == [True] * 5
    assert after[5:] == [Message("user", "More")]


def test_messages_that_a_checkpointer_made_again_are_converted_once() -> None:
    conversions, messages = Conversions(), make_messages()
    before = conversions.of(A, messages)

    after = conversions.of(A, [*deepcopy(messages), HumanMessage("More")])

    assert [item is other for item, other in zip(before, after, strict=False)] == [True] * 5
    assert after[5:] == [Message("user", "More")]


def test_a_message_made_again_with_another_text_is_another_and_so_are_changed_ones() -> None:
    conversions, messages = Conversions(), make_messages()
    before = conversions.of(A, messages)
    messages[3].content = "and that"
    again = deepcopy(messages)
    again[1].name = "front"

    after = conversions.of(A, again)

    assert after[0] is before[0]
    assert after[1] == msgspec.structs.replace(before[1], agent="front", name="front")
    assert after[3] == Message("user", "and that")
    assert conversions.of(A, deepcopy(again)) == after


def test_lists_that_share_their_front_stay_apart_behind_it() -> None:
    conversions, messages = Conversions(), make_messages()
    conversions.of(A, messages)

    other = conversions.of(B, [*messages[:2], HumanMessage("Else")])

    assert other == [*map(as_message, messages[:2]), Message("user", "Else")]
    assert conversions.of(A, messages) == [*map(as_message, messages)]


def test_instructions_that_are_made_anew_do_not_hide_the_rest() -> None:
    conversions, messages = Conversions(), make_messages()
    before = conversions.of(A, [SystemMessage("Help"), *messages])

    after = conversions.of(A, [SystemMessage("Help on Monday"), *messages])

    assert after[0] == Message("system", "Help on Monday")
    assert [item is other for item, other in zip(before[1:], after[1:], strict=True)] == [True] * 5


def text(messages: list[Any]) -> None:
    messages[0].content = "Bye"


def name(messages: list[Any]) -> None:
    messages[1].name = "other"


def argument(messages: list[Any]) -> None:
    messages[1].tool_calls[0]["args"]["at"].append("b")


def calls(messages: list[Any]) -> None:
    messages[1].tool_calls = []


def part(messages: list[Any]) -> None:
    messages[3].content[0]["text"] = "and that"


@pytest.mark.parametrize("change", [text, name, argument, calls, part])
def test_a_message_that_is_changed_in_place_is_converted_again(
    change: Callable[[list[Any]], None],
) -> None:
    conversions, messages = Conversions(), make_messages()
    before = conversions.of(A, messages)
    change(messages)

    after = conversions.of(A, messages)

    assert after == [as_message(message) for message in messages]
    assert after != before


class Checked(AIMessage):  # type: ignore[misc]
    """A message of somebody's that holds something new whenever it is changed."""

    model_config = ConfigDict(validate_assignment=True)


def test_a_message_that_checks_what_it_is_given_is_converted_again_too() -> None:
    conversions, message = Conversions(), Checked(content="Yes", tool_calls=[])
    before = conversions.of(A, [message])
    message.content = "No"

    after = conversions.of(A, [message])

    assert (before, after) == ([Message("assistant", "Yes")], [Message("assistant", "No")])


def test_a_call_that_was_changed_in_place_does_not_change_what_was_told_of_it() -> None:
    conversions, messages = Conversions(), make_messages()
    before = conversions.of(A, messages)
    argument(messages)

    assert before[1].calls == (ToolCall("1", "look", {"at": ["a"]}),)
