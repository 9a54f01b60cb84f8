"""A mismatch says only what differs, and shows what was found nearest to what was wanted."""

from __future__ import annotations

import re
from typing import Any

import pytest

from simkit.core.messages import ABSENT, Message
from simkit.language.matching import Mismatch, compile_matcher, mismatches


def test_only_what_differs_is_told_with_its_place_in_value_and_matcher() -> None:
    matcher = {"a": 1, "items[0].x": {"$gt": 3}, "b": {"c": None, "d": "x"}}

    assert mismatches(matcher, {"a": 1, "items": [{"x": 2}], "b": {"c": 1}}) == (
        Mismatch(("items[0].x",), "$gt: 3", "2", "", ("items[0].x", "$gt")),
        Mismatch(("b", "c"), "null", "1", "", ("b", "c")),
        Mismatch(("b", "d"), '"x"', "absent", "", ("b", "d")),
    )


@pytest.mark.parametrize(
    ("matcher", "value", "expected", "result"),
    [
        (1, "1", "1", '"1"'),
        (True, 1, "true", "1"),
        ({"a": 1}, "text", "{a: 1}", '"text"'),
        ([1], None, "[1]", "null"),
        ({"$not": {"$contains": "x"}}, "axb", '$not: {$contains: "x"}', '"axb"'),
        ({"$contains": ["a", "z"]}, "abc", '$contains: "z"', '"abc"'),
        ({"$contains": "z"}, ABSENT, '$contains: "z"', "absent"),
        ({"$either": [1, {"$gt": 5}]}, 2, "$either: [1, {$gt: 5}]", "2"),
        ({"$absent": True}, None, "$absent: true", "null"),
        ({"$any": True}, ABSENT, "$any: true", "absent"),
        ({"$type": "list"}, {"a b": [True]}, '$type: "list"', "{a b: [true]}"),
        ({"$keys": ["a"]}, {"a": 1, "b": 2}, '$keys: ["a"]', "{a: 1, b: 2}"),
        ({"$eq": {"a": 1}}, {"a": 1, "b: c": 2}, "{a: 1}", '{a: 1, "b: c": 2}'),
    ],
)
def test_wanted_and_found_read_like_yaml(
    matcher: Any, value: Any, expected: str, result: str
) -> None:
    assert [(mismatch.expected, mismatch.actual) for mismatch in mismatches(matcher, value)] == [
        (expected, result)
    ]


def test_keys_too_many_are_told_one_by_one() -> None:
    assert mismatches({"$exact": {"a": 1}}, {"b": 2, "a": 1, "c": 3}) == (
        Mismatch(("b",), "nothing", "2", "", ("$exact",)),
        Mismatch(("c",), "nothing", "3", "", ("$exact",)),
    )


def test_length_is_told_with_what_has_it() -> None:
    assert mismatches({"x": {"$len": {"$gt": 2}}}, {"x": ["a"]}) == (
        Mismatch(("x",), "$len: {$gt: 2}", "$len: 1", 'it is ["a"]', ("x", "$len")),
    )


def test_schema_is_told_by_its_errors_at_their_places() -> None:
    schema = {"required": ["a"], "properties": {"b": {"items": {"type": "string"}}}}

    assert mismatches({"$schema": schema}, {"b": ["x", 1]}) == (
        Mismatch((), "$schema: 'a' is a required property", '{b: ["x", 1]}', "", ("$schema",)),
        Mismatch(("b", 1), "$schema: 1 is not of type 'string'", "1", "", ("$schema",)),
    )


def test_long_texts_are_cut_around_the_place_where_they_part() -> None:
    same = "0123456789" * 20

    assert mismatches(f"{same}pizza{same}", f"{same}pasta{same}") == (
        Mismatch(
            (),
            '…"' + same[-29:] + "pizza" + same[:56] + '"…',
            '…"' + same[-29:] + "pasta" + same[:56] + '"…',
        ),
    )


def test_long_values_are_cut_at_the_end() -> None:
    (result,) = mismatches("x", {"key": list(range(1000))})

    assert result.actual == "{key: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, … 1000 in all]}"


def test_no_rendering_is_longer_than_a_line() -> None:
    (result,) = mismatches({"$contains": "y" * 500}, ["x" * 500, "z"])

    assert (len(result.expected), len(result.actual)) == (120, 120)
    assert result.expected.endswith("y…")
    assert result.actual.endswith("x…")


FILLER = "Nothing of interest stands here, however long one reads on. " * 6
TEXT = f"{FILLER}The parcel 4711 was sent by rail on Monday. {FILLER}"


def test_a_list_says_which_parts_are_missing_and_where_the_nearest_place_is() -> None:
    first, second = mismatches(
        {"$contains": ["was sent", "4711 was lost", "by rail on Friday"]}, TEXT
    )

    assert (first.at, second.at) == (("$contains", 1), ("$contains", 2))
    assert first.note == second.note == "1 of 3 parts are there"
    assert "The parcel 4711 was sent by rail" in first.actual
    assert "by rail on Monday" in second.actual


@pytest.mark.parametrize(
    "matcher",
    [
        {"$contains": "parcel 4711 was lost"},
        {"$regex": "parcel 4711 was lost"},
        {"$not": {"$contains": "parcel 4711"}},
        {"$not": {"$regex": "parcel 4711"}},
        {"$either": [{"$contains": "parcel 4712"}, {"$contains": "letter 12"}]},
        {"$in": ["parcel 4712"]},
    ],
)
@pytest.mark.parametrize("value", [TEXT, Message("user", TEXT), {"a": TEXT}, [TEXT]])
def test_long_values_are_cut_around_what_an_operator_speaks_of(matcher: Any, value: Any) -> None:
    (miss,) = mismatches(matcher, value)

    assert "parcel 471" in miss.actual
    assert len(miss.actual) <= 120


def test_an_end_that_is_not_there_shows_the_end() -> None:
    (miss,) = mismatches({"$ends": "Goodbye."}, f"{FILLER}Until next week.")

    assert miss.actual.endswith('Until next week."')


@pytest.mark.parametrize(
    ("words", "shows"),
    [
        ("the parcel 4711 was lost on Monday", "The parcel 4711 was sent by rail on Monday."),
        ("nothing but PARCEL 4711", "The parcel 4711"),
        ("parcl 4711", "parcel 4711 was sent"),
    ],
)
def test_the_words_that_are_rare_say_what_is_near(words: str, shows: str) -> None:
    (miss,) = mismatches({"$contains": words}, TEXT)

    assert shows in miss.actual
    assert set(re.findall(r"\w+", miss.actual)) <= set(re.findall(r"\w+", TEXT))


def test_a_value_with_nothing_in_common_shows_its_head() -> None:
    (miss,) = mismatches({"$contains": "qqq"}, TEXT)

    assert miss.actual.startswith('nothing near it in 764 characters: "Nothing of interest')


@pytest.mark.parametrize("operator", ["$has", "$in_order", "$unordered"])
def test_of_elements_that_differ_in_as_many_places_the_most_alike_is_near(operator: str) -> None:
    data = {"tool": "ship", "order": "4711"}
    value = [
        {"tool": "ship", "order": "9"},
        {"tool": "ship", "order": "4712"},
        {"tool": "ship", "order": "88"},
    ]

    first = mismatches({operator: [data]}, value)[0]

    assert first.note.startswith("nearest is number 2")


def test_a_role_is_not_near_another_for_its_letters() -> None:
    matcher = compile_matcher({"role": "tool"})

    assert matcher.distance(Message("system", "x")) == matcher.distance(Message("user", "x")) == 1


def test_an_element_too_many_at_the_head_is_the_only_difference_there() -> None:
    result = mismatches(["a", "b", "c", "d"], ["x", "a", "b", "c", "e"])

    assert [(item.path, item.expected, item.actual) for item in result] == [
        ((0,), "nothing", '"x"'), ((4,), '"d"', '"e"'),
    ]  # fmt: skip


def test_an_element_that_is_missing_in_the_middle_is_told_where_it_should_stand() -> None:
    (miss,) = mismatches(["a", "b", "c", "d"], ["a", "c", "d"])

    assert (miss.path, miss.expected, miss.actual) == ((1,), '"b"', "nothing")
