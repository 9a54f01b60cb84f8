from __future__ import annotations

from typing import Any

import pytest

from simkit.core.errors import MatcherError
from simkit.language.json_schema import schema_errors
from simkit.language.matching import check, matcher_json_schema
from simkit.language.matching.operators import descriptions

SCHEMA = {"$ref": "#/$defs/matcher", "$defs": matcher_json_schema()}
MATCHERS: list[Any] = [
    "text",
    None,
    [],
    {"a": [{"$contains": ["x", 1]}], "$len": {"$gt": 2}},
    {"$$ref": 1},
    {"user": {"$not": {"$regex": "x"}}},
    {"$exact": {}},
    {"$exact": {"a": {"$any": True}}},
    {"$approx": {"value": 1, "abs": 2}},
    {"$keys": ["a"]},
    {"$has": [1, {"a": 1}], "$in_order": [1], "$unordered": []},
    {"$eq": {}},
]
OTHERS: list[Any] = [
    {},
    {"a": {}},
    {"$contain": "x"},
    {"a": [{"$gtt": 1}]},
    {"$any": False},
    {"$len": "x"},
    {"$len": {}},
    {"$in": 3},
    {"$in": []},
    {"$contains": []},
    {"$contains": ""},
    {"$type": "strng"},
    {"$schema": 1},
    {"$approx": {"abs": 1}},
    {"$exact": {"$len": 1}},
    {"$not": {}},
]


@pytest.mark.parametrize("matcher", MATCHERS)
def test_editor_accepts_what_the_check_accepts(matcher: Any) -> None:
    check(matcher)

    assert schema_errors(SCHEMA, matcher) == []


@pytest.mark.parametrize("matcher", OTHERS)
def test_editor_refuses_what_the_check_refuses(matcher: Any) -> None:
    with pytest.raises(MatcherError):
        check(matcher)

    assert schema_errors(SCHEMA, matcher) != []


def test_editor_describes_every_operator() -> None:
    described = SCHEMA["$defs"]["mapping_matcher"]["properties"]  # type: ignore[index]

    assert {name: entry["description"] for name, entry in described.items()} == {
        name: operator.says for name, operator in descriptions().items()
    }
