"""Planned faults: which calls fail, by count and by seed, and what comes of that natively."""

from __future__ import annotations

from typing import Any

import pytest

from simkit.runtime.models.faults import FaultPlan, Planned
from simkit.spec.scenario.replies import Fault
from simkit.trace.events import FaultInjected, ModelFailed
from tests.building import Ran, run_yaml

PIPELINE = """
version: 1
pipeline: p
agents:
  first: {instructions: First.}
  second: {instructions: Second.}
flow: {router: {decide: first, to: second}}
"""
TURN = "  - {user: Hi, replies: {first: Go., second: Done.}, expect: {error: {type: overloaded}}}\n"


def plan(*faults: dict[str, Any], seed: int = 0) -> FaultPlan:
    return FaultPlan((), [Fault.model_validate(fault) for fault in faults], seed)


def struck(plan: FaultPlan, *agents: str) -> list[str]:
    """What is said of a turn's calls, one after the other; empty for those that do not fail."""
    plan.begin_turn(0)
    planned = [plan.due(agent) for agent in agents]
    return [item.words if isinstance(item, Planned) else "" for item in planned]


def test_the_first_call_fails_unless_another_is_named() -> None:
    assert struck(plan({"error": "timeout"}), "a", "a") == ["timeout on call 1", ""]
    assert struck(plan({"error": "timeout", "call": 2}), "a", "a") == ["", "timeout on call 2"]


def test_several_calls_in_a_row_may_fail() -> None:
    texts = struck(plan({"error": "timeout", "call": 2, "times": 2}), "a", "a", "a", "a")

    assert texts == ["", "timeout on call 2", "timeout on call 3", ""]


def test_each_agent_is_counted_apart_and_may_be_the_only_one() -> None:
    everyone, item = plan({"error": "timeout"}), plan({"error": "timeout", "agent": "b"})

    assert struck(everyone, "a", "b") == ["timeout on call 1", "timeout on call 1"]
    assert struck(item, "a", "b") == ["", "timeout on call 1"]


def test_counts_begin_anew_with_every_turn() -> None:
    faults = plan({"error": "timeout"})

    assert struck(faults, "a", "a") == struck(faults, "a", "a")


def test_the_first_fault_that_strikes_is_the_one() -> None:
    texts = struck(plan({"error": "timeout"}, {"error": "overloaded", "times": 2}), "a", "a")

    assert texts == ["timeout on call 1", "overloaded on call 2"]


def test_a_share_is_drawn_from_the_seed_and_from_nothing_else() -> None:
    fault = {"error": "timeout", "share": 0.5}
    alone, among = struck(plan(fault), *"a" * 20), struck(plan(fault), *"ab" * 20)[::2]

    assert alone == among
    assert 4 < sum(map(bool, alone)) < 16
    assert alone != struck(plan(fault, seed=1), *"a" * 20)
    assert all(struck(plan({"error": "timeout", "share": 1}), "a", "a"))


def run_faults(faults: str, turns: int = 1) -> Ran:
    return run_yaml(PIPELINE, f"faults: {faults}\nturns:\n{TURN * turns}")


def test_natively_a_fault_takes_the_place_of_the_line_and_ends_the_turn() -> None:
    ran = run_faults("[{agent: second, error: overloaded}]")

    assert [e.fault for e in ran.events(FaultInjected)] == ["overloaded on call 1"]
    assert [(e.agent, e.error) for e in ran.events(ModelFailed)] == [("second", "overloaded")]
    assert ran.judgement.findings == ()


def test_a_fault_of_the_whole_scenario_strikes_in_every_turn() -> None:
    ran = run_faults("[{agent: first, error: overloaded}]", turns=2)

    assert [e.turn for e in ran.events(FaultInjected)] == [1, 2]


def test_a_fault_of_a_turn_strikes_in_that_turn() -> None:
    bare = "  - {user: Hi, replies: {first: Go., second: Done.}}\n"
    own = TURN.replace("{user: Hi,", "{user: Hi, faults: [{agent: second, error: overloaded}],")
    ran = run_yaml(PIPELINE, f"turns:\n{bare}{own}{bare}")

    assert [e.turn for e in ran.events(FaultInjected)] == [2]
    assert ran.judgement.findings == ()


@pytest.mark.parametrize("after", ["0.5", "2"])
def test_natively_too_the_provider_says_when_to_ask_again(after: str) -> None:
    ran = run_faults(f"[{{agent: second, error: {{type: overloaded, retry_after: {after}}}}}]")

    assert [e.retry_after_ms for e in ran.events(ModelFailed)] == [float(after) * 1000]
