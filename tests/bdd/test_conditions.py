"""Conditions: the matching language in words."""

from __future__ import annotations

from typing import Any

import pytest

from simkit.bdd.cells import TableInvalid
from simkit.bdd.conditions import Below, condition_of

SCHEMA = {"type": "object"}


def matcher(reply: str, text: str | None = None, table: list[list[str]] | None = None) -> Any:
    """The matcher that words stand for, with what stands below them."""
    condition = condition_of(reply)
    assert condition is not None, reply
    assert bool(condition.takes) == (text is not None or table is not None)
    return condition.matcher(Below(text, table, lambda name: {"Thing": SCHEMA}[name]))


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ('is "pizza"', "pizza"),
        ("are 3", 3),
        ("is the list 1, 2 and 3", [1, 2, 3]),
        ("is null", None),
        ('has food "pizza", kcal 800 and no salt',
         {"food": "pizza", "kcal": 800, "salt": {"$absent": True}}),
        ("equals 8", {"$eq": 8}),
        ("is not 8", {"$ne": 8}),
        ("has meal that has food 1 and kcal 2", {"meal": {"food": 1, "kcal": 2}}),
        ("has kcal that is at least 5 and no salt",
         {"kcal": {"$gte": 5}, "salt": {"$absent": True}}),
        ("is one of 7 or 8", {"$in": [7, 8]}),
        ("is none of 7 and 8", {"$not": {"$in": [7, 8]}}),
        ("is a text", {"$type": "text"}),
        ("is an integer", {"$type": "integer"}),
        ("is there", {"$any": True}),
        ("is absent", {"$absent": True}),
        ('does not contain "a"', {"$not": {"$contains": "a"}}),
        ("is not at least 3", {"$not": {"$gte": 3}}),
        ("is not empty", {"$not": {"$len": 0}}),
        ('is 1 or starts with "a"', {"$either": [1, {"$starts": "a"}]}),
        ("is at least 3 and is not 5", {"$all": [{"$gte": 3}, {"$ne": 5}]}),
        ("is 1 or is 2 and is 3", {"$either": [1, {"$all": [2, 3]}]}),
        ("fits the schema Thing", {"$schema": SCHEMA}),
        ("is more than 3", {"$gt": 3}),
        ("is at least 3", {"$gte": 3}),
        ("is less than -0.5", {"$lt": -0.5}),
        ("is at most 3", {"$lte": 3}),
        ("is between 3 and 5", {"$gte": 3, "$lte": 5}),
        ("is about 8", {"$approx": 8}),
        ("is about 8 give or take 0.5", {"$approx": {"value": 8, "abs": 0.5}}),
        ("is within 5 % of 800", {"$approx": {"value": 800, "rel": 0.05}}),
        ('contains "a"', {"$contains": "a"}),
        ('contains "a", "b" and "c and d"', {"$contains": ["a", "b", "c and d"]}),
        ('starts with "a"', {"$starts": "a"}),
        ('ends with "a"', {"$ends": "a"}),
        (r"matches /a\/b or c/", {"$regex": "a/b or c"}),
        ("has 3 items", {"$len": 3}),
        ("has no items", {"$len": 0}),
        ("has at most two items", {"$len": {"$lte": 2}}),
        ("is empty", {"$len": 0}),
        ('has only items that contain "a" or contain "b"',
         {"$each": {"$either": [{"$contains": "a"}, {"$contains": "b"}]}}),
        ('has only items with role "user"', {"$each": {"role": "user"}}),
        ('has an item that contains "a"', {"$has": [{"$contains": "a"}]}),
        ("has an item with kcal that is at least 5", {"$has": [{"kcal": {"$gte": 5}}]}),
        ("has 1 and 2 in this order, among others", {"$in_order": [1, 2]}),
        ("has 1 and 2 in any order", {"$unordered": [1, 2]}),
        ('has exactly food "pizza"', {"$exact": {"food": "pizza"}}),
        ("has the keys food and kcal", {"$keys": ["food", "kcal"]}),
        ('has food that contains "a" and ends with "b" and kcal 8',
         {"food": {"$all": [{"$contains": "a"}, {"$ends": "b"}]}, "kcal": 8}),
    ],
)  # fmt: skip
def test_words_stand_for_a_matcher(reply: str, expected: Any) -> None:
    assert matcher(reply) == expected


@pytest.mark.parametrize(
    "reply",
    [
        "pizza", "is", "is pizza", 'contains "a" and', "is at least many", "has",
        "has kcal 1 and kcal 2",
        "does not", 'contains "a" and is:', "matches pizza", "is a number of things",
    ],
)  # fmt: skip
def test_other_words_stand_for_none(reply: str) -> None:
    assert condition_of(reply) is None


def test_what_stands_below_is_a_text_or_a_table() -> None:
    notes = [["agent", "text"], ["clerk", 'contains "tram"'], ["", "is absent"]]
    entries = [{"agent": "clerk", "text": {"$contains": "tram"}}, {"text": {"$absent": True}}]
    pairs = [["food", "pizza"], ["kcal", "is at least 5"]]
    mapping = {"food": "pizza", "kcal": {"$gte": 5}}

    assert matcher("is:", text="a\nb") == "a\nb"
    assert matcher("is:", table=pairs) == mapping
    assert matcher("is:", table=[["user", "Hi"], ["tool", "8"]]) == [{"user": "Hi"}, {"tool": 8}]
    assert matcher("contains:", text="a") == {"$contains": "a"}
    assert matcher("has:", table=pairs) == mapping
    assert matcher("has exactly:", table=pairs) == {"$exact": mapping}
    assert matcher("equals:", table=pairs) == {"$eq": {"food": "pizza", "kcal": "is at least 5"}}
    assert matcher("are these items:", table=notes) == entries
    assert matcher("have among others:", table=notes) == {"$has": entries}
    assert matcher("have in this order, among others:", table=notes) == {"$in_order": entries}
    assert matcher("have in any order:", table=notes) == {"$unordered": entries}


def test_a_table_of_another_form_is_refused() -> None:
    with pytest.raises(TableInvalid, match="needs a headline, and rows below it"):
        matcher("are these items:", table=[["agent"]])
    with pytest.raises(TableInvalid, match="the column `a` twice"):
        matcher("are these items:", table=[["a", "a"], ["1", "2"]])
    with pytest.raises(TableInvalid, match="did you mean `assistant`"):
        matcher("is:", table=[["user", "Hi"], ["asistant", "Ho"]])
