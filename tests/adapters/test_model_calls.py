"""Which offered tool takes a value that a reply line gives, and as which arguments."""

from __future__ import annotations

from typing import Any

import pytest

from simkit.adapters.model_calls import args_of, concluded, output_of, output_tool
from simkit.core.messages import Message, ToolCall
from simkit.providers.values import Offer, ParsedRequest
from simkit.trace.events import ToolCalled
from tests.adapters.scribes import Desk

NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
WORD = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}
OFFERS = (Offer("look_up", WORD), Offer("final_number", NUMBER), Offer("final_word", WORD))
TOOLS = {"final_number": "", "final_word": ""}


def name_of(parsed_request: ParsedRequest, value: object) -> str | None:
    offer = output_tool(parsed_request, value, TOOLS)
    return offer.name if offer is not None else None


@pytest.mark.parametrize(
    ("value", "name"),
    [({"n": 1}, "final_number"), ({"word": "x"}, "final_word"), ({"m": 1}, "final_number")],
)
def test_the_first_output_tool_that_takes_a_value_is_called_or_the_first(
    value: object, name: str
) -> None:
    assert name_of(ParsedRequest("p", "m", (), OFFERS), value) == name


def test_the_tool_that_must_be_called_is_called_whatever_it_takes() -> None:
    assert name_of(ParsedRequest("p", "m", (), OFFERS, choice="look_up"), {"n": 1}) == "look_up"


def test_where_the_request_asks_for_a_schema_output_is_text() -> None:
    assert name_of(ParsedRequest("p", "m", (), OFFERS, output=NUMBER), {"n": 1}) is None


def test_where_no_output_tool_is_offered_output_is_text() -> None:
    assert name_of(ParsedRequest("p", "m", (), OFFERS[:1]), {"word": "x"}) is None


def test_a_value_that_is_no_object_is_the_one_argument() -> None:
    two: dict[str, Any] = {"properties": {"a": {}, "b": {}}}
    pairs = (([1], OFFERS[1]), ({"n": 1}, OFFERS[1]), (1, Offer("x", two)))

    assert [args_of(value, offer, TOOLS) for value, offer in pairs] == [{"n": [1]}, {"n": 1}, 1]


@pytest.mark.parametrize("value", [1, "one", None, [1], {"n": 1}, {"word": "x"}])
def test_an_argument_that_is_named_holds_the_output_whatever_that_is(value: Any) -> None:
    tools = {"final_number": "n"}
    args = args_of(value, OFFERS[1], tools)

    assert args == {"n": value}
    assert output_of(ToolCall("1", "final_number", args), tools) == value


def test_without_a_named_argument_the_arguments_are_the_output() -> None:
    assert output_of(ToolCall("1", "final_number", {"n": 1}), TOOLS) == {"n": 1}


def test_arguments_that_are_no_object_are_the_output() -> None:
    call = ToolCall("1", "final_number", "not JSON")

    assert output_of(call, {"final_number": "n"}) == "not JSON"


def test_a_call_of_an_output_tool_is_no_tool_at_work_and_gives_the_output() -> None:
    desk = Desk()
    desk.turn("hi")
    run = desk.run()
    desk.recorder.set_output_tools(run, {"final_number": "n"})

    call = desk.asks([Message("user", "hi")])
    reply = desk.answers(call, "", ToolCall("x", "final_number", {"n": 3}))
    concluded(desk.recorder, run, reply)
    desk.ends()

    assert [*desk.recorder.pending("final_number")] == []
    assert desk.view.runs[run.id].output == 3
    assert [event for event in desk.trace.events if isinstance(event, ToolCalled)] == []


def test_a_run_that_also_calls_another_tool_goes_on() -> None:
    desk = Desk()
    desk.turn("hi")
    run = desk.run()
    desk.recorder.set_output_tools(run, {"final_number": "n"})
    both = ToolCall("x", "final_number", {"n": 3}), ToolCall("y", "look_up", {"word": "w"})

    concluded(desk.recorder, run, desk.answers(desk.asks([Message("user", "hi")]), "", *both))

    assert not run.is_over
    assert [request.call.name for request in desk.recorder.pending("look_up")] == ["look_up"]
