"""What was found is shown where it is nearest to what was wanted, not at its head."""

from __future__ import annotations

from typing import Any

import pytest

from simkit.core.messages import Message
from simkit.language.matching import compile_matcher, mismatches

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


def test_a_value_with_nothing_in_common_shows_its_head() -> None:
    (miss,) = mismatches({"$contains": "qqq"}, TEXT)

    assert miss.actual.startswith('"Nothing of interest')


@pytest.mark.parametrize("operator", ["$has", "$in_order", "$unordered"])
def test_of_elements_that_differ_in_as_many_places_the_most_alike_is_near(operator: str) -> None:
    data = {"tool": "ship", "order": "4711"}
    value = [
        {"tool": "ship", "order": "9"},
        {"tool": "ship", "order": "4712"},
        {"tool": "ship", "order": "88"},
    ]

    first = mismatches({operator: [data]}, value)[0]

    assert first.note.startswith("nearest is [1]")


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
