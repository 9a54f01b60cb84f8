"""Edits of a text: what is asked for is changed, and no other byte."""

from __future__ import annotations

from typing import Any

import pytest

from simkit.language.yaml import load_text
from simkit.update.edits import Edit, Give, Put, Relist, Sheet, Unfold, applied, edited, opened
from simkit.update.replacing import Obstacle


def changed(text: str, *edits: Edit) -> str:
    """The text with edits made, which reads as the edits say."""
    (before,) = load_text(text, "a.yaml")
    new = edited(text, {0: edits})
    (after,) = load_text(new, "a.yaml")
    assert after.data == applied(before.data, edits)
    return new


def why_not(text: str, edit: Edit) -> str:
    with pytest.raises(Obstacle) as refused:
        edited(text, {0: [edit]})
    return str(refused.value)


@pytest.mark.parametrize(
    ("old", "value", "new"),
    [
        ("reply: bye  # why", "hello", "reply: hello  # why"),
        ("reply: 'bye'", "it's me", "reply: 'it''s me'"),
        ('reply: "bye"', "hello", 'reply: "hello"'),
        ("reply: bye", "12", 'reply: "12"'),
        ("reply: 12", 13, "reply: 13"),
        ("reply: bye", None, "reply: null"),
        ("reply:", "hello", "reply: hello"),
        ("reply:  # why", "hello", "reply: hello  # why"),
        ("reply: &a bye", "hello", "reply: &a hello"),
        ("reply: {a: bye, b: 1}", {"c": [1, "x"]}, "reply: {c: [1, x]}"),
        ("reply: [bye]", [], "reply: []"),
        ("reply: []", [{"a": 1}, {"b": 2}], "reply: [{a: 1}, {b: 2}]"),
        ("reply: {}", {"a": {"b": 1}}, "reply: {a: {b: 1}}"),
        ("reply: one\n  two", "hello", "reply: hello"),
        ("reply:\n  - a\n  - b", "hello", "reply: hello"),
        ("reply:  # why\n  - a", "hello", "reply:  # why\n  hello"),
        ("reply:\n  a: 1", [{"user": "hi"}], "reply:\n  - user: hi"),
        ("reply: bye", "one\ntwo\n", "reply: |\n  one\n  two"),
        ("reply: bye  # why", "one\ntwo", 'reply: "one\\ntwo"  # why'),
        ("reply: |\n    bye\n    you", "one\ntwo\n", "reply: |\n    one\n    two"),
        ("reply: >-\n  bye\n  you", "hello you", "reply: >-\n  hello you"),
    ],
)
def test_a_value_is_replaced_in_the_style_it_had(old: str, value: Any, new: str) -> None:
    text = f"# before\n{old}\n\n# between\nlast: 'x'   # end\n"

    after = changed(text, Put(("reply",), value))

    assert after == text.replace(old, new)


def test_a_value_that_is_too_long_for_its_line_goes_below_its_key() -> None:
    handoffs = [{"from": "triage", "to": f"agent_{n}", "payload": {"order": n}} for n in range(3)]

    after = changed("a:\n  handoffs: []\n  b: 1\n", Put(("a", "handoffs"), handoffs))

    assert after == (
        "a:\n"
        "  handoffs:\n"
        "    - {from: triage, to: agent_0, payload: {order: 0}}\n"
        "    - {from: triage, to: agent_1, payload: {order: 1}}\n"
        "    - {from: triage, to: agent_2, payload: {order: 2}}\n"
        "  b: 1\n"
    )


def test_lists_stand_below_their_keys_as_the_file_has_them() -> None:
    text = "a:\n- 1\nb: x\n"

    after = changed(text, Put(("b",), [{"user": "hi"}, {"user": "you"}]))

    assert after == "a:\n- 1\nb:\n- user: hi\n- user: you\n"


def test_an_element_of_a_list_is_replaced_where_it_stands() -> None:
    text = "a:\n  - x: 1   # one\n    y: 2\n  # between\n  -   b\n  - - c\n"

    after = changed(text, Put(("a", 0), {"user": "hi"}), Put(("a", 1), {"p": {"q": ["r"]}}),
                    Put(("a", 2, 0), "d"))  # fmt: skip

    assert after == "a:\n  - user: hi\n  # between\n  -   {p: {q: [r]}}\n  - - d\n"


def test_line_ends_stay_those_of_the_file() -> None:
    text = "a: 1\r\nb:\r\n  - x\r\nc: 2"

    after = changed(text, Relist(("b",), (), ((1, "y"),)), Put(("c",), {"d": "e"}))

    assert after == "a: 1\r\nb:\r\n  - x\r\n  - y\r\nc: {d: e}"


def test_a_mapping_gets_a_key_behind_its_last_one() -> None:
    text = "a:\n  b:\n    c: 1  # one\n  # after\n\nd: {e: 1}\n"

    after = changed(text, Give(("a", "b"), "x", 1), Give(("a",), "y", [2]), Give(("d",), "z", {}))

    assert after == (
        "a:\n  b:\n    c: 1  # one\n    x: 1\n  y: [2]\n  # after\n\nd: {e: 1, z: {}}\n"
    )


BLOCK = "a:\n  # first\n  - x  # one\n  - y: 1\n    z: 2\n  # third\n  - |\n    w\nb: 1\n"


@pytest.mark.parametrize(
    ("removed", "added", "new"),
    [
        ((0,), (), BLOCK.replace("  - x  # one\n", "")),
        ((1,), (), BLOCK.replace("  - y: 1\n    z: 2\n", "")),
        ((2,), (), BLOCK.replace("  - |\n    w\n", "")),
        ((), ((0, "v"),), BLOCK.replace("  - x", "  - v\n  - x")),
        ((), ((1, "v"), (1, "u")), BLOCK.replace("# one\n", "# one\n  - v\n  - u\n")),
        ((1,), ((3, {"v": "u"}),), "a:\n  # first\n  - x  # one\n  # third\n  - |\n    w\n"
                                   "  - v: u\nb: 1\n"),
    ],
)  # fmt: skip
def test_elements_leave_a_block_list_by_lines(removed: Any, added: Any, new: str) -> None:
    assert changed(BLOCK, Relist(("a",), removed, added)) == new


@pytest.mark.parametrize(
    ("removed", "added", "new"),
    [
        ((0,), (), "a: [y , {z: 1} ]  # why\n"),
        ((1,), (), "a: [ 'x', {z: 1} ]  # why\n"),
        ((2,), (), "a: [ 'x',  y ]  # why\n"),
        ((0, 1), (), "a: [{z: 1} ]  # why\n"),
        ((), ((0, "v"),), "a: [v, 'x',  y , {z: 1} ]  # why\n"),
        ((), ((2, "v"),), "a: [ 'x',  y, v, {z: 1} ]  # why\n"),
        ((), ((3, "v"), (3, "u")), "a: [ 'x',  y , {z: 1}, v, u ]  # why\n"),
    ],
)
def test_elements_leave_a_list_in_brackets_with_their_commas(
    removed: Any, added: Any, new: str
) -> None:
    text = "a: [ 'x',  y , {z: 1} ]  # why\n"

    after = changed(text, Relist(("a",), removed, added))

    assert after == new


def test_what_stands_in_brackets_is_written_in_lines_as_it_is() -> None:
    text = "a: [{b: 'x', c: [1,  2]}, \"d\"]\ne: 1\n"

    after = changed(text, Unfold(("a",)))

    assert after == "a:\n  - {b: 'x', c: [1,  2]}\n  - \"d\"\ne: 1\n"


def test_a_path_is_opened_up_to_its_end() -> None:
    text = "turns: [{user: Hi, replies: {a: x}}, {user: You}]\n"

    after = opened(text, 0, ("turns", 0))

    assert after == "turns:\n  - user: Hi\n    replies: {a: x}\n  - {user: You}\n"


def test_documents_are_counted_without_empty_ones() -> None:
    text = "---\n---\na: 1\n---\nb: 2\n"

    assert edited(text, {1: [Put(("b",), 3)]}) == "---\n---\na: 1\n---\nb: 3\n"


SHARED = "a: &x {b: 1}\nc: *x\nd: [*x, 1]\ne:\n  - &y z\n  - [*y]\n"


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        (Put(("a", "b"), 2), "aliases repeat it, as `*x`"),
        (Put(("c", "b"), 2), "it is written elsewhere: here is only its alias `*x`"),
        (Give(("c",), "q", 2), "it is written elsewhere: here is only its alias `*x`"),
        (Put(("e",), 2), "it holds the anchor `&y`, which aliases repeat"),
        (Relist(("e",), (0,), ()), "it holds the anchor `&y`, which aliases repeat"),
        (Put(("nowhere",), 2), "it is not written out here"),
        (Relist(("d",), (0, 1), ()), "nothing of it stays"),
    ],
)
def test_what_others_read_is_not_changed(edit: Edit, why: str) -> None:
    assert why_not(SHARED, edit) == why


def test_an_alias_may_leave_its_list() -> None:
    after = changed(SHARED, Relist(("d",), (0,), ()))

    assert after == SHARED.replace("[*x, 1]", "[1]")


@pytest.mark.parametrize(
    ("text", "edit", "why"),
    [
        ("a: [1,  # one\n  2]\n", Relist(("a",), (0,), ()), "a comment stands inside its brackets"),
        ("a: [1,  # one\n  2]\n", Unfold(("a",)), "a comment stands inside its brackets"),
        ("- - 1\n  - 2\n", Relist((0,), (0,), ()), "it shares its line with what is around it"),
        ("a: [b: 1]\n", Give(("a", 0), "c", 2), "it has no braces, or nothing between them"),
        ("a: {b}\n", Put(("a", "b"), 2), "its key has no colon that can be found"),
    ],
)
def test_what_the_text_does_not_allow_is_said(text: str, edit: Edit, why: str) -> None:
    assert why_not(text, edit) == why


def test_two_edits_of_one_place_are_refused() -> None:
    sheet = Sheet("a: {b: 1}\n")
    both = [*sheet.replacements(0, Put(("a",), 1)), *sheet.replacements(0, Put(("a", "b"), 2))]

    with pytest.raises(Obstacle, match="another change stands in the same place"):
        sheet.with_replacements(both)
