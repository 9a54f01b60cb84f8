"""Matchers in plain asserts: what matches shows itself, what does not shows only that."""

from __future__ import annotations

import re
from typing import Any

import pytest

from simkit import matchers
from simkit.core.messages import Message, ToolCall
from simkit.language.matching import OPERATORS
from simkit.matchers import (
    absent,
    all_of,
    anything,
    approx,
    contains,
    each,
    either,
    ends,
    equal,
    exact,
    explained,
    gt,
    gte,
    has,
    in_order,
    json_text,
    keys,
    length,
    lt,
    lte,
    message,
    not_,
    one_of,
    other_than,
    partial,
    regex,
    starts,
    type_,
    unique,
    unordered,
    valid,
)

MESSAGE = Message("user", "I want a refund", id="m1", turn=1, section="history")
EACH: list[tuple[Any, Any, Any]] = [
    (contains("want", "refund"), "I want a refund", "I want it"),
    (starts("I"), "I want", "You want"),
    (ends("refund"), "a refund", "a refusal"),
    (regex(r"T-\d+"), "ticket T-1", "ticket T"),
    (length(2), [1, 2], [1]),
    (length(gt(1)), [1, 2], [1]),
    (anything(), None, ...),
    (partial({"a": absent()}), {"b": 1}, {"a": 1}),
    (either(1, contains("x")), "x", 2),
    (all_of(gt(1), lt(3)), 2, 3),
    (not_(contains("x")), "y", "x"),
    (one_of("a", "b"), "b", "c"),
    (equal({"a": 1}), {"a": 1}, {"a": 1, "b": 2}),
    (other_than(1), 2, 1),
    (type_("integer"), 1, "1"),
    (valid({"type": "object", "required": ["a"]}), {"a": 1}, {}),
    (json_text({"a": gt(1)}), '{"a":  2}', '{"a": 1}'),
    (gt(1), 2, 1),
    (gte(1), 1, 0),
    (lt(1), 0, 1),
    (lte(1), 1, 2),
    (approx(0.3), 0.1 + 0.2, 0.4),
    (has(contains("x"), 1), [1, "xy"], [1, "y"]),
    (in_order(1, 3), [1, 2, 3], [3, 2, 1]),
    (unordered(1, 2), [2, 1], [2, 1, 1]),
    (each(gt(0)), [1, 2], [1, 0]),
    (unique("a", of={"b": 1}), [{"a": 1, "b": 1}, {"a": 1}], [{"a": 1, "b": 1}] * 2),
    (unique("a"), [{"a": 1}, {"b": 1}, {"b": 1}], [{"a": 1, "b": 1}, {"a": 1.0}]),
    (unique(), [1, True], [1, 1.0]),
    (exact({"a": contains("x")}), {"a": "x"}, {"a": "x", "b": 1}),
    (keys("a", "b"), {"b": 1, "a": 2}, {"a": 2}),
    (partial({"a": {"b": 1}}), {"a": {"b": 1, "c": 2}}, {"a": {"c": 2}}),
    (message(user=contains("refund")), MESSAGE, Message("assistant", "refund")),
]


@pytest.mark.parametrize(("expected", "fits", "differs"), EACH, ids=lambda item: repr(item)[:40])
def test_a_matcher_equals_what_its_operator_holds_of(
    expected: Any, fits: Any, differs: Any
) -> None:
    assert fits == expected
    assert differs is ... or differs != expected


def test_every_operator_has_a_function() -> None:
    sources = [expected.source for expected, _, _ in EACH]

    results = {key for source in sources for key in source if key.startswith("$")}

    assert results | {"$absent"} == set(OPERATORS)


def test_every_name_that_is_exported_is_there_and_the_other_way_round() -> None:
    own = {
        name
        for name, value in vars(matchers).items()
        if getattr(value, "__module__", "") == "simkit.matchers" and not name.startswith("_")
    }

    assert own == set(matchers.__all__) - {"Expected", "explained"}


def test_what_matched_shows_the_value_itself() -> None:
    expected = contains("refund")

    before = repr(expected)
    assert expected == "I want a refund"
    assert (before, repr(expected)) == ("contains('refund')", "'I want a refund'")


def test_a_mapping_that_differs_shows_the_matcher_only_where_it_differs() -> None:
    data = {"a": {"b": "text", "c": 4, "z": 0}, "y": [1, 2], "p": "q"}
    expected = partial(
        {"a": {"b": contains("t"), "c": gt(4)}, "d": absent(), "e": 1, "y": [1, gt(2)], "p": "q"}
    )

    assert data != expected
    assert repr(expected) == (
        "{'a': {'b': 'text', 'c': gt(4), 'z': 0}, 'y': [1, gt(2)], 'p': 'q', 'e': 1}"
    )


@pytest.mark.parametrize(
    ("expected", "output"),
    [
        (message(user=contains("money"), turn=1), {"content": contains("money")}),
        (message(assistant=contains("refund")), {"role": "assistant"}),
        (message(role="user", text="x", section="run"), {"content": "x", "section": "run"}),
    ],
)
def test_a_message_that_differs_shows_the_matcher_in_its_field(
    expected: Any, output: dict[str, Any]
) -> None:
    fields = {name: getattr(MESSAGE, name) for name in Message.__struct_fields__} | output

    assert expected != MESSAGE
    assert repr(expected) == f"Message({', '.join(f'{k}={v!r}' for k, v in fields.items())})"


def test_a_matcher_finds_a_message_in_a_list() -> None:
    called = Message("assistant", agent="a", calls=(ToolCall("c1", "pay", {"amount": 40}),))

    assert message(user=starts("I")) in [called, MESSAGE]
    assert message(agent="a", calls=[{"pay": {"amount": gt(39)}}]) in [called, MESSAGE]
    assert message(agent="b") not in [called, MESSAGE]


def test_a_comparison_that_failed_is_explained_place_by_place() -> None:
    assert explained("==", MESSAGE, message(assistant=contains("money"), turn=2)) == [
        "message(user='I want a refund', section='history') == "
        "message(assistant=contains('money'), turn=2)",
        'at role: wanted "assistant", found "user"',
        'at content: wanted $contains: "money", found "I want a refund"',
        "at turn: wanted 2, found 1",
    ]
    assert explained("==", contains("a"), "b") == [
        "'b' == contains('a')",
        'wanted $contains: "a", found "b"',
    ]


def test_other_comparisons_are_left_to_pytest() -> None:
    assert explained("==", "a", "b") is None
    assert explained("in", contains("a"), ["b"]) is None


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (
            lambda: message(usr="Hi"),
            "message(usr='Hi'): a message has no 'usr'; did you mean `user`? known: user, "
            "assistant, system, role, content, text, agent, section, calls, id, turn, tool, "
            "call_id, data, thinking, name",
        ),
        (
            lambda: partial({}),
            "partial({}): the matcher `{}` would hold of everything; write `{$exact: {}}` for an "
            "empty mapping, `{$any: true}` for any value",
        ),
        (
            lambda: partial({"a": {"$contain": "x"}}),
            "partial({'a': {'$contain': 'x'}}): no operator is named `$contain`; did you mean "
            f"`$contains`? known: {', '.join(sorted(OPERATORS))}",
        ),
    ],
)
def test_what_is_no_matcher_is_refused_where_it_is_written(make: Any, expected: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(expected)}$"):
        make()
