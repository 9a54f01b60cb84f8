"""What is known of a channel's items whatever is asked."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from simkit.core.errors import SourceError, WriteInvalid
from simkit.core.messages import Message
from simkit.runtime.context.items import (
    UNDATED,
    ContextItem,
    Ranges,
    Times,
    clipped,
    common,
    ranges_of,
    score_for,
    size,
    without,
)
from tests.building import prepared


@pytest.mark.parametrize(
    ("score", "query", "expected"),
    [
        (0.5, "any", 0.5),
        (None, "any", None),
        ([{"when": {"$contains": "run"}, "score": 0.9}, {"score": 0.1}], "my run", 0.9),
        ([{"when": {"$contains": "run"}, "score": 0.9}, {"score": 0.1}], "my meal", 0.1),
        ([{"when": {"$contains": "run"}, "score": 0.9}], "my meal", None),
    ],
)
def test_score_is_a_number_or_the_first_rule_that_holds_of_the_query(
    score: Any, query: str, expected: float | None
) -> None:
    assert score_for(score, query) == expected


def test_an_item_is_read_once() -> None:
    item = ContextItem({"text": "a", "at": "1970-01-01T00:01:00Z", "score": 1})

    assert (item.at, item.score, item.fields["text"]) == (60.0, 1.0, "a")
    assert (ContextItem("a text").at, ContextItem("a text").score) == (UNDATED, None)
    assert ContextItem(Message("assistant", "said", agent="a")).fields == {
        "text": "said",
        "agent": "a",
    }
    assert ContextItem({"score": [{"score": 1}]}).score is None


def times(*known: float) -> Times:
    result = Times()
    for place, at in enumerate(known):
        result.add(at, place)
    return result


@pytest.mark.parametrize(
    ("known", "newest", "within"),
    [
        ((1, 2, 2, 3), [3, 2, 1, 0], [(1, 3)]),
        ((3, 1, 2, 2), [0, 3, 2, 1], [(2, 4)]),
        ((UNDATED, 1, UNDATED, 2, UNDATED, 2), [5, 3, 1, 4, 2, 0], [(3, 4), (5, 6)]),
        ((UNDATED,), [0], []),
        ((), [], []),
    ],
)
def test_places_are_found_by_their_times(
    known: tuple[float, ...], newest: list[int], within: list[tuple[int, int]]
) -> None:
    result = times(*known)

    assert list(result.newest_first(None)) == newest
    assert list(result.oldest_first(None)) == sorted(
        newest, key=lambda place: (known[place], place)
    )
    assert result.within([(1.5, 2.5)]) == within
    inside = [place for lo, hi in within for place in range(lo, hi)]
    assert list(result.oldest_first([(1.5, 2.5)])) == inside
    assert list(result.newest_first([(1.5, 2.5)])) == inside[::-1]


@pytest.mark.parametrize(
    ("score", "place", "label"),
    [
        ("high", "score", "a score must be a number"),
        ("[{wen: x, score: 1}]", "score[0].wen", "unknown key of a score's rule `wen`"),
        ("[{when: x}]", "score[0]", "needs `score`"),
        ("[{when: {$bad: x}, score: 1}]", "score[0].when.$bad", "no operator is named `$bad`"),
        ("[{when: {$gt: 3}, score: 1}]", "score[0].when.$gt", "can never match the query"),
    ],
)
def test_a_score_that_is_none_is_refused_with_its_place(score: str, place: str, label: str) -> None:
    recipe = "[instructions, {memories: {top: 2, threshold: 0.5}}, current_message]"
    pipeline = f"""
    channels: {{memories: {{reducer: append, scope: project}}}}
    agents: {{a: {{context: {recipe}}}}}
    flow: {{handoffs: {{start: a}}}}
    """
    scenario = f"""
    given: {{state: {{memories: [{{text: likes tea, score: {score}}}]}}}}
    turns: [{{user: hi, replies: {{a: ok}}}}]
    """

    with pytest.raises(SourceError) as problem:
        prepared(pipeline, scenario)

    assert problem.value.at == f"given.state.memories[0].{place}"
    assert label in problem.value.what


def test_a_score_that_an_agent_wrote_and_that_is_none_is_an_error_of_the_run() -> None:
    for score in ("high", [{"when": {"$bad": 1}, "score": 1}], [7], [{"score": "x"}]):
        with pytest.raises(WriteInvalid, match="score"):
            score_for(score, "tea")


SOME: list[set[int]] = [set(), {0}, {2}, {0, 1}, {0, 2, 3}, {1, 2, 3, 5}, {0, 1, 2, 3, 4, 5}]


def places(ranges: Ranges) -> set[int]:
    return {place for lo, hi in ranges for place in range(lo, hi)}


def test_places_in_a_row_are_one_range() -> None:
    assert ranges_of([5, 1, 0, 2, 7]) == [(0, 3), (5, 6), (7, 8)]


@pytest.mark.parametrize(("counts", "other"), list(product(SOME, SOME)))
def test_ranges_are_sets_of_places(counts: set[int], other: set[int]) -> None:
    some, others = ranges_of(counts), ranges_of(other)

    assert places(common(some, others)) == counts & other
    assert places(without(some, others)) == counts - other
    assert size(some) == len(counts)


@pytest.mark.parametrize("lo", range(7))
def test_ranges_are_clipped_at_both_ends(lo: int) -> None:
    some = {0, 2, 3, 5}

    for hi in range(lo, 7):
        assert places(clipped(ranges_of(some), lo, hi)) == some & set(range(lo, hi))
