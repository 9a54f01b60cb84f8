from __future__ import annotations

from collections import UserDict
from typing import Any

import pytest

from simkit.core.errors import ReferenceInvalid
from simkit.core.messages import ABSENT, Dropped, Message, ToolCall
from simkit.language.paths import as_text, follow, getter, head_of, lookup, parse

CALL = ToolCall("call1", "log_meal", {"food": "pizza"})
MESSAGE = Message("assistant", "Logged.", agent="nutrition", calls=(CALL,), data={"a.b": [1, 2]})


@pytest.mark.parametrize(
    ("path", "parts"),
    [
        ("state", ("state",)),
        ("context.tool_history[0]", ("context", "tool_history", 0)),
        ("messages[-1]", ("messages", -1)),
        ("[0][1].x", (0, 1, "x")),
        ('state["a.b"].c', ("state", "a.b", "c")),
        ("state['it\"s']", ("state", 'it"s')),
        ('["a\\"b"]', ('a"b',)),
        ("user name.first-word", ("user name", "first-word")),
    ],
)
def test_path_is_read_as_keys_and_indices(path: str, parts: tuple[str | int, ...]) -> None:
    assert parse(path) == parts


@pytest.mark.parametrize(
    ("path", "head"),
    [
        ("state", "state"),
        ("state.a[0]", "state"),
        ("messages[-1].x", "messages"),
        ("[0]", ""),
        ("", ""),
    ],
)
def test_the_head_of_a_path_is_its_first_name(path: str, head: str) -> None:
    assert head_of(path) == head


@pytest.mark.parametrize("path", ["", ".a", "a.", "a..b", "a[0]b", "a]b"])
def test_path_without_a_key_where_one_should_stand_is_refused(path: str) -> None:
    with pytest.raises(ReferenceInvalid) as error:
        parse(path)

    assert str(error.value) == (
        f"the path `{path}` has no key where one should stand; "
        "keys are joined by single dots: `state.count`"
    )


@pytest.mark.parametrize(("path", "rest"), [("a[", "["), ("a.b[x].c", "[x].c"), ("[]", "[]")])
def test_brackets_around_something_else_are_refused(path: str, rest: str) -> None:
    with pytest.raises(ReferenceInvalid) as error:
        parse(path)

    assert str(error.value) == (
        f"the path `{path}` cannot be read at `{rest}`: "
        'brackets hold an index or a quoted key, `[0]` or `["a.b"]`'
    )


def test_key_is_tried_as_itself_at_each_level_and_only_then_as_a_path() -> None:
    root = {"a": {"b.c": "inner", "b": {"c": "deep"}}, "a.b": "outer", "[0]": "odd"}

    assert lookup(root, "a.b") == "outer"
    assert lookup(root, "a.b.c") == "inner"
    assert lookup({"a": {"b": {"c": "deep"}}}, "a.b.c") == "deep"
    assert lookup(root, "[0]") == "odd"


def test_key_whose_value_is_null_is_there() -> None:
    root = {"a.b": None, "a": {"b": 1}}

    assert lookup(root, "a.b") is None
    assert lookup(root, "a.b.c") is ABSENT


@pytest.mark.parametrize("path", ["x", "a.b", "a.b.c", "a[0]", "["])
@pytest.mark.parametrize("root", [{}, {"a": {}}, {"a": []}, MESSAGE, 1])
def test_what_is_missing_is_what_the_getter_is_given(path: str, root: Any) -> None:
    assert (getter(path)(root), getter(path, None)(root)) == (ABSENT, None)


@pytest.mark.parametrize("inner", [{"b": 1}, {"b": None}, UserDict(b=1), MESSAGE, [1], None])
@pytest.mark.parametrize("outer", [dict, UserDict])
@pytest.mark.parametrize("dotted", [{}, {"a.b": 2}, {"a.b": None}])
def test_a_path_of_two_keys_is_two_steps(inner: Any, outer: Any, dotted: dict[str, Any]) -> None:
    root = outer({"a": inner, **dotted})

    assert lookup(root, "a.b") == dotted.get("a.b", lookup(lookup(root, "a"), "b"))


def test_text_that_is_no_path_is_one_key() -> None:
    assert lookup({"why? [": 1}, "why? [") == 1
    assert lookup({"why": 1}, "why? [") is ABSENT


@pytest.mark.parametrize("items", [[1, 2, 3], (1, 2, 3)])
def test_negative_indices_count_from_the_end(items: object) -> None:
    root = {"items": items}

    values = [lookup(root, f"items[{index}]") for index in (0, 2, 3, -1, -3, -4)]
    assert values == [1, 3, ABSENT, 3, 1, ABSENT]


def test_texts_have_no_elements_and_lists_no_keys() -> None:
    root = {"text": "abc", "items": [{"x": 1}], "mapping": {"0": 1}}

    assert lookup(root, "text[0]") is ABSENT
    assert lookup(root, "items.x") is ABSENT
    assert lookup(root, "mapping[0]") is ABSENT


def test_messages_and_calls_are_walked_by_their_fields() -> None:
    root = {"m": MESSAGE, "dropped": Dropped(MESSAGE, "message", "window")}

    assert lookup(root, "m.role") == "assistant"
    assert lookup(root, "m.text") == "Logged."
    assert lookup(root, 'm.data["a.b"][-1]') == 2
    assert lookup(root, "m.calls[0].args.food") == "pizza"
    assert lookup(root, "m.calls[0].tool") == "log_meal"
    assert lookup(root, "m.section") is ABSENT
    assert lookup(root, "m.other") is ABSENT
    assert lookup(root, "dropped.by") == "window"
    assert lookup(root, "dropped.content") == "Logged."


def test_other_objects_are_not_walked() -> None:
    assert lookup({"error": ValueError("x")}, "error.args") is ABSENT


def test_follow_takes_each_part_as_it_is() -> None:
    root = {"a.b": [{"c": 1}], "a": {"b": 2}}

    assert follow(root, ("a.b", 0, "c")) == 1
    assert follow(root, ("a", "b")) == 2
    assert follow(root, ("a", "c", "d")) is ABSENT
    assert follow(root, ()) is root


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("é", "é"),
        (None, "null"),
        (ABSENT, "null"),
        (1.0, "1.0"),
        ({"b": [1, "é"], "a": None}, '{"b": [1, "é"], "a": null}'),
        ((1, 2), "[1, 2]"),
        ({"z", "a"}, '["a", "z"]'),
        (MESSAGE, "Logged."),
        (Dropped(MESSAGE, "message", "window"), "Logged."),
        ([ToolCall("call1", "log", {})], '[{"id": "call1", "name": "log", "args": {}}]'),
        ({"x": object()}, '{"x": "<object>"}'),
    ],
)
def test_values_within_text_are_one_line_of_json(value: Any, text: str) -> None:
    assert as_text(value) == text
