"""What LangGraph does not do again is no work."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import pytest

if find_spec("langgraph") is None:
    pytest.skip("langgraph is not installed", allow_module_level=True)

from simkit.trace import events as e
from tests.adapters.running import run_app
from tests.building import Ran


def check_app(name: str, scenario: str) -> Ran:
    """Runs a scenario that must hold."""
    ran = run_app(f"langgraph_spared:{name}", scenario)
    assert [finding.what for finding in ran.judgement.findings] == []
    return ran


def writes(ran: Ran) -> list[tuple[str, Any, Any]]:
    """Returns who wrote what of the notes, and what they then are if that is told."""
    events = [event for event in ran.trace.events if isinstance(event, e.StateUpdated)]
    return [
        (event.agent, event.update["notes"], (event.values or {}).get("notes"))
        for event in events
        if "notes" in event.update
    ]


def test_of_parallel_nodes_only_those_that_asked_work_again() -> None:
    ran = check_app(
        "one_asks",
        """
        app: {path: [.], fresh: true, input: {text: "${user}"}, output: notes}
        turns:
          - user: go
            expect:
              agents: [[quick, asking, last]]
              interrupt: Which?
              state: {notes: [last, quick]}
          - resume: this
            expect:
              agents: [asking]
              runs: {asking: {update: {notes: [this]}}}
              reply: [this, last, quick]
              state: {notes: [this, last, quick]}
        """,
    )

    assert writes(ran) == [
        ("last", ["last"], None),
        ("quick", ["quick"], None),
        ("asking", ["this"], ["this", "last", "quick"]),
    ]


def test_what_held_before_another_failed_is_told_when_the_step_is_tried_again() -> None:
    ran = check_app(
        "try_again",
        """
        app: {path: [.], fresh: true}
        turns:
          - user: go
            expect:
              agents: [[quick, failing], failing]
              state: {notes: [failing, quick]}
        """,
    )

    assert sorted(agent for agent, _, _ in writes(ran)) == ["failing", "quick"]
