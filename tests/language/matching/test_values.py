"""The literal texts of a matcher."""

from __future__ import annotations

from typing import Any

import pytest

from simkit.language.matching import patterns_of
from simkit.language.yaml.parsing import SourceFloat


@pytest.mark.parametrize(
    ("matcher", "patterns"),
    [
        ({"$contains": ["kcal", "pizza"]}, ("kcal", "pizza")),
        ([{"user": "Hi"}, {"role": "tool"}, "Hi"], ("Hi", "tool")),
        ({"$not": {"$either": [{"$starts": "a"}, {"$ends": "b"}]}}, ("a", "b")),
        ({"$all": [{"$regex": "plain"}, {"$regex": "a|b"}]}, ("plain",)),
        ({"price": SourceFloat(1.5, "1.50"), "ok": True, "none": None}, ("1.50",)),
        ({"$type": "object", "$len": 3, "$any": True, "$keys": ["a"]}, ()),
    ],
)
def test_texts_and_numbers_that_a_matcher_looks_for_are_listed_once(
    matcher: Any, patterns: tuple[str, ...]
) -> None:
    assert patterns_of(matcher) == patterns
