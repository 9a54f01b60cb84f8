"""LangChain's messages as ours, each converted once, and again where it was changed in place."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import pytest

if find_spec("langgraph") is None:
    pytest.skip("langgraph is not installed", allow_module_level=True)

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from simkit.adapters.langgraph.messages import Conversions, as_message
from simkit.messages import Message, ToolCall


def said() -> list[Any]:
    return [
        HumanMessage("Hello"),
        AIMessage("", tool_calls=[{"name": "look", "args": {"at": ["a"]}, "id": "1"}], name="desk"),
        ToolMessage("seen", tool_call_id="1", name="look"),
        HumanMessage([{"type": "text", "text": "and this"}]),
        AIMessage("Fine"),
    ]


def test_messages_say_in_our_words_what_they_said() -> None:
    assert Conversions().of("a", said()) == [
        Message("user", "Hello"),
        Message("assistant", "", agent="desk", calls=(ToolCall("1", "look", {"at": ["a"]}),)),
        Message("tool", "seen", call_id="1", tool="look"),
        Message("user", "and this"),
        Message("assistant", "Fine"),
    ]


def test_of_a_list_that_grows_only_what_is_new_is_converted() -> None:
    conversions, messages = Conversions(), said()
    before = conversions.of("a", messages)

    after = conversions.of("a", [*messages, HumanMessage("More")])

    assert [one is other for one, other in zip(before, after, strict=False)] == [True] * 5
    assert after[5:] == [Message("user", "More")]


def test_instructions_that_are_made_anew_do_not_hide_the_rest() -> None:
    conversions, messages = Conversions(), said()
    before = conversions.of("a", [SystemMessage("Help"), *messages])

    after = conversions.of("a", [SystemMessage("Help on Monday"), *messages])

    assert after[0] == Message("system", "Help on Monday")
    assert [one is other for one, other in zip(before[1:], after[1:], strict=True)] == [True] * 5


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
    conversions, messages = Conversions(), said()
    before = conversions.of("a", messages)
    change(messages)

    after = conversions.of("a", messages)

    assert after == [as_message(one) for one in messages]
    assert after != before


def test_a_call_that_was_changed_in_place_does_not_change_what_was_told_of_it() -> None:
    conversions, messages = Conversions(), said()
    before = conversions.of("a", messages)
    argument(messages)

    assert before[1].calls == (ToolCall("1", "look", {"at": ["a"]}),)
