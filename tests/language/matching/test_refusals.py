"""Values that are no matchers."""

from __future__ import annotations

from typing import Any

import pytest

from simkit.core.errors import MatcherError
from simkit.language.matching import OPERATORS, check, holds
from tests.golden import assert_says, cases
from tests.language.error_texts import error_text

BOTH_WAYS = "write `{$exact: {}}` for an empty mapping, `{$any: true}` for any value"
TYPES = (
    *("array", "boolean", "integer", "list", "mapping", "message", "null", "number", "object"),
    *("string", "text"),
)


@cases(__file__, "refused")
def test_value_that_is_no_matcher_is_refused_with_its_place(matcher: Any, says: str) -> None:
    with pytest.raises(MatcherError) as error:
        check(matcher)

    assert_says(error_text(error.value), says)


def test_an_object_is_no_matcher() -> None:
    with pytest.raises(MatcherError, match="a mapping, a list or a scalar, not object"):
        check(object())


def test_every_operator_refuses_the_empty_mapping_or_takes_it_literally() -> None:
    accepted = []
    for name in OPERATORS:
        try:
            check({name: {}})
        except MatcherError:
            continue
        accepted.append(name)

    assert accepted == ["$eq", "$ne", "$schema", "$exact"]


EXACT: dict[str, Any] = {"$exact": {"a": {"b": {"c": 1}}, "d": [{"e": 1}]}}


@pytest.mark.parametrize(
    "value",
    [
        {"a": {"b": {"c": 1, "x": 2}}, "d": [{"e": 1}]},
        {"a": {"b": {"c": 1}, "x": 2}, "d": [{"e": 1}]},
        {"a": {"b": {"c": 1}}, "d": [{"e": 1, "x": 2}]},
    ],
)
def test_exact_is_exact_at_any_depth(value: object) -> None:
    assert not holds(EXACT, value)
    assert not holds({"$exact": {"all": {"$each": EXACT["$exact"]}}}, {"all": [value]})
    assert holds(EXACT, {"a": {"b": {"c": 1}}, "d": [{"e": 1}]})


def test_exact_takes_an_empty_mapping_below_it() -> None:
    assert holds({"$exact": {"a": {}}}, {"a": {}})
    assert not holds({"$exact": {"a": {}}}, {"a": {"x": 1}})
    assert not holds({"$exact": {"a": {}}}, {"a": 1})
