"""Objects of a pipeline's own types as plain data, and what changed in them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date
from enum import Enum
from typing import Any
from unittest.mock import patch

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from simkit.adapters import plain_values
from simkit.adapters.plain_values import NotPlain, Snapshots, fields_of, plain, plain_or_text
from simkit.trace import changes
from simkit.trace.changes import LastValues, NextValue, apply_change
from simkit.trace.store import canonical


class Colour(Enum):
    RED = "red"


class Seat(BaseModel):
    row: int = 1


@dataclass
class Passenger:
    name: str = "Ann"
    seat: Seat = field(default_factory=Seat)
    colours: tuple[Colour, ...] = (Colour.RED,)
    born: date = date(2000, 1, 2)
    lock: Any = field(default_factory=threading.Lock)
    _secret: str = "x"


class Bag:
    """Has fields, and declares none."""

    def __init__(self) -> None:
        self.items = ["shoe"]
        self._count = 1


def test_fields_that_are_data_are_read_and_others_left_out() -> None:
    fields = dict(fields_of(Passenger(), "context"))

    assert fields == {
        "name": "Ann", "seat": {"row": 1}, "colours": ["red"], "born": "2000-01-02"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("thing", "expected"),
    [
        (None, {}),
        ({"a": 1, 2: "b"}, {"a": 1, "2": "b"}),
        ("words", {"context": "words"}),
        (Bag(), {"items": ["shoe"]}),
    ],
)
def test_what_declares_no_fields_is_read_too(thing: Any, expected: dict[str, Any]) -> None:
    assert dict(fields_of(thing, "context")) == expected


def test_an_object_that_leads_back_to_itself_is_no_data() -> None:
    loop: list[Any] = []
    loop.append(loop)

    with pytest.raises(NotPlain):
        plain(loop)


def test_only_what_changed_since_the_last_look_is_told() -> None:
    snapshots, passenger = Snapshots(), Passenger()
    first, is_new = snapshots.changes("s1", passenger, "context")
    passenger.seat.row = 7

    assert (sorted(first), is_new) == (["born", "colours", "name", "seat"], True)
    assert snapshots.changes("s1", passenger, "context") == ({"seat": {"row": 7}}, False)
    assert snapshots.changes("s1", passenger, "context") == ({}, False)
    assert snapshots.changes("s2", passenger, "context")[1]


def values_in(report: dict[str, Any]) -> dict[str, Any]:
    """Returns all values as a whole, also those that come from the ones before."""
    return {
        name: value.value if isinstance(value, NextValue) else value
        for name, value in report.items()
    }


@dataclass
class Desk:
    """Holds whatever a test puts on it."""

    history: Any = field(default_factory=lambda: [{"text": "a"}, {"text": "b"}, {"text": "c"}])


def test_an_item_that_is_new_or_changed_in_place_is_told_with_its_list() -> None:
    snapshots, desk = Snapshots(), Desk()
    first, _ = snapshots.changes("s1", desk, "context")
    desk.history.append({"text": "d"})
    grown, _ = snapshots.changes("s1", desk, "context")
    desk.history[1]["text"] = "B"
    changed, _ = snapshots.changes("s1", desk, "context")
    desk.history[0]["text"] = "A"
    desk.history.append({"text": "e"})
    both, _ = snapshots.changes("s1", desk, "context")

    results = [
        [item["text"] for item in value["history"]] for value in (first, grown, changed, both)
    ]
    assert list(map("".join, results)) == ["abc", "abcd", "aBcd", "ABcde"]
    assert snapshots.changes("s1", desk, "context") == ({}, False)


@pytest.mark.parametrize("size", [0, 1, 14, 15, 16, 2**16 - 1])
def test_of_a_list_that_grows_only_what_is_new_is_converted(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    converted: list[Any] = []

    def note_conversion(value: Any, depth: int = 0) -> Any:
        converted.append(value)
        return value

    snapshots, desk = Snapshots(), Desk([{"n": n} for n in range(size)])
    snapshots.changes("s1", desk, "context")
    reader = msgspec.structs.replace(plain_values._READER, plain=note_conversion)
    monkeypatch.setattr(plain_values, "_READER", reader)
    unchanged = snapshots.changes("s1", desk, "context")
    desk.history += [{"n": "new"}, {"n": "newer"}]
    report, _ = snapshots.changes("s1", desk, "context")

    assert unchanged == ({}, False)
    assert values_in(report) == {"history": desk.history}
    assert converted == [{"n": "new"}, {"n": "newer"}]


@pytest.mark.parametrize("change", [{"content": "b"}, {"content": 1}, {"name": "Ann"}, {1: "b"}])
def test_what_changes_in_an_old_text_is_told_once(change: Any) -> None:
    snapshots, desk = Snapshots(), Desk([{"role": "user", "content": "a"} for _ in range(100)])
    snapshots.changes("s1", desk, "context")
    desk.history.append({"role": "user", "content": "b"})
    snapshots.changes("s1", desk, "context")
    desk.history[7].update(change)
    desk.history.append({"role": "user", "content": "c"})
    report, _ = snapshots.changes("s1", desk, "context")

    assert values_in(report) == {"history": plain(desk.history)}
    assert snapshots.changes("s1", desk, "context") == ({}, False)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([{"a": 1, "b": 2}], [{"b": 2, "a": 1}]),
        ([{"row": 1}], [Seat()]),
        ([Seat()], (Seat(),)),
        ({"a", "b"}, ["a", "b"]),
        ([Colour.RED], ["red"]),
        ([2**70], [2**70]),
    ],
)
def test_what_is_replaced_by_what_is_the_same_as_data_is_not_told(before: Any, after: Any) -> None:
    snapshots, desk = Snapshots(), Desk(before)
    snapshots.changes("s1", desk, "context")
    desk.history = after

    assert snapshots.changes("s1", desk, "context") == ({}, False)


@pytest.mark.parametrize(
    ("before", "after"),
    [(1, True), (1, 1.0), (0.0, -0.0), (None, ""), (None, float("nan")), (b"a", "YQ==")],
)
def test_equal_values_of_other_types_are_told(before: Any, after: Any) -> None:
    snapshots, desk = Snapshots(), Desk([{"deep": [before]}])
    snapshots.changes("s1", desk, "context")
    desk.history[0]["deep"][0] = after
    report, _ = snapshots.changes("s1", desk, "context")

    assert repr(report) == repr({"history": [{"deep": [plain(after)]}]})


@pytest.mark.parametrize(
    ("before", "after"), [([2**70], ["a", "b"]), ({8, 1}, [8, 1, 9]), ([], {"a"}), ("a", ["a"])]
)
def test_a_list_that_goes_on_from_no_list_is_converted_whole(before: Any, after: Any) -> None:
    snapshots, desk = Snapshots(), Desk(before)
    snapshots.changes("s1", desk, "context")
    desk.history = after

    assert snapshots.changes("s1", desk, "context") == ({"history": list(after)}, False)


def test_an_item_that_is_new_may_be_as_deep_as_if_it_were_old() -> None:
    deep: list[Any] = []
    for _ in range(plain_values.DEPTH_MAX):
        deep = [deep]
    snapshots, desk, other = Snapshots(), Desk(["a"]), Desk(["a"])
    for each in (desk, other):
        snapshots.changes("s1", each, "context")
    desk.history.append(deep[0])
    other.history.append(deep)

    assert snapshots.changes("s1", desk, "context") == ({"history": ["a", deep[0]]}, False)
    assert snapshots.changes("s1", other, "context") == ({}, False)


class DocumentCache:
    """Says where its field is, which is not among what it holds."""

    model_fields = ("books",)
    books = 1

    def __init__(self) -> None:
        self.other = 2


def test_a_field_that_is_held_elsewhere_is_read_too(monkeypatch: pytest.MonkeyPatch) -> None:
    snapshots, desk = Snapshots(), Desk([DocumentCache()])
    snapshots.changes("s1", desk, "context")
    monkeypatch.setattr(DocumentCache, "books", 3)

    assert snapshots.changes("s1", desk, "context") == ({"history": [{"books": 3}]}, False)


def test_a_list_with_what_is_no_data_is_left_out_until_it_is_data_again() -> None:
    snapshots, desk = Snapshots(), Desk(["a"])
    snapshots.changes("s1", desk, "context")
    desk.history.append(threading.Lock())
    left_out = snapshots.changes("s1", desk, "context")
    desk.history[1] = "b"

    assert left_out == ({}, False)
    assert snapshots.changes("s1", desk, "context") == ({"history": ["a", "b"]}, False)


class Struct(msgspec.Struct):
    reply: Any = None


class Reply(BaseModel):
    reply: Any = None
    again: Any = None


@dataclass
class Note:
    reply: Any = None
    _note: Any = None


_ATOMS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3),
    st.binary(max_size=3), st.dates(), st.datetimes(timezones=st.just(UTC)),
    st.sampled_from(Colour), st.frozensets(st.booleans(), max_size=1),
    st.just(2**70), st.builds(threading.Lock),
)  # fmt: skip


def _made_of(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.lists(values, max_size=3), st.lists(values, max_size=2).map(tuple),
        st.dictionaries(st.text(max_size=2) | st.integers(0, 2), values, max_size=3),
        st.builds(Struct, values), st.builds(Note, values, values),
        st.builds(lambda item, two: Reply(reply=item, again=two), values, values),
    )  # fmt: skip


_VALUES = st.recursive(_ATOMS, _made_of, max_leaves=6)


_sorted = msgspec.json.Encoder(order="sorted").encode


def _changed(draw: Callable[[st.SearchStrategy[Any]], Any], value: Any) -> Any:
    """Returns what takes a value's place: often the value itself, changed in place, deep inside."""
    if isinstance(value, list):
        place = draw(st.integers(0, len(value)))
        if place == len(value):
            value.extend(draw(st.lists(_VALUES, max_size=18)))
        elif draw(st.booleans()):
            value[place] = _changed(draw, value[place])
        else:
            del value[place]
        return value
    if isinstance(value, dict) and value:
        key = draw(st.sampled_from(list(value)))
        value[key] = _changed(draw, value[key])
        return value
    if isinstance(value, (Struct, Note, Reply)):
        name = draw(st.sampled_from(["_note", "reply"] if isinstance(value, Note) else ["reply"]))
        setattr(value, name, _changed(draw, getattr(value, name)))
        return value
    return draw(_VALUES)


@pytest.mark.slow
@given(st.data())
def test_what_is_told_is_what_whole_conversions_that_differ_would_tell(data: Any) -> None:
    desk = Desk(data.draw(st.lists(_VALUES, max_size=4)))
    snapshots, before = Snapshots(), b""
    last_values, rebuilt = LastValues(), None
    for _ in range(4):
        with patch.object(changes, "WHOLE_MAX", data.draw(st.sampled_from([0, 10, 1_000]))):
            report, _ = snapshots.changes("s1", desk, "context")
        try:
            whole = plain(desk.history)
        except NotPlain:
            expected = {}
        else:
            encoded = msgspec.json.encode(whole, order="sorted")
            expected = {} if encoded == before else {"history": whole}
            before = encoded
        assert _sorted(values_in(report)) == _sorted(expected)
        for value in report.values():
            with patch.object(changes, "WHOLE_MAX", data.draw(st.sampled_from([0, 10, 1_000]))):
                raw = last_values.shorten(("s1", "history"), value, lambda part: part)
            rebuilt = apply_change(rebuilt, raw, lambda part: part)
            assert _sorted(canonical(rebuilt)) == _sorted(canonical(whole))
        desk.history = _changed(data.draw, desk.history)


@dataclass
class Chair:
    row: int


class Client:
    def __str__(self) -> str:
        return "a client"


def test_data_is_told_as_it_is_and_all_else_as_a_text() -> None:
    values = [plain_or_text(item) for item in (None, "2A", Chair(2), Client())]

    assert values == [None, "2A", {"row": 2}, "a client"]
