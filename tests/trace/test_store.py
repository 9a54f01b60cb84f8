"""Traces: what may be recorded, written and read back."""

from __future__ import annotations

import enum
import math
import pickle
from collections import OrderedDict, UserDict, UserList, deque
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pydantic import BaseModel

from simkit.core.errors import TraceError
from simkit.core.messages import Message
from simkit.trace.events import (
    RequestSent,
    ResponseReceived,
    RunFinished,
    RunStarted,
    StateUpdated,
    ToolReturned,
)
from simkit.trace.reducers import Appended
from simkit.trace.store import Trace, canonical, copied, decoded, read_trace, redacted


@dataclass
class Meal:
    food: str
    tags: set[str]


class Plan(BaseModel):
    name: str
    meals: list[int] = []


class Struct(msgspec.Struct):
    a: int


class Plain:
    def __init__(self, value: Any) -> None:
        self.value = value


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Label(str):
    __slots__ = ()


NAME = __name__


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (None, None),
        (True, True),
        (1.5, 1.5),
        ("é", "é"),
        ((1, (2,)), [1, [2]]),
        ({"b": 1, "a": {"c": ()}}, {"b": 1, "a": {"c": []}}),
        ({1: "a", None: "b", (1, "x"): "c"}, {"1": "a", "null": "b", '[1,"x"]': "c"}),
        ({3, 1, 2}, [1, 2, 3]),
        (frozenset({"b", "a", 1}), ["a", "b", 1]),
        ({(2, 1), (1, 2)}, [[1, 2], [2, 1]]),
        (Appended([1, {2}]), [1, [2]]),
        (deque([1, 2]), [1, 2]),
        (UserList([1]), [1]),
        (UserDict({"a": {1}}), {"a": [1]}),
        (OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
        (range(3), [0, 1, 2]),
        (math.nan, {"$float": "nan"}),
        (math.inf, {"$float": "inf"}),
        (-math.inf, {"$float": "-inf"}),
        (Label("text"), "text"),
        (
            b"abc",
            {
                "$bytes": 3,
                "sha256": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
            },
        ),
        (Message("user", "Hi", "m12"), {"$message": 12}),
        (
            Message("assistant", "Hi", agent="a", data={1}),
            {"$unlogged": {"role": "assistant", "content": "Hi", "agent": "a", "data": [1]}},
        ),
    ],
)
def test_any_value_has_one_plain_form(value: Any, plain: Any) -> None:
    result = canonical(value)

    assert result == plain
    assert repr(result) == repr(plain)  # 1 is not true, and a text is exactly a text
    assert msgspec.json.decode(msgspec.json.encode(result)) == plain


@pytest.mark.parametrize(
    ("value", "name", "content"),
    [
        (Meal("pizza", {"b", "a"}), "Meal", {"food": "pizza", "tags": ["a", "b"]}),
        (Plan(name="cut", meals=[1]), "Plan", {"name": "cut", "meals": [1]}),
        (Struct(1), "Struct", {"a": 1}),
        (Color.RED, "Color", 1),
    ],
)
def test_foreign_objects_are_tagged_with_their_type_and_content(
    value: Any, name: str, content: Any
) -> None:
    result = canonical(value)

    assert result["$object"] == f"{NAME}.{name}"
    assert result["value"] == content
    assert len(result["sha256"]) == 16


@pytest.mark.parametrize(
    ("item", "same", "other"),
    [
        (Meal("a", {"x"}), Meal("a", {"x"}), Meal("b", {"x"})),
        (Plan(name="a"), Plan(name="a"), Plan(name="b")),
        (Color.RED, Color.RED, Color.BLUE),
        (
            datetime(2026, 1, 5, tzinfo=UTC),
            datetime(2026, 1, 5, tzinfo=UTC),
            datetime(2026, 1, 6, tzinfo=UTC),
        ),
        (Decimal("1.5"), Decimal("1.5"), Decimal("1.6")),
        (Path("a"), Path("a"), Path("b")),
        (10**30, 10**30, 10**30 + 1),
    ],
)
def test_equal_objects_have_equal_forms_and_others_do_not(
    item: object, same: object, other: object
) -> None:
    assert canonical(item) == canonical(same)
    assert canonical(item) != canonical(other)
    assert decoded(_with(canonical(item))).events == decoded(_with(canonical(same))).events


def test_object_of_no_known_kind_is_its_type_alone() -> None:
    assert canonical(Plain(1)) == {"$object": f"{NAME}.Plain"}
    assert canonical(Meal) == {"$object": "builtins.type"}


def _with(value: Any) -> bytes:
    trace = Trace()
    trace.emit(ToolReturned(0, result=value))
    return trace.encoded()


def _gives_an_address() -> Any:
    yield 1


@pytest.mark.parametrize(
    "make",
    [
        object,
        lambda: Plain,
        lambda: str.upper,
        _gives_an_address,
        lambda: Plain(object()),
        lambda: {"deep": [object()]},
        lambda: {object()},
        lambda: print,
        lambda: memoryview(b"abc"),
        lambda: ValueError("x"),
    ],
)
def test_no_form_holds_an_address(make: Any) -> None:
    first, second = make(), make()  # both live, so they stand at different addresses

    assert canonical(first) == canonical(second)
    assert "0x" not in repr(canonical(first))


def test_what_the_pipeline_changes_later_does_not_change_what_was_recorded() -> None:
    value: dict[str, Any] = {"list": [1], "inner": {"a": 1}}
    plain = canonical(value)
    value["list"].append(2)
    value["inner"]["a"] = 2

    assert plain == {"list": [1], "inner": {"a": 1}}


def test_copies_for_users_are_plain_and_keep_messages() -> None:
    message = Message("user", "Hi", "m1")
    value = {"messages": Appended([message]), "pair": (1, {2}), 3: None}
    copy = copied(value)

    assert copy == {"messages": [message], "pair": [1, [2]], "3": None}
    assert type(copy["messages"]) is list
    assert copy["messages"][0] is message


def trace_of(*values: Any) -> Trace:
    trace = Trace()
    trace.emit(RunStarted(0, scenario="s", seed=3, start="2026-01-05T09:00:00Z", driver="d"))
    for value in values:
        trace.emit(StateUpdated(5, "s1", 1, update={"x": canonical(value)}))
    trace.emit(RunFinished(7))
    return trace


def test_trace_is_a_header_and_one_event_a_line() -> None:
    assert trace_of({"b": 1, "a": None}).lines() == [
        b'{"simkit_trace":3}',
        b'{"kind":"RunStarted","at":0,"scenario":"s","seed":3,"start":"2026-01-05T09:00:00Z",'
        b'"driver":"d"}',
        b'{"kind":"StateUpdated","at":5,"session":"s1","turn":1,"update":{"x":{"b":1,"a":null}}}',
        b'{"kind":"RunFinished","at":7}',
    ]


def test_line_separators_inside_texts_end_no_line() -> None:
    trace = trace_of("a\u2028b\x85c\x0bd\ne")

    assert len(trace.lines()) == 4
    assert decoded(trace.encoded()).events == trace.events


def test_digest_is_equal_exactly_for_equal_traces() -> None:
    trace = trace_of(1)
    before = trace.digest()

    assert before == trace_of(1).digest()
    assert before != trace_of(2).digest()
    trace.emit(RunFinished(8))
    assert trace.digest() != before


def test_what_went_over_the_wire_is_stored_and_not_compared(tmp_path: Path) -> None:
    trace, without = trace_of(1), trace_of(1)
    trace.events[1:1] = [
        RequestSent(0, call="c1", method="POST", url="host/v1", where="app.py:3 in ask", body={}),
        ResponseReceived(0, call="c1", status=200, body="data: {}"),
    ]
    file = tmp_path / "a.jsonl"
    file.write_bytes(trace.stored())

    assert (trace.digest(), trace.lines()) == (without.digest(), without.lines())
    assert read_trace(file).events == trace.events
    assert without.stored() is without.encoded()
    hidden = redacted(trace, lambda lines: lines.replace(b"host", b"xxxx"))
    assert hidden.events[1] == msgspec.structs.replace(trace.events[1], url="xxxx/v1")


def test_an_event_in_another_ones_place_is_encoded() -> None:
    trace = trace_of("a")
    assert trace.encoded() is trace.encoded()
    trace.events[-1] = RunFinished(8)

    assert trace.lines()[-1] == b'{"kind":"RunFinished","at":8}'
    trace.events.pop()
    assert len(trace.lines()) == 3


def test_stored_trace_is_read_back_as_it_was(tmp_path: Path) -> None:
    trace = trace_of([1.5, None, "é"], {"deep": [{}]})
    file = tmp_path / "a.jsonl"
    file.write_bytes(trace.encoded())

    assert read_trace(file).events == trace.events
    assert read_trace(file).encoded() == trace.encoded()


def test_value_that_no_json_can_hold_is_told_with_its_event() -> None:
    trace = Trace()
    trace.emit(ToolReturned(0, result=object()))

    with pytest.raises(TraceError) as error:
        trace.encoded()
    assert str(error.value) == (
        "event ToolReturned holds a value that cannot be recorded: "
        "Encoding objects of type object is unsupported"
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", 't:1: this is no simkit trace: its first line must be {"simkit_trace":3}'),
        (b"[]\n", 't:1: this is no simkit trace: its first line must be {"simkit_trace":3}'),
        (
            b'{"simkit_trace":1}\n',
            "t:1: the trace has format 1, this simkit reads format 3. "
            "Run its scenario again to get a new one.",
        ),
        (
            b'{"simkit_trace":3}\n{"kind":"RunFinished","at":1}\n{"kind":"Nonsense"}\n',
            "t:3: not an event of a simkit trace: Invalid value 'Nonsense' - at `$.kind`. Run its "
            "scenario again to get a new one.",
        ),
        (
            b'{"simkit_trace":3}\n{"kind":"RunFinished","at":',
            "t:2: not an event of a simkit trace: Input data was truncated. Run its "
            "scenario again to get a new one.",
        ),
        (
            b'{"simkit_trace":3}\n\n{"kind":"RunFinished","at":1}\n',
            "t:2: not an event of a simkit trace: Input data was truncated. Run its "
            "scenario again to get a new one.",
        ),
    ],
)
def test_what_is_no_trace_is_refused_with_file_and_line(content: bytes, message: str) -> None:
    with pytest.raises(TraceError) as error:
        decoded(content, "t")

    assert str(error.value) == message


def test_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(TraceError) as error:
        read_trace(tmp_path / "no.jsonl")

    assert str(error.value) == f"{tmp_path / 'no.jsonl'}: No such file or directory"


def test_a_trace_that_is_heard_goes_to_another_process_as_its_events() -> None:
    trace = Trace()
    events: list[Any] = []
    trace.tell(events.append, id)
    trace.emit(RunFinished(0))

    copy = pickle.loads(pickle.dumps(trace))

    assert copy.events == trace.events == events
