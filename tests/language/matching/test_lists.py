"""Lists: whole, each, some, a subsequence, any order."""

from __future__ import annotations

from typing import Any

import pytest

from simkit.core.errors import MatcherError
from simkit.core.messages import ABSENT, Message
from simkit.language.matching import Mismatch, holds, mismatches

EVERY: list[Any] = [
    [],
    [1],
    [1, 2],
    [2, 1],
    [1, 3, 2],
    [1, 1],
    (1, 2),
    "12",
    {"0": 1},
    None,
    ABSENT,
]


@pytest.mark.parametrize(
    ("matcher", "expected"),
    [
        ([], [[]]),
        ([1, 2], [[1, 2], (1, 2)]),
        ([1, {"$any": True}], [[1, 2], [1, 1], (1, 2)]),
        ({"$each": {"$lt": 3}}, [[], [1], [1, 2], [2, 1], [1, 1], (1, 2)]),
        ({"$has": [2, 1]}, [[1, 2], [2, 1], [1, 3, 2], (1, 2)]),
        ({"$has": [1, 1]}, [[1, 1]]),
        ({"$has": 3}, [[1, 3, 2]]),
        ({"$in_order": [1, 2]}, [[1, 2], [1, 3, 2], (1, 2)]),
        ({"$unordered": [2, 1]}, [[1, 2], [2, 1], (1, 2)]),
        ({"$unordered": []}, [[]]),
        ({"$unique": True}, [[], [1], [1, 2], [2, 1], [1, 3, 2], (1, 2)]),
    ],
)
def test_matcher_holds_of_these_lists_and_nothing_else(matcher: Any, expected: list[Any]) -> None:
    texts = [repr(value) for value in EVERY if holds(matcher, value)]

    assert texts == [repr(value) for value in expected]


@pytest.mark.parametrize("name", ["$has", "$unordered"])
def test_elements_are_given_to_those_who_can_take_no_other(name: str) -> None:
    greedy = {"$any": True}

    assert holds({name: [greedy, 1, {"$in": [1, 2]}]}, [1, 2, 3])
    assert not holds({name: [greedy, 1, {"$in": [1]}]}, [1, 2, 3])


def test_each_mismatch_of_a_list_stands_at_its_index() -> None:
    assert mismatches([1, {"a": 2}, 3], [1, {"a": 5}, 4]) == (
        Mismatch((1, "a"), "2", "5", at=(1, "a")),
        Mismatch((2,), "3", "4", at=(2,)),
    )


def test_element_that_is_missing_in_the_middle_is_the_only_mismatch() -> None:
    assert mismatches(["a", "b", "c"], ["a", "c"]) == (
        Mismatch((1,), '"b"', "nothing", "3 wanted, 2 found", (1,)),
    )


def test_elements_too_many_are_named_and_then_counted() -> None:
    note = "2 wanted, 8 found"

    assert mismatches({"x": ["a", "b"]}, {"x": ["a", *"123456", "b"]}) == (
        Mismatch(("x", 1), "nothing", '"1"', note, ("x",)),
        Mismatch(("x", 2), "nothing", '"2"', note, ("x",)),
        Mismatch(("x", 3), "nothing", '"3"', note, ("x",)),
        Mismatch(("x", 4), "nothing", "3 more elements", note, ("x",)),
    )


def test_element_that_is_not_found_comes_with_the_nearest_one() -> None:
    value = [{"kind": "A", "n": 1}, {"kind": "B", "n": 2}]

    assert mismatches({"$has": [{"kind": "B", "n": 3}]}, value) == (
        Mismatch(
            (),
            '$has: {kind: "B", n: 3}',
            '[{kind: "A", n: 1}, {kind: "B", n: 2}]',
            "nearest is number 2: at n wanted 3, found 2",
            ("$has", 0),
        ),
    )


def test_element_that_only_another_ones_match_fits_is_told_so() -> None:
    assert mismatches({"$has": [1, 1]}, [1, 2]) == (
        Mismatch(
            (),
            "$has: 1",
            "[1, 2]",
            "number 1 fits, but is the match of another element",
            ("$has", 1),
        ),
    )


def test_subsequence_says_after_which_element_one_is_missing() -> None:
    assert mismatches({"$in_order": ["b", "a"]}, ["a", "b", "c"]) == (
        Mismatch(
            (),
            '$in_order: "a"',
            "none after number 2, which is element 1 of those wanted",
            "number 1 fits, but is too early",
            ("$in_order", 1),
        ),
    )


def test_subsequence_names_each_missing_element_but_of_those_too_early_the_first() -> None:
    misses = mismatches({"$in_order": ["x", "b", "a", "y", "a"]}, ["a", "b", "c"])

    assert [miss.at[-1] for miss in misses] == [0, 2, 3]


def test_whole_list_in_any_order_names_what_is_missing_and_what_is_too_much() -> None:
    assert mismatches({"$unordered": ["a", "b"]}, ["b", "c"]) == (
        Mismatch((), '"a"', "nothing", "", ("$unordered", 0)),
        Mismatch((1,), "nothing", '"c"', "", ("$unordered",)),
    )


CALLS = [
    {"tool": "refund", "args": {"order": 1}},
    {"tool": "look", "args": {"order": 1}},
    {"tool": "refund", "args": {"order": 1.0}},
    {"tool": "refund"},
    {"tool": "refund"},
]


@pytest.mark.parametrize(
    ("operand", "is_unique"),
    [
        ({"of": {"tool": "refund"}, "by": "args"}, False),
        ({"of": {"tool": "look"}, "by": "args"}, True),
        (["tool", "args"], False),
        ("args.order", False),
        ("agent", True),
        (True, False),
        ({"of": {"args": {"$any": True}}}, False),
        ({"of": {"tool": "look"}}, True),
    ],
)
def test_elements_are_unique_in_keys_that_they_have(operand: Any, *, is_unique: bool) -> None:
    assert holds({"$unique": operand}, CALLS) is is_unique
    assert holds({"$not": {"$unique": operand}}, CALLS) is not is_unique


def test_messages_are_unique_by_their_content() -> None:
    messages = [Message("user", "Hi", id="a"), Message("user", "Hi", id="b", turn=2)]

    assert not holds({"$unique": "content"}, messages)
    assert not holds({"$unique": True}, messages)
    assert holds({"$unique": "id"}, messages)
    assert holds({"$unique": {"of": {"turn": 2}}}, messages)


def test_the_second_of_two_equal_elements_is_named_with_the_first() -> None:
    matcher = {"$unique": {"of": {"tool": "refund"}, "by": "args"}}

    assert mismatches(matcher, CALLS) == (
        Mismatch(
            (2,),
            '$unique: {of: {tool: "refund"}, by: "args"}',
            "{order: 1.0}",
            "number 1 has the same",
            ("$unique",),
        ),
    )


@pytest.mark.parametrize(
    "operand", [False, None, [], {}, {"by": []}, {"by": {"a": 1}}, {"off": 1}, [""], [[1]]]
)
def test_other_operands_of_unique_are_refused(operand: Any) -> None:
    with pytest.raises(MatcherError, match=r"\$unique|a text"):
        holds({"$unique": operand}, CALLS)
