"""A matcher is compiled once, and never taken for another one."""

from __future__ import annotations

import math
from typing import Any

import pytest

from simkit.core.errors import MatcherError
from simkit.language import matching
from simkit.language.matching import compile_matcher
from simkit.language.matching.values import source_text
from simkit.language.yaml import load_text


def test_what_was_compiled_before_is_returned_again() -> None:
    once, again = (compile_matcher({"$contains": "pizza"}) for _ in range(2))

    assert once is again
    assert compile_matcher({"$contains": "pasta"}) is not once


def test_two_texts_of_one_number_are_two_matchers() -> None:
    (document,) = load_text("[1.0, 1.00, {source: '1.00'}, 9007199254740993]", "x.yaml")
    first, second, mapping, huge = map(compile_matcher, document.data)

    assert [source_text(matcher.source) for matcher in (first, second)] == ["1.0", "1.00"]
    assert [matcher.holds(1) for matcher in (first, second, huge)] == [True, True, False]
    assert mapping.holds({"source": "1.00"})


@pytest.mark.parametrize(
    ("plain", "other"), [("YQ==", b"a"), ({"1": "x"}, {1: "x"}), ("x", [{"$in": {"x"}}])]
)
def test_what_is_no_matcher_is_refused_whatever_was_compiled_before(plain: Any, other: Any) -> None:
    assert compile_matcher(plain).holds(plain)

    with pytest.raises(MatcherError):
        compile_matcher(other)


def test_null_is_not_what_has_its_form_in_json() -> None:
    nothing, no_number = compile_matcher(None), compile_matcher(math.nan)

    assert nothing.holds(None)
    assert not no_number.holds(None)


def test_a_source_that_changes_is_compiled_again() -> None:
    source = {"$has": ["a"]}
    before = compile_matcher(source)
    source["$has"] = ["b"]

    assert compile_matcher(source).holds(["b"])
    assert compile_matcher({"$has": ["a"]}).holds(["a"])
    assert before.holds(["a"])


def test_as_many_are_kept_as_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching, "COMPILED_MAX", 2)
    monkeypatch.setattr(matching, "_compiled", {})

    first = compile_matcher("one")
    for text in ("two", "three"):
        compile_matcher(text)

    assert compile_matcher("one") is not first
    assert len(matching._compiled) <= 2
