from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from simkit.core.errors import MatcherError, PatternTooSlow
from simkit.language import expressions
from simkit.language.json_schema import check_schema, schema_errors
from simkit.language.yaml import path_text
from tests.golden import assert_says, cases
from tests.language.error_texts import error_text


@cases(__file__, "errors")
def test_errors_say_where_and_what_in_the_words_of_jsonschema(
    schema: Any, value: Any, says: str
) -> None:
    errors = schema_errors(schema, value)

    assert_says("\n".join(f"{path_text(path)}: {text}" for path, text in errors), says)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "integer"}, 1.0),
        ({"type": "array"}, (1, 2)),
        ({"enum": [1.0]}, 1),
        ({"format": "email", "title": "x", "x-mine": 1}, "no mail"),
        ({"required": ["a"]}, "not a mapping"),
        (True, object()),
    ],
)
def test_value_that_satisfies_has_no_errors(schema: Any, value: Any) -> None:
    assert schema_errors(schema, value) == []


def test_references_lead_into_definitions_and_into_the_registry() -> None:
    schema = {
        "$defs": {"name": {"type": "string"}},
        "properties": {"a": {"$ref": "#/$defs/name"}, "b": {"$ref": "Route"}},
    }
    registry = {"Route": {"$defs": {"to": {"const": "x"}}, "items": {"$ref": "#/$defs/to"}}}

    assert schema_errors(schema, {"a": 1, "b": ["x", "y"]}, registry) == [
        (("a",), "1 is not of type 'string'"),
        (("b", 1), "'x' was expected"),
    ]


def test_references_lead_to_anchors() -> None:
    schema = {"items": {"$ref": "#it"}, "$defs": {"it": {"$anchor": "it", "type": "string"}}}

    assert schema_errors(schema, ["a", 1]) == [((1,), "1 is not of type 'string'")]


def test_references_may_form_a_ring() -> None:
    tree = {"properties": {"next": {"$ref": "#"}, "value": {"type": "integer"}}}

    assert schema_errors(tree, {"next": {"next": {"value": "x"}}}) == [
        (("next", "next", "value"), "'x' is not of type 'integer'")
    ]


@cases(__file__, "malformed")
def test_malformed_schema_is_refused_with_its_place(schema: Any, says: str) -> None:
    with pytest.raises(MatcherError) as raised:
        check_schema(schema, {"Route": {}})

    assert_says(error_text(raised.value), says)


def test_properties_that_are_not_declared_are_reported_in_their_order() -> None:
    schema = {"additionalProperties": {"type": "string"}}

    assert [path for path, _ in schema_errors(schema, dict.fromkeys("dbca", 1))] == [
        ("a",),
        ("b",),
        ("c",),
        ("d",),
    ]


def test_nothing_is_fetched_and_no_other_draft_is_used() -> None:
    """A schema's own address changes no reference, and `$schema` does not change the validator."""
    schema = {
        "$id": "https://example.com/order.json",
        "$schema": "http://json-schema.org/draft-04/schema#",
        "properties": {"a": {"$ref": "Amount"}, "b": {"$ref": "#"}},
        "exclusiveMinimum": 3,
    }

    assert schema_errors(schema, {"a": 1, "b": 3}, {"Amount": {"type": "string"}}) == [
        (("a",), "1 is not of type 'string'"),
        (("b",), "3 is less than or equal to the minimum of 3"),
    ]
    with pytest.raises(MatcherError, match="no schema is named 'https://"):
        check_schema({"$ref": "https://example.com/x"})


@pytest.mark.parametrize("name", ["Line item", "a/b", "a:b", "a%20b", "50%"])
def test_a_named_schema_may_have_any_name(name: str) -> None:
    registry = {name: {"$defs": {"x y": {"const": 1}}}}

    errors = schema_errors({"items": {"$ref": f"{name}#/$defs/x y"}}, [2], registry)

    assert errors == [((0,), "1 was expected")]


SLOW = "^" + "(a|aa)" * 40 + "x$"


@pytest.mark.parametrize(
    "schema",
    [
        {"pattern": SLOW},
        {"patternProperties": {SLOW: False}},
        {"patternProperties": {SLOW: {}}, "additionalProperties": False},
    ],
)
def test_no_pattern_can_hang_a_run(schema: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expressions, "CPU_SECONDS_MAX", 0.01)
    text = "a" * 40 + "!"

    with pytest.raises(PatternTooSlow):
        schema_errors(schema, text if "pattern" in schema else {text: 1})


def test_long_values_are_shortened() -> None:
    [(_, text)] = schema_errors({"type": "integer"}, "x" * 1_000)

    assert text == f"'{'x' * 198}… is not of type 'integer'"


def test_values_that_are_no_json_have_errors_too() -> None:
    value = {"a": float("nan"), "b": (1, "x"), "c": object}
    schema = {"properties": {"a": {"multipleOf": 2}, "b": {"items": {"type": "integer"}}}}

    assert schema_errors(schema, value) == [
        (("a",), "nan is not a multiple of 2"),
        (("b", 1), "'x' is not of type 'integer'"),
    ]
    assert schema_errors({"properties": {"c": {"type": "string"}}}, value) == [
        (("c",), "<class 'object'> is not of type 'string'")
    ]


def test_the_library_is_imported_when_a_value_is_checked() -> None:
    """Its import takes a tenth of a second, and most commands check none."""
    code = (
        "import sys\nfrom simkit.language.json_schema import check_schema, schema_errors\n"
        "check_schema({'type': 'object'})\nassert 'jsonschema' not in sys.modules\n"
        "schema_errors({'type': 'object'}, 1)\nassert 'jsonschema' in sys.modules\n"
    )

    subprocess.run([sys.executable, "-c", code], check=True)
