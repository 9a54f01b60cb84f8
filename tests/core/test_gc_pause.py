"""The garbage collector is left out of simkit's own work, and of nobody else's."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from simkit.core import gc_pause
from simkit.core.gc_pause import collected_meanwhile, gc_paused
from tests.adapters.running import run_app
from tests.building import run_yaml

TEXT = "tests.core.test_gc_pause"
VALUES_BY_NAME: dict[str, list[bool]] = {}
"""Where user code was called: whether the collector was at work."""
CYCLES: list[weakref.ref[Any]] = []


FROZEN_MAX = gc_pause.FROZEN_MAX


@pytest.fixture(autouse=True)
def _collector_as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    was_enabled = gc.isenabled()
    # tests/conftest.py has frozen all tests; to walk them here would take a second each time.
    monkeypatch.setattr(gc_pause, "FROZEN_MAX", sys.maxsize)
    monkeypatch.setattr(gc_pause, "SPARED_MIN", 2_000)
    monkeypatch.setattr(gc_pause._collector, "_is_frozen", False)
    VALUES_BY_NAME.clear()
    CYCLES.clear()
    gc_pause._collector._spared = 0
    yield
    (gc.enable if was_enabled else gc.disable)()
    gc.freeze()


def test_the_collector_waits_until_the_work_is_done() -> None:
    gc.enable()

    with gc_paused:
        inside = gc.isenabled()

    assert (inside, gc.isenabled()) == (False, True)


def collections_after(size: int) -> int:
    """Returns how many collections follow a pause that made so many objects, all of them alive."""
    phases: list[str] = []
    gc.collect()
    gc.callbacks.append(lambda phase, _facts: phases.append(phase))
    try:
        with gc_paused:
            values = [[number] for number in range(size)]
        values += [[number] for number in range(300)]  # too few to begin a collection themselves
    finally:
        gc.callbacks.pop()
    return phases.count("start")


def test_what_a_long_pause_has_made_is_not_walked_through() -> None:
    gc.enable()

    assert collections_after(gc_pause.SPARED_MIN // 2) == 1
    assert collections_after(gc_pause.SPARED_MIN * 2) == 0


@pytest.mark.slow
def test_what_was_not_walked_through_is_collected_some_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gc.enable()
    monkeypatch.setattr(gc_pause, "SPARED_MAX", gc_pause.SPARED_MIN * 3)
    gc.collect()
    freed: list[bool] = []
    for _ in range(2):
        with gc_paused:
            cycle: list[Any] = [Cycle()]
            cycle.append(cycle)
            CYCLES.append(weakref.ref(cycle[0]))
            values = [[number] for number in range(gc_pause.SPARED_MIN * 2)]
            del cycle, values
            values = [[number] for number in range(gc_pause.SPARED_MIN * 2)]
        freed.append(CYCLES[0]() is None)
        del values

    assert freed == [False, True]


@pytest.mark.slow
def test_what_somebody_has_frozen_stays_frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gc_pause, "FROZEN_MAX", FROZEN_MAX)
    gc.enable()
    gc.freeze()
    frozen = gc.get_freeze_count()
    collections_after(gc_pause.SPARED_MIN * 2)

    assert gc.get_freeze_count() >= frozen - 100  # some of them may have ended


class Cycle:
    """Something that a cycle holds."""


def test_the_collector_comes_back_after_an_error() -> None:
    gc.enable()

    with pytest.raises(ValueError, match="broken"), gc_paused:
        raise ValueError("broken")

    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()

    with gc_paused, gc_paused, collected_meanwhile:
        inside = gc.isenabled()

    assert (inside, gc.isenabled()) == (False, False)


def test_the_collector_works_while_user_code_does_however_often_it_was_paused() -> None:
    gc.enable()

    with gc_paused, gc_paused:
        before = gc.isenabled()
        with collected_meanwhile, collected_meanwhile, gc_paused:
            inside = gc.isenabled()
        after = gc.isenabled()

    assert (before, inside, after, gc.isenabled()) == (False, True, False, True)


def test_what_user_code_itself_switches_off_stays_off() -> None:
    gc.enable()

    with gc_paused:
        with collected_meanwhile:
            gc.disable()
        between = gc.isenabled()

    assert (between, gc.isenabled()) == (False, False)


def test_user_code_in_one_thread_keeps_the_collector_from_being_paused_in_another() -> None:
    gc.enable()
    entered, over, results = threading.Event(), threading.Event(), []

    def user_code() -> None:
        with collected_meanwhile:
            entered.set()
            over.wait(60)
            results.append(gc.isenabled())

    thread = threading.Thread(target=user_code)
    thread.start()
    entered.wait(60)
    with gc_paused:
        over.set()
        thread.join()
        after = gc.isenabled()

    assert (results, after, gc.isenabled()) == ([True], False, True)


# Every place from which user code is called.


def _note(place: str) -> None:
    VALUES_BY_NAME.setdefault(place, []).append(gc.isenabled())


class Node:
    """Part of a cycle."""


def _cycles() -> None:
    """Makes cycles that only the collector can free."""
    for _ in range(400):
        node, other = Node(), Node()
        node.other, other.other = other, node  # type: ignore[attr-defined]
    CYCLES.append(weakref.ref(node))


def agent(state: Any) -> str:
    _note("agent")
    _cycles()
    return "done"


async def async_agent(state: Any) -> str:
    _note("async agent")
    return "done"


def tool(args: Any) -> str:
    _note("tool")
    return "found"


def reducer(_current: Any, update: Any) -> Any:
    _note("reducer")
    return update


def keep(message: Any) -> Any:
    _note("filter")
    return message


def section(root: Any) -> str:
    _note("section")
    return "mine"


def reply(messages: Any) -> str:
    _note("reply line")
    return "Hello"


def predicate(view: Any) -> bool:
    _note("claim")
    return True


PIPELINE = f"""
agents:
  first: {{function: "{TEXT}:agent"}}
  second: {{function: "{TEXT}:async_agent"}}
  third:
    tools: [look]
    writes: {{x: "${{run.reply}}"}}
    context: [{{mine: {{function: "{TEXT}:section"}}}}, {{history: {{filters: ["{TEXT}:keep"]}}}}]
tools: {{look: {{function: "{TEXT}:tool"}}}}
channels: {{x: {{reducer: "{TEXT}:reducer"}}}}
flow:
  graph:
    nodes: {{first: {{start: true}}, second: {{}}, third: {{exit: true}}}}
    edges: [{{from: first, to: second}}, {{from: second, to: third}}]
"""


def _turns(count: int) -> str:
    turn = f"""
          - user: Hi
            replies:
              third: [calls: [look: {{}}], function: "{TEXT}:reply"]
            expect: {{satisfies: "{TEXT}:predicate"}}"""
    return "turns:" + turn * count


def test_the_collector_is_on_wherever_a_declared_pipeline_calls_user_code() -> None:
    gc.enable()

    ran = run_yaml(PIPELINE, _turns(2))

    assert [finding.what for finding in ran.judgement.findings] == []
    assert set(VALUES_BY_NAME) == {
        *("agent", "async agent", "tool", "reducer", "filter", "section", "reply line", "claim")
    }
    assert [place for place, result in VALUES_BY_NAME.items() if not all(result)] == []


@pytest.mark.slow
def test_cycles_of_a_function_agent_are_collected_while_the_scenario_runs() -> None:
    gc.enable()
    collections = []
    gc.callbacks.append(lambda phase, info: collections.append(phase))
    try:
        run_yaml(PIPELINE, _turns(60))
    finally:
        gc.callbacks.pop()

    alive = sum(ref() is not None for ref in CYCLES)
    assert len(CYCLES) == 60
    assert alive < 30
    assert collections


class Desk:
    """A pipeline that is code."""

    def __init__(self) -> None:
        _note("constructor")

    def chat(self, text: str) -> str:
        _note("turn")
        return "Hello"


def setup() -> Iterator[None]:
    _note("setup")
    yield
    _note("teardown")


@pytest.mark.slow
def test_the_collector_is_on_wherever_a_pipeline_that_is_code_is_called() -> None:
    gc.enable()

    with gc_paused:
        ran = run_app(
            f"{TEXT}:Desk", f"app: {{setup: '{TEXT}:setup'}}\nturns: [{{user: Hi}}, {{user: Ho}}]"
        )

    assert [finding.what for finding in ran.judgement.findings] == []
    assert set(VALUES_BY_NAME) == {"setup", "constructor", "turn", "teardown"}
    assert [place for place, result in VALUES_BY_NAME.items() if not all(result)] == []


@pytest.mark.parametrize("manager", [gc_paused, collected_meanwhile])
def test_one_context_manager_may_be_entered_many_times(manager: Any) -> None:
    gc.enable()

    for _ in range(3):
        with manager, manager:
            pass

    assert gc.isenabled()


def test_a_program_that_keeps_objects_frozen_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    gc.enable()
    questions: list[int] = []

    def count() -> int:
        questions.append(1)
        return 1

    monkeypatch.setattr(gc_pause, "FROZEN_MAX", 0)
    monkeypatch.setattr(gc, "get_freeze_count", count)

    assert [collections_after(gc_pause.SPARED_MIN * 2) for _ in range(2)] == [1, 1]
    assert len(questions) == 1
