"""An update that says what comes after the value before it stands for the whole value."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.core.errors import TraceError
from simkit.report.wording import event_lines
from simkit.session.simulate import run, simulate
from simkit.spec.scenario.files import Library, Prepared, items_in, scenario_files
from simkit.trace import changes
from simkit.trace import events as e
from simkit.trace.changes import LastValues, apply_change, is_change
from simkit.trace.reducers import Appended, Keyed
from simkit.trace.store import canonical, decoded
from simkit.trace.views import View, view_of
from tests.conftest import IS_NIGHTLY, sample_by_day
from tests.trace import growing_states

ROOT = Path(__file__).resolve().parents[2]
_encode = msgspec.json.Encoder().encode

_ATOMS = st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.just(2**70)
_KEYS = st.sampled_from(["a", "b", "c", "$more", "$with", "$message", "$data", "7"])
_JSON = st.recursive(
    _ATOMS | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_KEYS, inner, max_size=4),
    max_leaves=12,
)


def _after(draw: Callable[[st.SearchStrategy[Any]], Any], value: Any) -> Any:
    """Returns what comes after a value: more of it, another value deep inside, or anything."""
    if isinstance(value, str) and draw(st.booleans()):
        return value + draw(st.text(max_size=3))
    if isinstance(value, list) and draw(st.integers(0, 4)):
        if value and draw(st.booleans()):
            place = draw(st.integers(0, len(value) - 1))
            value[place] = _after(draw, value[place])
        return [*value, *draw(st.lists(_JSON, max_size=3))]
    if isinstance(value, dict) and draw(st.integers(0, 4)):
        if value and draw(st.booleans()):
            key = draw(st.sampled_from(list(value)))
            value[key] = _after(draw, value[key])
        return {**value, **draw(st.dictionaries(_KEYS, _JSON, max_size=2))}
    return draw(_JSON)


@pytest.mark.slow
@given(st.data())
def test_a_change_of_the_value_before_gives_the_value_and_leaves_the_one_before(data: Any) -> None:
    """Values are compared as bytes, so that ``true`` is not ``1``, and keys keep their order."""
    view, last_values, update = View(), LastValues(), ("s1", "", "update", "x")
    value = data.draw(_JSON)
    snapshots: list[tuple[Any, bytes]] = []
    for _ in range(5):
        with patch.object(changes, "WHOLE_MAX", data.draw(st.sampled_from([0, 8, 1_000]))):
            raw = last_values.shorten(update, copy.deepcopy(value), canonical)
        assert len(_encode(raw)) <= len(_encode(canonical(value)))
        event = e.StateUpdated(0, "s1", update={"x": msgspec.json.decode(_encode(raw))})
        view.apply(event)
        assert _encode(canonical(view.update_of(event)["x"])) == _encode(canonical(value))
        snapshots.append((view.states["s1"]["x"], _encode(canonical(value))))
        value = _after(data.draw, value)
    for value, expected in snapshots:
        assert _encode(canonical(value)) == expected


def _events_in(prepared: Prepared, whole_max: int) -> tuple[list[bytes], int]:
    """Returns a run's events with whole values, and the number of changes among them."""
    with patch.object(changes, "WHOLE_MAX", whole_max):
        trace = decoded(run(prepared).encoded())
    view = view_of(trace.events)
    updates = [event for event in trace.events if isinstance(event, e.StateUpdated)]
    raws = [
        raw for event in updates for raw in (*event.update.values(), *(event.values or {}).values())
    ]
    return [_encode(view.whole_event(event)) for event in trace.events], sum(map(is_change, raws))


@pytest.mark.slow(10)
def test_traces_of_all_scenarios_hold_the_same_with_and_without_changes() -> None:
    library, number = Library(), 0
    for file in sample_by_day(scenario_files(ROOT / "scenarios"), 3):
        for item in items_in(file):
            prepared = library.prepared(item)
            if prepared.skip is None:
                whole, none = _events_in(prepared, 10**9)
                events, some = _events_in(prepared, 0)
                assert (events, none) == (whole, 0), item.id
                number += some
    # The files of a day may have no value that changes; all of them have many.
    assert number > 20 or not IS_NIGHTLY


@pytest.mark.parametrize("name", growing_states.CASES)
def test_state_that_grows_is_written_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.syspath_prepend(str(growing_states.APPS))
    few, many = (_update_bytes(name, turns) for turns in (6, 12))

    assert many < 2.2 * few
    assert many < 12 * 600


def _update_bytes(name: str, turns: int) -> int:
    if name.startswith("OpenAI"):
        pytest.importorskip("agents")
    lines = run(growing_states.prepared_for(growing_states.CASES[name], turns)).lines()
    return sum(len(line) for line in lines if b'"StateUpdated"' in line)


def test_claims_see_whole_values_and_people_what_came_to_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(growing_states.APPS))
    log = {"log": {"$len": 12, "$has": {"role": "user", "content": {"$contains": "Question 0"}}}}
    expect = {"state": log, "events": {"$has": {"kind": "StateUpdated", "update": log}}}
    case = growing_states.CASES["simkit.state, a list"]
    case = msgspec.structs.replace(case, scenario={**case.scenario, "expect": expect})
    outcome = simulate(growing_states.prepared_for(case, 6))
    lines = [line for line in event_lines(outcome.trace.events) if "StateUpdated" in line]

    assert outcome.judgement.findings == ()
    assert lines[-1].partition("StateUpdated")[2].strip().startswith("writes: log: +1 item [{")


def test_a_mapping_shares_its_values_with_those_that_it_grew_from() -> None:
    first = Keyed({"a": 1})
    second = first.extended({"b": 2})
    third = second.extended({"a": 3})
    other = first.extended({"c": 4})

    assert [dict(each) for each in (first, second, third, other)] == [
        {"a": 1}, {"a": 1, "b": 2}, {"a": 3, "b": 2}, {"a": 1, "c": 4},
    ]  # fmt: skip
    assert ("b" in first, len(first), first) == (False, 1, {"a": 1})
    assert repr(second) == "{'a': 1, 'b': 2}"


def test_a_list_with_another_item_inside_is_a_new_list() -> None:
    before = Appended(["a", {"n": 1}])
    after = apply_change(
        before, {"$with": {"1": {"$with": {"n": 2}}, "2": "c"}}, lambda value: value
    )

    assert [list(before), list(after)] == [["a", {"n": 1}], ["a", {"n": 2}, "c"]]


@pytest.mark.parametrize("raw", [{"$more": ["a"]}, {"$with": {"a": 1}}, {"$more": "a"}])
def test_a_change_of_a_value_that_no_event_wrote_is_refused(raw: Any) -> None:
    with pytest.raises(TraceError, match="no earlier event of the trace wrote the value"):
        view_of([e.StateUpdated(0, "s1", update={"x": raw})]).states  # noqa: B018
