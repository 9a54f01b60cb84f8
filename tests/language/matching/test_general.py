"""Scalars, mappings, presence and the operators for any value."""

from __future__ import annotations

import json
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any, overload

import pytest

from simkit.core.messages import ABSENT, Message
from simkit.language.matching import compile_matcher, holds, mismatches
from simkit.language.yaml.parsing import SourceFloat

HOLDS: list[tuple[Any, Any]] = [
    (1, 1.0),
    (1.0, 1),
    (SourceFloat(1.5, "1.50"), 1.5),
    (True, True),
    (None, None),
    ("a", "a"),
    ({"a": 1}, {"a": 1, "b": 2}),
    ({"a": {"b": None}}, {"a": {"b": None, "c": 1}}),
    ({"a": 1}, MappingProxyType({"a": 1})),
    ({"a.b": 1}, {"a.b": 1, "a": {"b": 2}}),
    ({"a.b": 1}, {"a": {"b": 1}}),
    ({"items[-1].x": 2}, {"items": [{"x": 1}, {"x": 2}]}),
    ({"why? [": 1}, {"why? [": 1}),
    ({"$$ref": "#/x"}, {"$ref": "#/x"}),
    ({"a": 1, "$len": 2}, {"a": 1, "b": 2}),
    ({"$eq": {"$gt": 1}}, {"$gt": 1}),
    ({"$eq": {}}, {}),
    ({"$eq": [1, {"a": 2}]}, (1.0, {"a": 2.0})),
    ({"$ne": 1}, True),
    ({"$ne": {"a": 1}}, {"a": 1, "b": 2}),
    ({"$in": ["a", {"$gt": 3}]}, 4),
    ({"$in": [{"$absent": True}, 1]}, ABSENT),
    ({"a": {"$in": [{"$absent": True}, 1]}}, {}),
    ({"$exact": {"b": 1}, "a": {"$in": [{"$absent": True}, 1]}}, {"b": 1}),
    ({"$any": True}, None),
    ({"$absent": True}, ABSENT),
    ({"a": {"$absent": True}}, {}),
    ({"a.b": {"$absent": True}}, {"a": None}),
    ({"$not": 1}, ABSENT),
    ({"$not": {"a": 1}}, {"a": 2}),
    ({"$not": {"$not": {"$absent": True}}}, ABSENT),
    ({"$either": [1, {"$absent": True}]}, ABSENT),
    ({"$all": [{"$not": 1}, {"$absent": True}]}, ABSENT),
    ({"$all": [{"a": 1}, {"b": 2}]}, {"a": 1, "b": 2}),
    ({"$schema": {"type": "object", "required": ["a"]}}, {"a": 1}),
    ({"$exact": {}}, {}),
    ({"$exact": {"a": {"$has": 1}}}, {"a": [1, 2]}),
    ({"$exact": {"a.b": 1}}, {"a": {"b": 1, "c": 2}}),
    ({"$exact": {"a": 1, "b": {"$absent": True}}}, {"a": 1}),
    ({"$exact": {"$$a": 1}}, {"$a": 1}),
    ({"$keys": ["b", "a"]}, {"a": 1, "b": 2}),
    ({"$keys": []}, {}),
    ({"$keys": {"$has": "a"}}, {"a": 1, "b": 2}),
    ({"$keys": {"$each": {"$starts": "x-"}}}, {"x-a": 1}),
]
FAILS: list[tuple[Any, Any]] = [
    (1, True),
    (True, 1),
    (0, False),
    (1, "1"),
    ("1", 1),
    (None, ABSENT),
    (None, False),
    ("a", ABSENT),
    ({"a": 1}, {"b": 1}),
    ({"a": 1}, "a"),
    ({"a": 1}, ABSENT),
    ({"a": None}, {}),
    ({"a.b": 2}, {"a.b": 1, "a": {"b": 2}}),
    ({"$$ref": "#/x"}, {"$$ref": "#/x"}),
    ({"a": 1, "$len": 2}, {"a": 1}),
    ({"a": 2, "$len": 1}, {"a": 1}),
    ({"a": {"$absent": True}}, ABSENT),
    ({"$eq": {"a": 1}}, {"a": 1, "b": 2}),
    ({"$eq": {"a": 1}}, ABSENT),
    ({"$ne": 1}, 1.0),
    ({"$ne": 1}, ABSENT),
    ({"$in": ["a", 1]}, True),
    ({"$any": True}, ABSENT),
    ({"$absent": True}, None),
    ({"$not": {"$absent": True}}, ABSENT),
    ({"$either": [1, 2]}, 3),
    ({"$either": [1, 2]}, ABSENT),
    ({"$all": [1, {"$absent": True}]}, ABSENT),
    ({"$all": [{"a": 1}, {"b": 2}]}, {"a": 1}),
    ({"$schema": {"required": ["a"]}}, {}),
    ({"$schema": {"type": "object"}}, ABSENT),
    ({"$exact": {}}, {"a": 1}),
    ({"$exact": {}}, []),
    ({"$exact": {}}, ABSENT),
    ({"$exact": {"a": 1}}, {"a": 1, "b": 2}),
    ({"$exact": {"a": 1}}, {}),
    ({"$keys": ["a"]}, {"a": 1, "b": 2}),
    ({"$keys": ["a"]}, ["a"]),
    ({"$keys": []}, ABSENT),
    ({"$keys": {"$len": 2}}, ABSENT),
]


@pytest.mark.parametrize(("matcher", "value"), HOLDS)
def test_matcher_holds_and_has_no_mismatch(matcher: Any, value: Any) -> None:
    assert holds(matcher, value)
    assert mismatches(matcher, value) == ()


@pytest.mark.parametrize(("matcher", "value"), FAILS)
def test_matcher_does_not_hold_and_says_where(matcher: Any, value: Any) -> None:
    assert not holds(matcher, value)
    assert mismatches(matcher, value) != ()


@pytest.mark.parametrize(("matcher", "value"), HOLDS + FAILS)
def test_not_is_the_opposite_of_everything(matcher: Any, value: Any) -> None:
    assert holds({"$not": matcher}, value) is not holds(matcher, value)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("null", [None]),
        ("boolean", [True]),
        ("integer", [1, 1.0]),
        ("number", [1, 1.0, 1.5]),
        ("string", ["a"]),
        ("text", ["a"]),
        ("array", [[]]),
        ("list", [[]]),
        ("object", [{}]),
        ("mapping", [{}]),
        ("message", []),
    ],
)
def test_type_names_hold_of_their_values_and_no_others(name: str, values: list[Any]) -> None:
    every: list[Any] = [None, True, 1, 1.0, 1.5, "a", [], {}, ABSENT]

    texts = [repr(value) for value in every if holds({"$type": name}, value)]
    assert texts == [repr(value) for value in values]


def test_compiled_matcher_serves_many_values() -> None:
    matcher = compile_matcher({"state.ready": True, "state.phase": {"$in": ["a", "b"]}})

    answers = [
        matcher.holds({"state": state})
        for state in ({"ready": True, "phase": "b"}, {"ready": True}, {"ready": False})
    ]
    assert answers == [True, False, False]


EVERY: list[Any] = [
    0,
    1,
    1.5,
    2,
    True,
    "1",
    "pizza for lunch",
    [1, 2],
    {"a": "pizza"},
    None,
    ABSENT,
]


@pytest.mark.parametrize(
    ("matcher", "expected"),
    [
        ({"$gt": 1}, [1.5, 2]),
        ({"$gte": 1}, [1, 1.5, 2]),
        ({"$lt": 1}, [0]),
        ({"$lte": 1.5}, [0, 1, 1.5]),
        ({"$gt": 0, "$lt": 2}, [1, 1.5]),
        ({"$approx": 1.4999999}, [1.5]),
        ({"$approx": {"value": 1.75, "abs": 0.25}}, [1.5, 2]),
        ({"$approx": {"value": 1, "rel": 0.5}}, [1, 1.5]),
        ({"$contains": "pizza"}, ["pizza for lunch", {"a": "pizza"}]),
        ({"$contains": ["pizza", "lunch"]}, ["pizza for lunch"]),
        ({"$contains": 1}, [1, 1.5, "1", [1, 2]]),
        ({"$contains": '"a": "p'}, [{"a": "pizza"}]),
        ({"$contains": "1, 2"}, [[1, 2]]),
        ({"$starts": "pizza"}, ["pizza for lunch"]),
        ({"$ends": "lunch"}, ["pizza for lunch"]),
        ({"$regex": "f.r"}, ["pizza for lunch"]),
        ({"$regex": "p.zza"}, ["pizza for lunch", {"a": "pizza"}]),
        ({"$regex": "^1"}, [1, 1.5, "1"]),
        ({"$regex": r"^\[1, 2\]$"}, [[1, 2]]),
        ({"$regex": "."}, [*EVERY[:-2]]),
        ({"$contains": "l"}, ["pizza for lunch"]),
        ({"$not": {"$regex": "u"}}, [0, 1, 1.5, 2, "1", [1, 2], {"a": "pizza"}, None, ABSENT]),
        ({"$regex": "^for"}, []),
        ({"$len": 2}, [[1, 2]]),
        ({"$len": 1}, ["1", {"a": "pizza"}]),
        ({"$len": {"$gt": 1}}, ["pizza for lunch", [1, 2]]),
        ({"$json": 1}, ["1"]),
        ({"$not": {"$json": {"$any": True}}}, [value for value in EVERY if value != "1"]),
    ],
)
def test_operator_holds_of_these_values_and_no_others(matcher: Any, expected: list[Any]) -> None:
    texts = [repr(value) for value in EVERY if holds(matcher, value)]

    assert texts == [repr(value) for value in expected]


@pytest.mark.parametrize(
    ("matcher", "text", "is_held"),
    [
        ({"data": [{"sales": 3}]}, '{"data":[{"sales":3}], "more": 1}', True),
        ({"data": [{"sales": 3}]}, '{ "data": [ {"sales": 4} ] }', False),
        ({"$exact": {"data": 3}}, '{"data": 3, "more": 1}', False),
        ([1, 2], "[1,2]", True),
        (None, "null", True),
        ({"$any": True}, "NaN", False),
        ({"$any": True}, "{'a': 1}", False),
        ({"$any": True}, "[" * 100_000, False),
        ({"$any": True}, "", False),
    ],
)
def test_the_value_of_a_text_of_json_is_matched_however_it_is_spaced(
    matcher: Any, text: str, is_held: bool
) -> None:
    message = Message("assistant", text)

    assert holds({"$json": matcher}, text) is is_held
    assert holds({"$json": matcher}, message) is is_held
    assert holds({"args": {"$json": matcher}}, {"args": text}) is is_held
    assert not holds({"$json": matcher}, json.loads(text) if is_held else ABSENT)


def test_json_is_searched_with_letters_as_they_are_and_keys_in_their_order() -> None:
    assert holds({"$contains": '{"b": "é", "a": [null, true]}'}, {"b": "é", "a": (None, True)})


class Endless(Sequence[int]):
    """A long list whose elements must not be read."""

    def __len__(self) -> int:
        return 10**9

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[int]: ...
    def __getitem__(self, index: Any) -> Any:
        raise AssertionError("an element was read")


def test_length_of_a_list_is_taken_without_reading_it() -> None:
    assert holds({"$len": 10**9}, Endless())
    assert not holds({"$len": 3}, Endless())
