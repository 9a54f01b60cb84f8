from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.core.errors import MatcherError
from simkit.language.json_schema import check_schema, compile_schema, schema_errors
from simkit.language.json_schema.keywords import KEYWORDS
from simkit.language.json_schema.quick import quick_test


@pytest.mark.parametrize(
    ("schema", "value", "errors"),
    [
        ({"required": ["data"]}, {"rows": 3}, [((), "'data' is a required property")]),
        ({"type": "integer"}, True, [((), "True is not of type 'integer'")]),
        ({"type": ["string", "null"]}, 1, [((), "1 is not of type 'string', 'null'")]),
        ({"enum": ["a", 1]}, True, [((), "True is not one of ['a', 1]")]),
        ({"const": {"a": 1}}, {"a": 2}, [((), "{'a': 1} was expected")]),
        (
            {"properties": {"a": {"properties": {"b": {"type": "string"}}}}},
            {"a": {"b": 1}},
            [(("a", "b"), "1 is not of type 'string'")],
        ),
        (
            {"properties": {"a": {}}, "additionalProperties": False},
            {"a": 1, "c": 1, "b": 1},
            [((), "Additional properties are not allowed ('b', 'c' were unexpected)")],
        ),
        ({"items": {"minimum": 2}}, [3, 1], [((1,), "1 is less than the minimum of 2")]),
        ({"minItems": 1}, [], [((), "[] should be non-empty")]),
        ({"maxLength": 2}, "abc", [((), "'abc' is too long")]),
        ({"pattern": "^a"}, "ba", [((), "'ba' does not match '^a'")]),
        (
            {"anyOf": [{"type": "null"}, {"type": "string"}]},
            1,
            [((), "1 is not valid under any of the given schemas")],
        ),
        (False, 1, [((), "False schema does not allow 1")]),
    ],
)
def test_errors_say_where_and_what_in_the_words_of_jsonschema(
    schema: Any, value: Any, errors: list[Any]
) -> None:
    assert schema_errors(schema, value) == errors


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


def test_references_may_form_a_ring() -> None:
    tree = {"properties": {"next": {"$ref": "#"}, "value": {"type": "integer"}}}

    assert schema_errors(tree, {"next": {"next": {"value": "x"}}}) == [
        (("next", "next", "value"), "'x' is not of type 'integer'")
    ]


def malformed(
    path: tuple[str | int, ...], subject: str, word: str = "", *known: str
) -> MatcherError:
    return MatcherError(path, subject, word, known)


NAMES = ("array", "boolean", "integer", "null", "number", "object", "string")


@pytest.mark.parametrize(
    ("schema", "error"),
    [
        ({"type": "strng"}, malformed(("type",), "no type is named 'strng'", "strng", *NAMES)),
        (
            {"properties": {"a": {"required": "b"}}},
            malformed(("properties", "a", "required"), "`required` takes a list of texts, not 'b'"),
        ),
        ({"minLength": -1}, malformed(("minLength",), "`minLength` takes a count, not -1")),
        ([], malformed((), "a schema is a mapping, true or false, not []")),
        (
            {"pattern": "("},
            malformed(
                ("pattern",),
                "'(' is no regular expression: missing ), unterminated subpattern at position 0",
            ),
        ),
        (
            {"$ref": "#/$defs/x", "$defs": {"y": {}}},
            malformed(("$ref",), "`$ref: #/$defs/x` leads nowhere", "x", "y"),
        ),
        ({"$ref": "Rout"}, malformed(("$ref",), "no schema is named 'Rout'", "Rout", "Route")),
        ({"$ref": "#"}, malformed(("$ref",), "`$ref: #` leads back to itself", "#")),
        (
            {"items": [{}]},
            malformed(("items",), "`items` takes one schema for all elements", "", "prefixItems"),
        ),
        (
            {"unevaluatedProperties": False},
            malformed(
                ("unevaluatedProperties",),
                "`unevaluatedProperties` is not supported",
                "unevaluatedProperties",
            ),
        ),
        (
            {"$defs": {"a": {"anyOf": []}}},
            malformed(("$defs", "a", "anyOf"), "`anyOf` takes a list of schemas, not []"),
        ),
    ],
)
def test_malformed_schema_is_refused_with_its_place(schema: Any, error: MatcherError) -> None:
    with pytest.raises(MatcherError) as raised:
        check_schema(schema, {"Route": {}})

    assert raised.value.args == error.args


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.5, 1.0, "", "a", "ab"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=6,
)
COUNTS = st.integers(0, 3)
LEAVES = st.one_of(
    st.booleans(),
    st.sampled_from(NAMES).map(lambda name: {"type": name}),
    st.lists(st.sampled_from(NAMES), min_size=1, max_size=2, unique=True).map(
        lambda names: {"type": names}
    ),
    st.lists(VALUES, min_size=1, max_size=3).map(lambda values: {"enum": values}),
    VALUES.map(lambda value: {"const": value}),
    st.lists(st.sampled_from("abc"), unique=True).map(lambda names: {"required": names}),
    *(
        COUNTS.map(lambda count, word=word: {word: count})  # type: ignore[misc]
        for word in (
            *("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"),
            *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
        )
    ),
    st.sampled_from([1, 2, 0.5]).map(lambda number: {"multipleOf": number}),
    st.sampled_from(["^a", "b"]).map(lambda text: {"pattern": text}),
    st.booleans().map(lambda unique: {"uniqueItems": unique}),
    st.just({"dependentRequired": {"a": ["b"]}}),
)


def combined(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    named = st.dictionaries(st.sampled_from("abc"), inner, max_size=2)
    patterned = st.dictionaries(st.sampled_from("abc"), inner, min_size=1, max_size=2)
    some = st.lists(inner, min_size=1, max_size=2)
    return st.fixed_dictionaries(
        {},
        optional={
            "properties": named,
            "patternProperties": patterned,
            "additionalProperties": inner,
            "propertyNames": inner,
            "dependentSchemas": named,
            "items": inner,
            "prefixItems": some,
            "contains": inner,
            "maxContains": COUNTS,
            "minContains": COUNTS,
            "allOf": some,
            "anyOf": some,
            "oneOf": some,
            "not": inner,
            "if": inner,
            "then": inner,
            "else": inner,
        },
    )


@given(st.recursive(LEAVES, combined, max_leaves=6), VALUES)
def test_errors_are_those_of_the_jsonschema_library(schema: Any, value: Any) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    validator = jsonschema.Draft202012Validator(schema)

    expected = [(error.absolute_path, error.message) for error in validator.iter_errors(value)]
    assert comparable(compile_schema(schema)(value)) == comparable(expected)


def comparable(errors: Iterable[tuple[Iterable[str | int], str]]) -> list[str]:
    # The library forgets the last key in front of a schema that is `false`.
    return sorted(
        text if text.startswith("False schema") else f"{tuple(path)}: {text}"
        for path, text in errors
    )


# Quick tests


def sized(kind: str, *words: str) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(
        {"type": st.sampled_from([kind, [kind]])}, optional=dict.fromkeys(words, COUNTS)
    )


TYPED = st.recursive(
    st.one_of(
        sized("string", "minLength", "maxLength"),
        sized("integer", "minimum", "exclusiveMaximum"),
        sized("number", "maximum", "exclusiveMinimum"),
        st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map(lambda types: {"type": types}),
        st.lists(st.sampled_from(["a", "ab", 1]), min_size=1).map(lambda texts: {"enum": texts}),
        st.just({"type": "string", "title": "T", "x-mine": 1}),
        st.booleans() | st.just({}),
    ),
    lambda inner: (
        st.fixed_dictionaries(
            {"type": st.just("array"), "items": inner}, optional={"minItems": COUNTS}
        )
        | st.fixed_dictionaries(
            {"properties": st.dictionaries(st.sampled_from("abc"), inner, max_size=2)},
            optional={
                "type": st.just("object"),
                "required": st.lists(st.sampled_from("abc"), unique=True, max_size=2),
                "additionalProperties": st.booleans(),
            },
        )
    ),
    max_leaves=5,
)
"""Schemas of which nearly all have a quick test."""


@given(TYPED | st.recursive(LEAVES, combined, max_leaves=4), VALUES)
def test_quick_test_accepts_only_what_has_no_errors(schema: Any, value: Any) -> None:
    holds = quick_test(schema)

    assert holds is None or not holds(value) or compile_schema(schema)(value) == ()


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}}, {"n": 1}),
        ({"properties": {"a": {"enum": ["x", "y"]}}, "required": ["a"]}, {"a": "y", "b": None}),
        ({"type": ["string", "null"]}, None),
        ({"type": "array", "items": {"type": "number"}, "maxItems": 2}, [1, 2.5]),
        ({"type": "object", "properties": {"a": {}}, "additionalProperties": False}, {"a": 1}),
    ],
)
def test_quick_test_knows_usual_values(schema: Any, value: Any) -> None:
    holds = quick_test(schema)

    assert holds is not None
    assert holds(value)


@pytest.mark.parametrize("word", sorted(KEYWORDS))
def test_every_keyword_counts_in_a_quick_test(word: str) -> None:
    """Beside any type and in any place; a keyword that is left out would be seen here."""
    operands: list[Any] = [False, 0, 1, ["a"], [{"type": "null"}], {"a": False}, {"type": "null"}]
    values: list[Any] = [None, True, 2, 0.5, "", "ab", [], [1, 1], {}, {"a": 1}, {"b": 1}]
    for operand in operands:
        for kind in ("null", "boolean", "integer", "number", "string", "array", "object"):
            schema = {"type": kind, word: operand}
            try:
                check = compile_schema(schema)
            except MatcherError:
                continue
            holds = quick_test(schema)
            assert holds is None or all(check(v) == () for v in values if holds(v)), schema


def test_schema_that_is_checked_often_finds_the_same_errors() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    values = [{"a": 1}, {"a": 1.0}, {"a": "1"}, {}, [], {"a": True}]

    errors_by_time = [[schema_errors(schema, value) for value in values] for _ in range(20)]

    assert errors_by_time == [errors_by_time[0]] * 20
    assert [bool(errors) for errors in errors_by_time[0]] == [False, False, True, True, True, True]


def test_schema_that_python_cannot_nest_has_no_quick_test() -> None:
    schema: Any = {"type": "integer"}
    for _ in range(120):
        schema = {"type": "array", "items": schema}

    assert quick_test(schema) is None
