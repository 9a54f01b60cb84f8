"""Reducers, and the list that grows without copying."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.core.errors import WriteInvalid
from simkit.core.messages import Message
from simkit.trace.reducers import (
    BUILT_IN,
    Appended,
    add,
    append,
    by_id,
    channel_reducer,
    empty_value,
    is_reset,
    merge,
    merge_deep,
    problem_of,
    reducer_of,
    replace,
    union,
)

STEPS = st.lists(
    st.tuples(
        st.integers(0, 30),  # which of the lists made so far grows
        st.lists(st.integers(), max_size=4),
        st.integers(0, 3),  # `last`; 0 keeps all
    ),
    max_size=25,
)


@pytest.mark.parametrize("copied_max", [64, 2, 0])
@given(steps=STEPS)
def test_appended_lists_behave_as_plain_lists_however_they_fork(
    copied_max: int, steps: list[tuple[int, list[int], int]]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("simkit.trace.reducers._COPIED_MAX", copied_max)
        check_forks(steps)


def check_forks(steps: list[tuple[int, list[int], int]]) -> None:
    shared: list[Appended] = [Appended()]
    plain: list[list[int]] = [[]]
    for which, more, last in steps:
        place = which % len(shared)
        shared.append(shared[place].extended(more, last))
        grown = [*plain[place], *more]
        plain.append(grown[-last:] if last else grown)

    assert [list(entry) for entry in shared] == plain
    assert [len(entry) for entry in shared] == [len(entry) for entry in plain]
    for item, other in zip(shared, plain, strict=True):
        assert item == other
        assert [item[k] for k in range(-len(other), len(other))] == other * 2
        assert (item[1:], item[::-1], item[-2:]) == (other[1:], other[::-1], other[-2:])
        with pytest.raises(IndexError):
            item[len(other)]
        with pytest.raises(IndexError):
            item[-len(other) - 1]


def test_forks_of_a_long_list_share_it() -> None:
    long = Appended(list(range(1_000)))
    main, fork = long.extended([1]), long.extended([2])
    deeper = fork.extended([3]), fork.extended([4])

    assert [list(item)[999:] for item in (main, fork, *deeper)] == [
        [999, 1], [999, 2], [999, 2, 3], [999, 2, 4]
    ]  # fmt: skip
    assert [len(item._items) for item in (main, fork, *deeper)] == [1_001, 2, 2, 1]
    # A fork goes on as any list does.
    assert deeper[0].family == fork.family


def test_appending_to_the_newest_list_shares_and_to_an_older_one_copies() -> None:
    first = Appended([1, 2])
    second = first.extended([3])
    fork = first.extended([4])

    assert (list(first), list(second), list(fork)) == ([1, 2], [1, 2, 3], [1, 2, 4])
    assert second.family == first.family
    assert fork.family != first.family


def test_a_list_that_keeps_its_last_items_does_not_keep_the_others_in_memory() -> None:
    source = Appended()
    for number in range(10_000):
        source = source.extended([number], last=3)

    assert list(source) == [9_997, 9_998, 9_999]
    assert len(source._items) < 100


def test_appended_is_shown_as_a_list_and_equals_no_other_type() -> None:
    assert repr(Appended([1, "a"])) == "[1, 'a']"
    assert Appended([1]) != (1,)
    assert Appended([1]) != Appended([2])


def test_replace_takes_the_update_even_if_it_is_null() -> None:
    assert replace({"a": 1}, None) is None
    assert replace(1, [2]) == [2]


@pytest.mark.parametrize(
    ("current", "update", "last", "value"),
    [
        ([1], [2, 3], 0, [1, 2, 3]),
        ([1], (2,), 0, [1, 2]),
        ([1], Appended([2]), 0, [1, 2]),
        ([1], {"a": 2}, 0, [1, {"a": 2}]),
        ([1], "text", 0, [1, "text"]),
        ([1], None, 0, [1]),
        (None, 1, 0, [1]),
        ([1, 2], [3, 4], 3, [2, 3, 4]),
        ([], [1, 2, 3], 2, [2, 3]),
        ([1], [], 0, [1]),
    ],
)
def test_append_extends_by_a_list_adds_anything_else_and_skips_null(
    current: Any, update: Any, last: int, value: list[Any]
) -> None:
    assert list(append(current, update, last)) == value


def test_reducer_that_keeps_its_last_items_also_knows_the_reset() -> None:
    reduce = reducer_of("append", 2)

    assert reduce(Appended([1, 2]), [3]) == [2, 3]
    assert reduce(Appended([1, 2]), {"$set": [5]}) == [5]


PLAIN = st.recursive(
    st.none() | st.integers() | st.sampled_from(["a", "id"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "id", "$set"]), inner, max_size=2)
    ),
    max_leaves=6,
)


@pytest.mark.parametrize("name", BUILT_IN)
@given(current=PLAIN, update=PLAIN)
def test_a_channel_reduces_as_its_reducer_does_or_refuses(
    name: str, current: Any, update: Any
) -> None:
    if name == "append":
        current = append(None, current)
    reduce = channel_reducer("x", name)
    if problem_of(name, update, current):
        with pytest.raises(WriteInvalid):
            reduce(current, update)
        return

    value = reduce(current, update)

    if is_reset(update):
        assert value == empty_value(name, update["$set"])
    else:
        assert value == BUILT_IN[name](current, update)


def test_append_leaves_the_plain_list_it_was_given_as_it_was() -> None:
    current = [1]

    assert append(current, 2) == [1, 2]
    assert current == [1]


def test_merge_is_shallow_and_merge_deep_is_not() -> None:
    current = {"a": {"x": 1}, "b": 1}
    update = {"a": {"y": 2}, "b": {"z": 3}}

    assert merge(current, update) == {"a": {"y": 2}, "b": {"z": 3}}
    assert merge_deep(current, update) == {"a": {"x": 1, "y": 2}, "b": {"z": 3}}
    assert merge_deep({"a": {"x": {"p": 1}}}, {"a": {"x": {"q": None}}}) == {
        "a": {"x": {"p": 1, "q": None}}
    }
    assert current == {"a": {"x": 1}, "b": 1}


@pytest.mark.parametrize("reducer", ["append", "merge", "merge_deep", "add", "union", "by_id"])
def test_null_leaves_every_value_but_a_replaced_one_as_it_is(reducer: str) -> None:
    current: Any = {"merge": {"a": 1}, "merge_deep": {"a": 1}, "add": 3}.get(reducer, [1])

    assert reducer_of(reducer)(current, None) == current


def test_add_sums_numbers_and_starts_at_nothing() -> None:
    assert add(None, 2) == 2
    assert add(2, 0.5) == 2.5
    assert add(2, -2) == 0


def test_union_adds_what_is_not_there_yet_in_order() -> None:
    assert union([1, {"a": 1}], [{"a": 1}, 2, 2]) == [1, {"a": 1}, 2]
    assert union(None, "x") == ["x"]


def test_by_id_replaces_in_place_and_adds_the_rest() -> None:
    current = [{"id": 1, "v": "old"}, {"id": 2}]

    assert by_id(current, [{"id": 1, "v": "new"}, {"id": 3}, {"id": 3, "v": "again"}]) == [
        {"id": 1, "v": "new"},
        {"id": 2},
        {"id": 3, "v": "again"},
    ]
    assert by_id(None, {"v": "no id"}) == [{"v": "no id"}]
    assert current == [{"id": 1, "v": "old"}, {"id": 2}]


def test_by_id_never_replaces_an_item_without_an_id() -> None:
    assert by_id([{"v": 1}], [{"v": 2}, {"id": None, "v": 3}]) == [
        {"v": 1},
        {"v": 2},
        {"id": None, "v": 3},
    ]


def test_by_id_knows_messages_by_their_id() -> None:
    old, new = Message("user", "old", "m1"), Message("user", "new", "m1")

    assert by_id([old], new) == [new]


@pytest.mark.parametrize(
    ("reducer", "value"),
    [
        ("replace", None),
        ("append", []),
        ("merge", {}),
        ("merge_deep", {}),
        ("add", 0),
        ("union", []),
        ("by_id", []),
        ("module:function", None),
    ],
)
def test_channel_begins_as_its_reducers_empty_value(reducer: str, value: Any) -> None:
    assert empty_value(reducer, None) == value


def test_channel_begins_as_its_default() -> None:
    assert empty_value("replace", "UTC") == "UTC"
    assert empty_value("append", "one item") == ["one item"]
    assert isinstance(empty_value("append", [1]), Appended)


@pytest.mark.parametrize(
    ("reducer", "current", "new", "value"),
    [
        ("append", [1, 2], [3], [3]),
        ("append", [1, 2], None, []),
        ("merge", {"a": 1}, {"b": 2}, {"b": 2}),
        ("add", 5, 1, 1),
        ("add", 5, None, 0),
        ("union", [1], [2], [2]),
        ("by_id", [{"id": 1}], [], []),
        ("replace", 1, None, None),
    ],
)
def test_declared_reset_replaces_the_value_whatever_the_reducer(
    reducer: str, current: Any, new: Any, value: Any
) -> None:
    assert reducer_of(reducer)(current, {"$set": new}) == value


def test_reset_is_a_mapping_of_that_one_key() -> None:
    assert is_reset({"$set": 1})
    assert not is_reset({"$set": 1, "a": 2})
    assert not is_reset(["$set"])


@pytest.mark.parametrize(
    ("reducer", "update", "problem"),
    [
        ("merge", [1], "reducer `merge` takes a mapping, not a list of 1"),
        ("merge_deep", "x", "reducer `merge` takes a mapping, not 'x'"),
        ("add", "x", "reducer `add` takes a number, not 'x'"),
        ("add", True, "reducer `add` takes a number, not True"),
        ("add", 1.5, ""),
        ("merge", {}, ""),
        ("merge", None, ""),
        ("add", {"$set": "x"}, ""),
        ("append", "anything", ""),
        ("replace", "anything", ""),
    ],
)
def test_updates_that_a_reducer_cannot_take_are_told(
    reducer: str, update: Any, problem: str
) -> None:
    assert problem_of(reducer, update) == problem


@pytest.mark.parametrize(
    ("reducer", "current", "update", "problem"),
    [
        ("add", "many", 1, "reducer `add` joins a number to another, but the channel holds 'many'"),
        ("merge", [1], {}, "reducer `merge` joins a mapping to another, "
         "but the channel holds a list of 1"),
        ("add", "many", {"$set": 1}, ""),
        ("add", 2, 1, ""),
        ("merge", None, {}, ""),
    ],
)  # fmt: skip
def test_updates_that_do_not_fit_what_is_there_are_told(
    reducer: str, current: Any, update: Any, problem: str
) -> None:
    assert problem_of(reducer, update, current) == problem


def test_union_and_by_id_tell_true_from_one_as_matching_does() -> None:
    assert union([1], [True, 1.0]) == [1, True]
    assert [item["v"] for item in by_id([{"id": 1, "v": "a"}], [{"id": True, "v": "b"}])] == [
        "a",
        "b",
    ]
    assert by_id([{"id": 1, "v": "a"}], [{"id": 1.0, "v": "b"}]) == [{"id": 1.0, "v": "b"}]
