from __future__ import annotations

import pytest

from simkit.core.messages import ABSENT, Message, ToolCall
from simkit.trace.diff import Edit, ItemEdit
from simkit.trace.diff.values import edits, item_edits, plain


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
