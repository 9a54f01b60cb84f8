"""Judging a run reads its view only where a claim or a lint asks it something."""

from __future__ import annotations

from operator import attrgetter

import pytest

from simkit.checks.judge import judge
from simkit.checks.lints import Watch, all_lints
from simkit.checks.lints.watching import readings_of
from simkit.runtime.functions import function_named
from simkit.session.simulate import run
from simkit.spec.scenario.files import Prepared
from simkit.trace.store import Trace
from tests.conversations import (
    DESK,
    HANDED_OVER,
    ROUTED,
    ROUTER,
    conversation,
)

TURNS = 3

CLAIMED = """
    expect:
      agents: [triage, billing, writer]
      context:
        writer: {{includes: [{{$contains: "Bill {number}"}}], excludes: [{{agent: triage}}]}}
      state: {{outputs: {{billing: Bill {number}}}}}
"""


def trace_of(pipeline: str, turn: str) -> tuple[Prepared, Trace]:
    scenario = conversation(pipeline, turn, TURNS)
    return scenario, run(scenario)


@pytest.mark.parametrize("claims", ["", CLAIMED], ids=["no claims", "plain claims"])
def test_a_view_is_not_read_while_nobody_asks_it_anything(claims: str) -> None:
    scenario, trace = trace_of(ROUTER, ROUTED + claims)

    outcome = judge(scenario.scenario, scenario.document, trace, function_named)

    assert not outcome.view.is_awake
    assert len(outcome.view.turns) == TURNS
    assert outcome.view.is_awake


def test_a_container_that_methods_wait_for_stays_the_same() -> None:
    lints = list(all_lints())
    _, trace = trace_of(DESK, HANDED_OVER)

    def containers() -> dict[tuple[str, str], int]:
        names = [(lint, reading.waits) for lint in lints for reading in readings_of(type(lint))]
        return {(lint.id, name): id(attrgetter(name)(lint)) for lint, name in names if name}

    before = containers()
    Watch(lints).see(trace)

    assert before
    assert containers() == before
