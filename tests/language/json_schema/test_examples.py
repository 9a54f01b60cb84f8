"""A value that simkit makes from a schema is one that the schema allows."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.language.json_schema import schema_errors
from simkit.language.json_schema.examples import example_of, texts_of

PATTERNS = (
    *(r"^[A-Z]-\d+$", r"^(foo|bar)-[a-f0-9]{4}$", r"^\S+@\S+\.\w+$", r"^\+?[0-9]{7,15}$"),
    *(r"^\d{4}-(0[1-9]|1[0-2])$", r"^[^\s]+$", "^$", r"\bfoo\b", r"^(a)\1$", ".*", r"[\w.-]{2,}"),
)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_text_of_a_pattern_matches_it(pattern: str) -> None:
    texts = texts_of(pattern)

    assert texts
    assert all(re.search(pattern, text) for text in texts)


def test_a_text_reads_well() -> None:
    assert texts_of(r"^[A-Z]-\d+$")[0] == "A-1"
    assert example_of({"type": "string", "pattern": "^ORD-[0-9]{4}$"}) == "ORD-1111"


def test_a_name_that_matches_stays() -> None:
    assert example_of({"type": "string", "pattern": r"^\w+$"}, "order_id") == "order_id"


@pytest.mark.parametrize("pattern", [r"^\p{L}+$", "(", "(?=a)b"])
def test_a_pattern_of_which_no_text_is_known_has_none(pattern: str) -> None:
    assert texts_of(pattern) == ()


def _bounded(lower: str, upper: str) -> st.SearchStrategy[dict[str, Any]]:
    numbers = st.integers(-50, 50)
    return st.tuples(numbers, st.integers(2, 40)).map(
        lambda pair: {lower: pair[0], upper: pair[0] + pair[1]}
    )


TEXTS = st.one_of(
    st.just(dict[str, Any]()),
    st.sampled_from(PATTERNS).map(lambda pattern: {"pattern": pattern}),
    st.integers(0, 12).map(lambda least: {"minLength": least}),
    st.just({"pattern": "^[a-z]+$", "minLength": 3, "maxLength": 5}),
).map(lambda bounds: {"type": "string", **bounds})
NUMBERS = st.one_of(
    _bounded("minimum", "maximum"),
    _bounded("exclusiveMinimum", "exclusiveMaximum"),
    st.just({"maximum": -3}),
    st.just({"exclusiveMaximum": 0}),
    st.just({"multipleOf": 5}),
    st.just({"multipleOf": 5, "minimum": 7}),
)
SCHEMAS = st.recursive(
    st.one_of(
        TEXTS,
        NUMBERS.map(lambda bounds: {"type": "integer", **bounds}),
        NUMBERS.map(lambda bounds: {"type": "number", **bounds}),
        st.just({"type": "boolean"}),
        st.just({"type": "null"}),
        st.just({"enum": ["a", 2]}),
    ),
    lambda inner: st.one_of(
        st.dictionaries(st.sampled_from("abcd"), inner).map(
            lambda keys: {"type": "object", "properties": keys, "required": sorted(keys)}
        ),
        inner.map(lambda item: {"type": "array", "items": item, "minItems": 2}),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda items: {"type": "array", "prefixItems": items, "minItems": len(items) + 1}
        ),
        st.lists(inner, min_size=1, max_size=3).map(lambda members: {"anyOf": members}),
        st.sampled_from([{"type": "string"}, {"type": "integer"}]).map(
            lambda item: {"type": "array", "items": item, "minItems": 3, "uniqueItems": True}
        ),
    ),
    max_leaves=6,
)


@pytest.mark.parametrize(
    "item",
    [
        {"type": "boolean"},
        {"enum": ["a", None]},
        {"type": "string", "maxLength": 2},
        {"type": "string", "pattern": "^[A-Z]{3}$"},
        {"type": "string", "pattern": r"^\d+$", "maxLength": 4},
        {"type": "integer", "maximum": 1},
        {"type": "integer", "multipleOf": 5, "minimum": 5, "maximum": 10},
        {"$ref": "#/$defs/Size"},
    ],
)
def test_items_that_must_differ_fit_their_schema(item: dict[str, Any]) -> None:
    sizes = {"Size": {"enum": ["S", "M"]}}
    schema = {"type": "array", "items": item, "minItems": 2, "uniqueItems": True, "$defs": sizes}

    assert schema_errors(schema, example_of(schema)) == []


def test_a_constant_null_is_null() -> None:
    assert example_of({"const": None}) is None


@given(SCHEMAS)
def test_an_example_is_allowed(schema: dict[str, Any]) -> None:
    assert schema_errors(schema, example_of(schema)) == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("url", "https://example.com"),
        ("siteUrl", "https://example.com"),
        ("start_date", "2026-01-05"),
        ("userEmail", "ada@example.com"),
        ("update", "update"),
        ("URLs", "URLs"),
    ],
)
def test_a_key_says_what_stands_under_it(name: str, expected: str) -> None:
    schema = {"type": "object", "properties": {name: {"type": "string"}}, "required": [name]}

    assert example_of(schema) == {name: expected}
    # A schema that says itself what it wants is believed.
    schema["properties"] = {name: {"type": "string", "pattern": "^[a-z]{3}$"}}
    assert example_of(schema) != {name: expected} or name == expected
