"""Handoffs are calls of tools: what a model would say to make one, and what such a call says."""

from __future__ import annotations

from typing import Any

import pytest

from simkit.adapters.recorder.handoffs import HandoffFields, args_for, misfit_of, told_by
from simkit.core.messages import Handoff

ORDER: dict[str, Any] = {
    "type": "object",
    "required": ["order", "source"],
    "properties": {"order": {"type": "string"}, "source": {"const": "triage"}},
}
WHOLE: dict[str, Any] = {
    "type": "object",
    "required": ["type", "payload"],
    "properties": {
        "type": {"const": "refund"},
        "query": {"type": "string"},
        "payload": {"$ref": "#/$defs/Order"},
    },
    "$defs": {"Order": ORDER},
}


@pytest.mark.parametrize("schema", [None, True, {}, {"properties": {"order": {}}}])
def test_the_payload_is_the_arguments_of_a_tool_that_names_no_payload(schema: Any) -> None:
    line = Handoff("refunds", payload={"order": "A-1"})

    assert args_for(line, schema) == {"order": "A-1"}
    assert args_for(Handoff("refunds"), schema) == {}


def test_a_query_stands_beside_the_payload_where_the_tool_names_none() -> None:
    line = Handoff("refunds", payload={"order": "A-1"}, query="Refund it")

    assert args_for(line, None) == {"order": "A-1", "query": "Refund it"}


def test_a_tool_that_names_a_payload_is_told_each_part_by_its_name() -> None:
    line = Handoff(
        "refunds", payload={"order": "A-1", "source": "me"}, type="return", query="Take it"
    )

    assert args_for(line, WHOLE) == {
        "type": "return",
        "query": "Take it",
        "payload": {"order": "A-1", "source": "me"},
    }


def test_what_a_schema_requires_and_leaves_no_choice_about_is_said_by_any_model() -> None:
    line = Handoff("refunds", payload={"order": "A-1"})

    assert args_for(line, WHOLE) == {
        "type": "refund",
        "payload": {"order": "A-1", "source": "triage"},
    }
    assert args_for(line, ORDER) == {"order": "A-1", "source": "triage"}
    assert args_for(line, {**ORDER, "required": ["order"]}) == {"order": "A-1"}


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            {"type": "refund", "query": "q", "payload": {"a": 1}},
            HandoffFields({"a": 1}, "refund", "q"),
        ),
        ({"payload": {}}, HandoffFields({})),
        ({"payload": {"a": 1}, "more": 2}, HandoffFields({"payload": {"a": 1}, "more": 2})),
        ({"query": "q"}, HandoffFields({"query": "q"})),
        ({"payload": 1, "type": ["refund"]}, HandoffFields(1)),
        ({}, HandoffFields()),
        (None, HandoffFields()),
        ("text", HandoffFields("text")),
    ],
)
def test_a_call_says_what_it_names(args: Any, message: HandoffFields) -> None:
    assert told_by(args) == message


@pytest.mark.parametrize("query", [None, "Refund it"])
def test_a_payload_without_keys_is_no_tools_arguments(query: str | None) -> None:
    with pytest.raises(ValueError, match="it has none"):
        args_for(Handoff("refunds", payload=[1], query=query), None)


@pytest.mark.parametrize(
    ("args", "schema", "wrong"),
    [
        ({"order": "A-1", "source": "triage"}, ORDER, ""),
        ({"order": "A-1"}, None, ""),
        ({"order": "A-1"}, True, ""),
        ({"order": 1, "source": "triage"}, ORDER, "order: 1 is not of type 'string'"),
        (
            {"type": "refund", "payload": {"order": 1}}, WHOLE,
            "payload: 'source' is a required property; payload.order: 1 is not of type 'string'",
        ),
        (
            {}, {"required": ["a", "b", "c", "d", "e"]},
            "'a' is a required property; 'b' is a required property; 'c' is a required property; "
            "and 2 more",
        ),
    ],
)  # fmt: skip
def test_what_a_schema_refuses_of_a_call_is_told_by_field(
    args: Any, schema: Any, wrong: str
) -> None:
    assert misfit_of(args, schema) == wrong
