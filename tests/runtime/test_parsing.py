"""How a reply's text becomes the run's output."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.core.errors import OutputInvalid
from simkit.runtime.parsing import parsed
from simkit.trace.events import ReplyParsed
from tests.building import run_yaml

PROSE = 'Here it is: {"a": [1, {"b": 2}]} and {"c": 3}.'


@pytest.mark.parametrize(
    ("parse", "text", "output", "how"),
    [
        ("auto", '{"a": 1}', {"a": 1}, "json"),
        ("auto", " \n[1, 2]\n", [1, 2], "json"),
        ("auto", "12", "12", ""),
        ("auto", "true", "true", ""),
        ("auto", "null", "null", ""),
        ("auto", '"quoted"', '"quoted"', ""),
        ("auto", '{"a": 1', '{"a": 1', ""),
        ("auto", '{"a": 1} and more', '{"a": 1} and more', ""),
        ("auto", PROSE, PROSE, ""),
        ("auto", "", "", ""),
        ("text", '{"a": 1}', '{"a": 1}', ""),
        ("json", '{"a": 1}', {"a": 1}, "json"),
        ("json", " 12 ", 12, "json"),
        ("json", "null", None, "json"),
        ("json", '"x"', "x", "json"),
        ("json_or_text", "12", 12, "json"),
        ("json_or_text", " true ", True, "json"),
        ("json_or_text", "null", None, "json"),
        ("json_or_text", '"x"', "x", "json"),
        ("json_or_text", "[1]", [1], "json"),
        ("json_or_text", "True", "True", ""),
        ("json_or_text", "12 rolls", "12 rolls", ""),
        ("json_or_text", PROSE, PROSE, ""),
        ("json_in_text", '{"a": 1}', {"a": 1}, "json"),
        ("json_in_text", "12", 12, "json"),
        ("json_in_text", PROSE, {"a": [1, {"b": 2}]}, "json_in_text"),
        ("json_in_text", "First {not json}, then [1].", [1], "json_in_text"),
        ("json_in_text", '```json\n{"a": 1}\n```', {"a": 1}, "json_in_text"),
        ("json_in_text", "none at all", "none at all", "text"),
        ("json_in_text", "", "", "text"),
    ],
)
def test_text_is_read_as_this_value(parse: str, text: str, output: Any, how: str) -> None:
    assert parsed(text, parse, "helper") == (output, how)


@given(st.text('{}[]",:a1 \n\t\x1f\x85\xa0\u2003é~!\x7f', max_size=12))
def test_text_whose_first_character_opens_json_may_be_json(text: str) -> None:
    try:
        value = msgspec.json.decode(text.strip())
    except msgspec.DecodeError:
        value = None
    expected = (value, "json") if isinstance(value, (dict, list)) else (text, "")

    assert parsed(text, "auto", "helper") == expected


@pytest.mark.parametrize(
    ("text", "output"),
    [("Sure!", "'Sure!'"), ("x" * 90, f"'{'x' * 77}…'"), ('{"a": 1', "'{\"a\": 1'")],
)
def test_text_where_json_must_stand_is_an_error(text: str, output: str) -> None:
    with pytest.raises(OutputInvalid) as error:
        parsed(text, "json", "helper")

    assert str(error.value) == f"agent 'helper' must answer with JSON, but said: {output}"


def test_run_tells_how_its_text_was_read_and_keeps_the_text_in_the_log() -> None:
    ran = run_yaml(
        "agents: {helper: {parse: json_in_text}}\nflow: {handoffs: {start: helper}}",
        "turns:\n  - {user: Hi, replies: {helper: 'It is [1, 2].'}}",
    )
    pairs = [(e.how, e.value) for e in ran.events(ReplyParsed)]

    assert pairs == [("json_in_text", [1, 2])]
    assert ran.runs("helper")[0].output == [1, 2]
    assert ran.turn().reply == [1, 2]
    assert ran.state("messages") == ["user: Hi", "assistant/helper: It is [1, 2]."]


def test_thought_is_told_where_json_was_looked_for_and_not_where_text_is_wanted() -> None:
    ran = run_yaml(
        "agents: {helper: {parse: json_in_text}, bare: {}}\n"
        "flow: {supervisor: {goals: {g: {steps: [helper: Act, bare: Say]}}}}",
        "turns:\n  - {user: Hi, replies: {helper: Let me think., bare: Hello.}}",
    )
    pairs = [(e.agent, e.how, e.value) for e in ran.events(ReplyParsed)]

    assert pairs == [("helper", "text", "Let me think.")]
