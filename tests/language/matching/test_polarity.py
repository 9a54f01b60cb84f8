"""Whether a matcher affirms or denies: the same however it is written."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.core.messages import ABSENT, UNMADE
from simkit.language.matching import OPERATORS, holds
from simkit.language.matching.contradictions import polarity_of

DENIALS: list[Any] = [
    [],
    None,
    "",
    {"$absent": True},
    {"$len": 0},
    {"$len": {"$lte": 3}},
    {"$len": {"$in": [0, 1]}},
    {"$unordered": []},
    {"$eq": []},
    {"$exact": {}},
    {"$keys": []},
    {"$each": {"role": "user"}},
    {"$unique": "content"},
    {"$not": {"$has": "x"}},
    {"$not": ["x"]},
    {"$not": {"$contains": "x"}},
    {"$not": {"$not": {"$absent": True}}},
    {"$all": [{"$not": {"$has": "x"}}]},
    {"$not": {"$either": [{"$has": "x"}, {"$has": "y"}]}},
    {"$either": [{"$has": "x"}, {"$len": 0}]},
    {"$not": {"$all": [{"$has": "x"}, {"$has": "y"}]}},
    {"$schema": {"type": "array"}},
    {"$lt": 3},
    {"$ne": "x"},
    {"$regex": "^$"},
    {"$type": "null"},
    {"a": {"b": {"$absent": True}}},
    {"a": {"$json": {"b": {"$absent": True}}}},
]
AFFIRMATIONS = [
    ["x"],
    "x",
    0,
    False,
    {"$any": True},
    {"$has": "x"},
    {"$in_order": ["x"]},
    {"$len": 2},
    {"$len": {"$gte": 1}},
    {"$contains": "x"},
    {"$json": {"a": "x"}},
    {"$not": {"$len": 0}},
    {"$not": {"$absent": True}},
    {"$not": {"$not": {"$has": "x"}}},
    {"$not": {"$each": {"role": "user"}}},
    {"$not": {"$unique": True}},
    {"$not": None},
    {"$ne": None},
    {"$either": [{"$has": "x"}, {"$has": "y"}]},
    {"$gt": 3},
    {"$type": "list"},
    {"a": {"b": 1}},
]
MIXED = [
    ({"$has": "x", "$not": {"$has": "y"}}, {"$not": {"$has": "y"}}),
    ({"$len": {"$gte": 1, "$lte": 3}}, {"$len": {"$lte": 3}}),
    ({"a": 1, "b": {"$absent": True}}, {"b": {"$absent": True}}),
    ({"a": {"b": 1, "c": None}}, {"a": {"c": None}}),
]


@pytest.mark.parametrize("matcher", DENIALS, ids=str)
def test_what_holds_of_nothing_denies_and_nothing_else(matcher: Any) -> None:
    assert polarity_of(matcher) == (False, matcher)


@pytest.mark.parametrize("matcher", AFFIRMATIONS, ids=str)
def test_what_needs_something_affirms(matcher: Any) -> None:
    assert polarity_of(matcher) == (True, ABSENT)


@pytest.mark.parametrize(("matcher", "denial"), MIXED, ids=str)
def test_what_must_all_hold_is_looked_at_part_by_part(matcher: Any, denial: Any) -> None:
    assert polarity_of(matcher) == (True, denial)


def test_every_operator_has_its_stance() -> None:
    results = {
        key for item in [*DENIALS, *AFFIRMATIONS, *(m for m, _ in MIXED)] for key in _keys(item)
    }

    assert set(OPERATORS) - results <= {"$starts", "$ends", "$gte", "$approx"}
    assert {operator.stance for operator in OPERATORS.values()} >= {"affirms", "denies", "unknown"}


def _keys(matcher: Any) -> set[str]:
    if isinstance(matcher, dict):
        return {k for k in matcher if k[:1] == "$"} | {
            k for v in matcher.values() for k in _keys(v)
        }
    return {key for item in matcher for key in _keys(item)} if isinstance(matcher, list) else set()


WORDS = ("x", "y")
LISTS = st.lists(st.sampled_from(WORDS), max_size=3)
ATOMS = st.sampled_from(
    [
        {"$has": "x"},
        {"$has": "y"},
        {"$len": 0},
        {"$len": {"$lte": 1}},
        {"$len": {"$gte": 1}},
        {"$each": "x"},
        {"$absent": True},
        [],
        ["x"],
    ]
)
MATCHERS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        inner.map(lambda item: {"$not": item}),
        st.lists(inner, min_size=1, max_size=3).map(lambda some: {"$all": some}),
        st.lists(inner, min_size=1, max_size=3).map(lambda some: {"$either": some}),
    ),
    max_leaves=5,
)


def rewritten(matcher: Any) -> list[Any]:
    """The same said otherwise: it holds of the same lists."""
    same = [
        {"$not": {"$not": matcher}},
        {"$all": [matcher]},
        {"$either": [matcher]},
        {"$in": [matcher]},
        {"$not": {"$either": [{"$not": matcher}]}},
        {"$not": {"$all": [{"$not": matcher}]}},
    ]
    if matcher == [] or matcher == {"$len": 0}:
        same += [{"$len": {"$lte": 0}}, {"$unordered": []}, {"$each": {"$not": {"$any": True}}}]
    if matcher == {"$each": "x"}:
        same.append({"$not": {"$has": {"$not": "x"}}})
    if isinstance(matcher, dict) and set(matcher) == {"$all"}:
        same.append({"$not": {"$either": [{"$not": item} for item in matcher["$all"]]}})
    if isinstance(matcher, dict) and set(matcher) == {"$either"}:
        same.append({"$not": {"$all": [{"$not": item} for item in matcher["$either"]]}})
    return same


def of_calls(matcher: Any, calls: list[list[str]]) -> bool:
    """Whether a claim holds of an agent's calls: whole of the first, its denial of every one."""
    _, denial = polarity_of(matcher)
    return holds(matcher, calls[0]) and all(
        denial is ABSENT or holds(denial, call) for call in calls[1:]
    )


@pytest.mark.slow
@given(MATCHERS, st.lists(LISTS, min_size=1, max_size=3))
def test_a_denial_that_is_written_otherwise_is_of_as_many_calls(
    matcher: Any, calls: list[list[str]]
) -> None:
    for other in rewritten(matcher):
        assert of_calls(other, calls) == of_calls(matcher, calls)


@given(MATCHERS, st.lists(LISTS, min_size=1, max_size=3))
def test_a_claim_that_is_a_denial_is_true_of_every_call(
    matcher: Any, calls: list[list[str]]
) -> None:
    affirms, denial = polarity_of(matcher)

    if not affirms:
        assert of_calls(matcher, calls) == all(holds(matcher, call) for call in calls)
    if denial is not ABSENT:
        assert all(holds(denial, call) for call in calls if holds(matcher, call))


@pytest.mark.slow
@given(MATCHERS)
def test_what_holds_where_nothing_is_never_only_affirms(matcher: Any) -> None:
    if holds(matcher, UNMADE):
        assert polarity_of(matcher).denial is not ABSENT
