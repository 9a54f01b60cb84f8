"""One run's model calls: what is checked before them, what contexts repeat, what is counted."""

from __future__ import annotations

from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.core.errors import OutputInvalid
from simkit.runtime import compiled
from simkit.runtime.running import parsed
from simkit.trace.events import ContextBuilt, MessageAdded, ReplyParsed
from tests.building import run_yaml

ONE_TOOL: Final = """
version: 1
pipeline: p
channels: {last: {}}
agents: {desk: {instructions: Help., tools: [find], writes: {}, %s}}
tools: {find: {}}
flow: {handoffs: {start: desk}}
"""
CALLED: Final = """
turns:
  - user: Hi
    replies: {desk: [{calls: {find: {id: 1}}}, Hello]}
    tool_results: {find: Done}
"""


def test_rule_that_stands_in_writes_for_an_agent_that_writes_nothing() -> None:
    rule = "before: [{when: {user: Hi}, writes: {last: rule}}]"
    ran = run_yaml(ONE_TOOL % rule, "turns: [{user: Hi}]")

    assert (ran.runs("desk")[0].status, ran.state("last")) == ("stood_in", "rule")


def test_input_is_checked_before_an_answer_is_used() -> None:
    ran = run_yaml(
        ONE_TOOL % "input: {type: object}",
        "turns: [{user: Hi, replies: {desk: Hello}}]",
        fits=False,
    )

    assert (ran.error() or ("",))[0] == "InputInvalid"


def test_single_result_with_a_condition_answers_only_what_it_names() -> None:
    turn = """
    turns:
      - user: Hi
        replies: {desk: [{calls: {find: {id: 1}}}, Hello]}
        tool_results: {find: {returns: 3, when: {id: 2}}}
    """
    ran = run_yaml(ONE_TOOL % "sees: [desk]", turn, fits=False)

    assert (ran.error() or ("",))[0] == "ToolMissing"


def test_second_context_of_a_run_repeats_no_part() -> None:
    contexts = run_yaml(ONE_TOOL % "sees: [desk]", CALLED).events(ContextBuilt)

    assert [(bool(event.parts), event.base) for event in contexts] == [(True, ""), (False, "c1")]


def test_messages_are_counted_by_the_counter_of_the_pipeline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compiled, "counter_named", lambda _: lambda text: 7)

    messages = run_yaml(ONE_TOOL % "sees: [desk]", CALLED).events(MessageAdded)

    # A message with calls has a name and arguments, and no text.
    assert [event.tokens for event in messages] == [7, 14, 7, 7]


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
    [("Sure!", "'Sure!'"), ("x" * 90, f"'{'x' * 79}…'"), ('{"a": 1', "'{\"a\": 1'")],
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
