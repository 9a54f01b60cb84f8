"""Judging a run reads its view only where a claim or a lint asks it something."""

from __future__ import annotations

from operator import attrgetter

from simkit.checks.judge import judge
from simkit.checks.lints import LintRunner, all_lints
from simkit.checks.lints.runner import readings_of
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


def trace_of(pipeline: str, turn: str) -> tuple[Prepared, Trace]:
    scenario = conversation(pipeline, turn, TURNS)
    return scenario, run(scenario)


def test_a_view_is_not_read_while_nobody_asks_it_anything() -> None:
    scenario, trace = trace_of(ROUTER, ROUTED)

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
    LintRunner(lints).feed(trace)

    assert before
    assert containers() == before
