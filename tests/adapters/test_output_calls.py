"""Which offered tool takes a value that a reply line gives, and as which arguments."""

from __future__ import annotations

from typing import Any

import pytest

from simkit.adapters.output_calls import args_of, output_tool
from simkit.providers.values import Offer, ParsedRequest

NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
WORD = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}
OFFERS = (Offer("look_up", WORD), Offer("final_number", NUMBER), Offer("final_word", WORD))
TOOLS = ("final_number", "final_word")


def name_of(asked: ParsedRequest, value: object) -> str | None:
    found = output_tool(asked, value, TOOLS)
    return found.name if found is not None else None


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

    assert [args_of([1], OFFERS[1]), args_of({"n": 1}, OFFERS[1]), args_of(1, Offer("x", two))] == [
        {"n": [1]}, {"n": 1}, 1,
    ]  # fmt: skip
