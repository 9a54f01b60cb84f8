"""Schemas at work: what channels may hold, what agents may be given and may put out."""

from __future__ import annotations

from typing import Any

import pytest

from simkit.core.errors import SourceError, Unsupported
from simkit.language.json_schema import schema_errors
from simkit.runtime.functions import schema_of
from simkit.runtime.speakers import refers_inside, self_contained
from tests.building import Ran, run_yaml
from tests.golden import assert_says, cases
from tests.runtime.graphs import graph, order, problems, ran


def test_reference_to_a_named_schema_is_that_schema() -> None:
    assert schema_of({"$ref": "Meal"}, {"Meal": {"type": "object"}}) == {"type": "object"}


def test_reference_that_is_part_of_a_schema_stays() -> None:
    schema = {"$ref": "Meal", "required": ["food"]}

    assert schema_of(schema, {"Meal": {}}) == schema


def test_model_is_asked_for_its_schema() -> None:
    schema = schema_of("tests.functions:Meal", {})

    assert isinstance(schema, dict)
    assert schema["required"] == ["food"]


def test_what_is_no_model_has_no_schema() -> None:
    with pytest.raises(Unsupported) as caught:
        schema_of("tests.functions:add", {})

    assert str(caught.value) == "`tests.functions:add` is no pydantic model"


def test_a_schema_for_somebody_else_brings_those_that_it_names() -> None:
    named = {
        "Case": {
            "properties": {"order": {"$ref": "Order"}, "last": {"$ref": "#/properties/order"}}
        },
        "Order": {"items": {"$ref": "Order#/$defs/a~b"}, "$defs": {"a~b": {"type": "string"}}},
        "Unused": {},
    }
    schema = {"$ref": "Case", "$defs": {"own": {}}, "not": {"$ref": "#/$defs/own"}}

    result = self_contained(schema, named)

    assert result == {
        "$ref": "#/$defs/Case",
        "not": {"$ref": "#/$defs/own"},
        "$defs": {
            "own": {},
            "Case": {
                "properties": {
                    "order": {"$ref": "#/$defs/Order"},
                    "last": {"$ref": "#/$defs/Case/properties/order"},
                }
            },
            "Order": {
                "items": {"$ref": "#/$defs/Order/$defs/a~b"},
                "$defs": {"a~b": {"type": "string"}},
            },
        },
    }
    value = {"order": ["x", 1], "last": 2}
    assert schema_errors(result, value) == schema_errors(schema, value, named)


def test_a_schema_that_names_none_stays_as_it_is() -> None:
    schema = {"type": "array", "items": [{"$ref": "#/$defs/a"}], "$defs": {"a": True}}

    assert self_contained(schema, {"Case": {}}) == schema
    assert refers_inside(schema)
    assert not refers_inside({"properties": {"$ref": {"type": "string"}}, "enum": ["#"]})


# Channels


def run_writes(channel: str, *writes: str, expect: str = "{}") -> Ran:
    """Writes to one channel, one run a turn; replies are JSON that is written."""
    turns = "".join(
        f"  - {{user: Hi, replies: {{a: {{json: {value}}}}}"
        f"{f', expect: {expect}' if place == len(writes) - 1 else ''}}}\n"
        for place, value in enumerate(writes)
    )
    return run_yaml(
        f"""
        channels: {{kept: {channel}}}
        agents: {{a: {{parse: json, writes: {{kept: "${{run.output}}"}}}}}}
        flow: {{handoffs: {{start: a}}}}
        """,
        f"turns:\n{turns}",
    )


ITEMS = "{reducer: append, schema: {type: array, items: {required: [n]}}}"
REFUSED = "{error: {type: WriteInvalid}}"


@cases(__file__, "refused")
def test_write_that_a_schema_refuses_is_an_error(
    channel: str, writes: list[str], says: str
) -> None:
    outcome = run_writes(channel, *writes, expect=REFUSED)

    assert problems(outcome) == []
    kind, text = outcome.error() or ("", "")
    assert kind == "WriteInvalid"
    assert_says(text, says)
    # Nothing is written where something is refused.
    assert outcome.runs("a")[0].update == {}


@pytest.mark.parametrize(
    ("channel", "writes", "value"),
    [
        ("{schema: {type: object, required: [n]}}", ["{n: 1}"], {"n": 1}),
        ("{reducer: append, schema: {type: array, items: {required: [n]}}}", ["{n: 1}", "[{n: 2}]"],
         [{"n": 1}, {"n": 2}]),
        ("{reducer: append, schema: {type: array, items: {required: [n]}}}", ["[]"], []),
        ("{schema: 'tests.functions:Meal'}", ["{food: pizza}"], {"food": "pizza"}),
    ],
)  # fmt: skip
def test_write_that_a_schema_allows_is_made(channel: str, writes: list[str], value: Any) -> None:
    outcome = run_writes(channel, *writes)

    assert problems(outcome) == []
    assert outcome.state("kept") == value


def test_schema_may_name_another_and_sees_messages_as_what_they_say() -> None:
    pipeline = """
        channels: {messages: {reducer: append, schema: {$ref: Talk}}}
        schemas:
          Talk: {type: array, items: {$ref: Said}}
          Said: {type: object, required: [role, content], properties: {content: {maxLength: 5}}}
        agents: {a: {instructions: A.}}
        flow: {handoffs: {start: a}}
    """
    good = run_yaml(pipeline, "turns: [{user: Hi, replies: {a: Hello}}]")
    bad = run_yaml(pipeline, f"turns: [{{user: Hi, replies: {{a: Hello you}}, expect: {REFUSED}}}]")

    assert (problems(good), problems(bad)) == ([], [])
    assert bad.error() == ("WriteInvalid", "channel `messages`[1].content: 'Hello you' is too long")


def test_given_value_that_a_schema_refuses_is_told_at_its_place() -> None:
    with pytest.raises(SourceError) as caught:
        run_yaml(
            """
            channels: {n: {schema: {type: integer}}}
            agents: {a: {}}
            flow: {handoffs: {start: a}}
            """,
            """
            given: {state: {n: many}}
            turns: [{user: Hi, replies: {a: x}}]
            """,
        )

    assert str(caught.value) == (
        "test.scenario.yaml:10:16: channel `n`: 'many' is not of type 'integer'"
    )


def test_schema_holds_in_branches_too() -> None:
    item = ran(
        graph("s>a s>b a>m b>m", {"b": "writes: {n: '${run.output}'}"},
              head="channels: {n: {schema: {type: [integer, 'null']}}}", s="role: split",
              m="role: merge, exit: true"),
        "{error: {type: WriteInvalid}}",
        s="s", a="a", b="{text: many, latency_ms: 3}",
    )  # fmt: skip

    assert problems(item) == []
    assert item.error() == (
        "WriteInvalid", "channel `n`: 'many' is not of type 'integer', 'null'"
    )  # fmt: skip


# Agents

WANTS = "{type: object, required: [n], properties: {n: {type: integer}}}"


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        ("{json: {m: 1}}", "the input of agent 'b': 'n' is a required property"),
        ("{json: {n: x}}", "the input of agent 'b'.n: 'x' is not of type 'integer'"),
        ("text", "the input of agent 'b': 'text' is not of type 'object'"),
    ],
)
@pytest.mark.parametrize("is_function", [False, True])
def test_input_that_its_schema_refuses_is_an_error(
    reply: str, says: str, is_function: bool
) -> None:
    function = ", function: 'tests.functions:shout'" if is_function else ""
    item = ran(
        graph("a>b", {"b": f"input: {WANTS}{function}"}, b="exit: true"),
        "{error: {type: InputInvalid}}", a=reply,
    )  # fmt: skip

    assert problems(item) == []
    assert item.error() == ("InputInvalid", says)
    assert [run.status for run in item.turn().runs] == ["done", "failed"]


def test_input_that_its_schema_allows_is_taken() -> None:
    item = ran(graph("a>b", {"b": f"input: {WANTS}"}, b="exit: true"), a="{json: {n: 1}}", b="x")

    assert (problems(item), order(item)) == ([], ["a", "b"])


def test_input_of_a_merge_is_a_mapping_of_its_branches() -> None:
    wants = "{type: object, required: [a, b], additionalProperties: {type: string}}"
    item = ran(
        graph("s>a s>b a>m b>m", {"m": f"input: {wants}"}, s="role: split",
              m="role: merge, exit: true"),
        "{error: {type: InputInvalid}}", s="s", a="a", b="{json: {n: 1}}",
    )  # fmt: skip

    assert problems(item) == []
    assert item.error() == (
        "InputInvalid",
        "the input of agent 'm'.b: {'n': 1} is not of type 'string'",
    )


def test_output_of_a_tool_is_held_against_the_schema() -> None:
    outcome = run_yaml(
        f"""
        agents: {{a: {{output: {WANTS}, returns: tool_output, tools: [look]}}}}
        tools: {{look: {{}}}}
        flow: {{handoffs: {{start: a}}}}
        """,
        """
        turns:
          - user: Hi
            replies: {a: {calls: [look: {}]}}
            tool_results: {look: '{"n": "x"}'}
            expect: {error: {type: OutputInvalid}}
        """,
    )

    assert problems(outcome) == []
    assert outcome.error() == (
        "OutputInvalid", "the output of agent 'a'.n: 'x' is not of type 'integer'"
    )  # fmt: skip


def test_output_of_a_function_is_held_against_the_schema() -> None:
    outcome = run_yaml(
        f"""
        agents: {{a: {{output: {WANTS}, function: "tests.functions:count_letters"}}}}
        flow: {{handoffs: {{start: a}}}}
        """,
        "turns: [{user: Hi, expect: {error: {type: OutputInvalid}}}]",
    )

    assert problems(outcome) == []
    assert outcome.error() == (
        "OutputInvalid",
        "the output of agent 'a': 'n' is a required property",
    )
