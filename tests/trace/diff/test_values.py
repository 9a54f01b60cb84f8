from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.core.messages import ABSENT, Message, ToolCall
from simkit.trace.diff.values import Edit, ItemEdit, Span, aligned, edits, item_edits, plain


@pytest.mark.parametrize(
    ("item", "other", "expected"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, []),
        (1, 1.0, [Edit("v", 1, 1.0)]),
        (True, 1, [Edit("v", True, 1)]),
        ({"a": {"b": 1}}, {"a": {"b": 2}}, [Edit("v.a.b", 1, 2)]),
        ({"a": 1}, {"b": None}, [Edit("v.a", 1, ABSENT), Edit("v.b", ABSENT, None)]),
        ([1, 2, 3], [1, 9, 2, 3], [Edit("v[1]", ABSENT, 9)]),
        ([1, 2, 3], [1, 3], [Edit("v[1]", 2, ABSENT)]),
        ([{"k": 1}, 5], [{"k": 2}, 5], [Edit("v[0].k", 1, 2)]),
        ({}, [], [Edit("v", {}, [])]),
        ("c3", "c4", [Edit("v", "c3", "c4")]),
    ],
)
def test_values_differ_at_places(item: object, other: object, expected: list[Edit]) -> None:
    assert list(edits(item, other, "v")) == expected


def test_a_message_is_what_it_says_whatever_its_ids_are() -> None:
    message = Message(
        "assistant", "", "m7", "coach", 2, (ToolCall("call3", "log_run", {"km": 8}),),
        section="history",
    )  # fmt: skip

    assert plain({"messages": (message,)}) == {
        "messages": [
            {
                "role": "assistant",
                "content": "",
                "agent": "coach",
                "calls": [{"log_run": {"km": 8}}],
            }
        ]
    }


def test_items_that_agree_in_a_key_changed_and_others_came_or_went() -> None:
    rows = [{"to": "a", "n": 1}, {"to": "b", "n": 1}]
    other = [{"to": "a", "n": 2}, {"to": "c", "n": 1}]

    assert list(item_edits(rows, other, ("to",))) == [
        ItemEdit(rows[0], other[0], (Edit("n", 1, 2),)),
        ItemEdit(rows[1], None),
        ItemEdit(None, other[1]),
    ]


@pytest.mark.parametrize(
    ("item", "other", "is_same"),
    [
        ('{"id":"call12"}', f'{{"id":"call_{12:024}"}}', True),
        ('{"id":"call12"}', f'{{"id":"toolu_{12:024}"}}', True),
        ('{"id":"call12"}', f'{{"id":"call_{13:024}"}}', False),
        ('{"id":"call12"}', '{"id":"call_12"}', False),
    ],
)
def test_a_text_that_names_a_call_as_its_provider_does_names_the_same_call(
    item: str, other: str, is_same: bool
) -> None:
    assert (plain(Message("system", item)) == plain(Message("system", other))) is is_same


FEW = st.lists(st.sampled_from("abcde"), max_size=30)
MANY = st.lists(st.integers(0, 200), max_size=60)


def rebuilt(item: list[object], other: list[object], spans: list[Span]) -> bool:
    """Whether spans cover both lists without a gap, and say truly what is equal."""
    lo = other_lo = 0
    for span in spans:
        assert (span.lo, span.other_lo) == (lo, other_lo)
        lo, other_lo = span.hi, span.other_hi
        if span.is_equal:
            assert item[span.lo : span.hi] == other[span.other_lo : span.other_hi]
    return (lo, other_lo) == (len(item), len(other))


@given(st.one_of(st.tuples(FEW, FEW), st.tuples(MANY, MANY)))
def test_spans_cover_both_lists_and_alternate(lists: tuple[list[object], list[object]]) -> None:
    spans = aligned(*lists)

    assert rebuilt(*lists, spans)
    kinds = [span.is_equal for span in spans]
    assert all(item != other for item, other in pairwise(kinds))


@given(MANY, st.data())
def test_an_item_that_came_in_the_middle_is_one_difference(
    item: list[object], data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(item)))
    other = [*item[:place], "new", *item[place:]]

    different = [span for span in aligned(item, other) if not span.is_equal]

    assert different == [Span(place, place, place, place + 1, False)]


def test_equal_lists_are_one_span_and_empty_ones_none() -> None:
    assert aligned("abc", "abc") == [Span(0, 3, 0, 3, True)]
    assert aligned("", "") == []


def test_items_that_occur_once_hold_two_lists_together() -> None:
    assert aligned("xaybz", "paqbr") == [
        Span(0, 1, 0, 1, False),
        Span(1, 2, 1, 2, True),
        Span(2, 3, 2, 3, False),
        Span(3, 4, 3, 4, True),
        Span(4, 5, 4, 5, False),
    ]


def test_repeated_items_are_found_in_a_short_rest() -> None:
    assert aligned("xaay", "paaq") == [
        Span(0, 1, 0, 1, False),
        Span(1, 3, 1, 3, True),
        Span(3, 4, 3, 4, False),
    ]


def test_a_long_rest_without_anchors_is_not_searched_for_repeated_items() -> None:
    texts, other = ["x", *"ab" * 60, "y"], ["p", *"ab" * 60, "q"]

    assert aligned(texts, other) == [Span(0, 122, 0, 122, False)]


def test_long_lists_that_share_their_items_cost_little_more_than_their_length() -> None:
    class Counted(int):
        compared = 0

        def __eq__(self, other: object) -> bool:
            Counted.compared += 1
            return int(self) == other

        __hash__ = int.__hash__

    def cost(size: int) -> int:
        Counted.compared = 0
        # Every tenth item differs.
        aligned(
            [Counted(n) for n in range(size)],
            [Counted(n if n % 10 else -n - 1) for n in range(size)],
        )
        return Counted.compared

    assert cost(4000) < 2.5 * cost(2000)
