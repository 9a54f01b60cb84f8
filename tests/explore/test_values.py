"""Values that exploration makes are values that the schema allows."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.explore.choices import Choices
from simkit.explore.values import value_of
from simkit.language.json_schema import schema_errors

LEAF: dict[str, Any] = {"type": "string"}
SCHEMAS: dict[str, Any] = {
    "a text": LEAF,
    "a number in bounds": {"type": "integer", "minimum": 3, "maximum": 5},
    "one of some": {"enum": ["a", 2, None]},
    "a constant": {"const": {"x": 1}},
    "true or false": {"type": "boolean"},
    "a list": {"type": "array", "items": LEAF, "minItems": 1, "maxItems": 2},
    "an object": {
        "type": "object",
        "properties": {"order": LEAF, "amount": {"type": "number"}, "why": LEAF},
        "required": ["order", "amount"],
        "additionalProperties": False,
    },
    "either": {"anyOf": [{"type": "null"}, LEAF, {"type": "integer"}]},
    "both": {"allOf": [{"type": "object", "properties": {"a": LEAF}, "required": ["a"]},
                       {"type": "object", "properties": {"b": LEAF}, "required": ["b"]}]},
    "a tree": {
        "$ref": "#/$defs/node",
        "$defs": {"node": {"type": "object", "properties": {
            "name": LEAF, "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
            "required": ["name"]}},
    },
    "a date": {"type": "string", "format": "date"},
    "nullable": {"type": ["string", "null"]},
    "anything": {},
}  # fmt: skip
NUMBERS = st.integers(0, 2**60)


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
@given(number=NUMBERS)
def test_a_value_fits_its_schema(schema: Any, number: int) -> None:
    value = value_of(schema, Choices(number), ["A-1042"], {})

    assert schema_errors(schema, value) == []


def test_texts_are_those_that_the_conversation_knows() -> None:
    values = {value_of(LEAF, Choices(number), ["A-1042", "B-7"], {}) for number in range(14)}

    assert values == {"A-1042", "B-7"}


def test_no_choice_is_the_simplest_value() -> None:
    assert value_of(SCHEMAS["an object"], Choices(), (), {}) == {"order": "order", "amount": 1}


def test_a_schema_of_which_no_value_is_known_is_said_to_be_one() -> None:
    with pytest.raises(ValueError, match="no value"):
        value_of({"type": "string", "pattern": "(?=a)b"}, Choices(), (), {})
