"""A value is recognized in a text as a word, as a number, or behind its key."""

from __future__ import annotations

from typing import Any

import pytest

from simkit.language.recognition import Sought


@pytest.mark.parametrize(
    ("value", "text", "is_shown"),
    [
        ("un", "Undo my laundry", False),
        ("un", 'kind: "un".', True),
        ("A1", "order A1!", True),
        ("A1", "order A12", False),
        ("a long text that a recipe cuts", "it says: a long text that a re…", True),
        ('He said "no"', '{"says":"He said \\"no\\""}', True),
        (3, "step 3 of 7", True),
        (3, "30 days, 1.3 km, A3, 2026-03-01, 10:03, v2.3.1, 3rd", False),
        (30, "within 30 days", True),
        (85000, "He earns 85,000.", True),
        (85000, "185,000", False),
        (8.256, "it is 8.26 km", True),
        (0.25, "a share of 25 %", True),
        (12.5, "$12.50", True),
        (-4, "-4 degrees", True),
        (4, "-4 degrees", False),
        (True, '{"vip": true}', True),
        (True, "untrue", False),
    ],
)
def test_a_value_is_shown_between_word_boundaries(value: Any, text: str, is_shown: bool) -> None:
    assert Sought(value).is_in(text) is is_shown


@pytest.mark.parametrize(
    ("key", "text", "is_keyed"),
    [
        ("order", '{"order":3}', True),
        ("order", "Order: 3", True),
        ("order", "- order = 3", True),
        ("order", "the order is 3", True),
        ("order_no", "Order no: 3", True),
        ("orderNo", "order-no: 3", True),
        ("order", "reorder: 3", False),
        ("order", "order of 3 days", False),
        ("order", "order:\n3", False),
        ("order", "3 orders", False),
        ("", "order: 3", False),
    ],
)
def test_a_key_stands_right_before_its_value(key: str, text: str, is_keyed: bool) -> None:
    assert Sought(3, key).is_keyed(text) is is_keyed


@pytest.mark.parametrize("value", [None, "", "  "])
def test_an_empty_value_is_in_no_text(value: Any) -> None:
    assert Sought(value).is_empty
    assert not Sought(value).is_in("anything")


@pytest.mark.parametrize(
    ("value", "is_distinctive"),
    [
        (3, False), (30, False), (300, True), (0.5, False), ("undo", False), ("A1", False),
        ("A-1042", True), ("broken in transit", True), (True, False),
    ],
)  # fmt: skip
def test_some_values_stand_in_no_text_by_chance(value: Any, is_distinctive: bool) -> None:
    assert Sought(value).is_distinctive is is_distinctive
