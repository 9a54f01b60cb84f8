"""Judging a turn calls few functions; calls do not flicker as time does.

The bounds are a little above what a turn costs today. Whoever makes a turn cheaper lowers them.
"""

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
from simkit.trace.views import view_of
from tests.building import prepared
from tests.test_linear import counted

TURNS = 100

ROUTER = """
version: 1
pipeline: p
channels:
  decision: {scope: turn}
  outputs: {reducer: merge, scope: turn}
defaults:
  context: [instructions, history, current_message]
  writes: {messages: ["${run.final_message}"], outputs: {"${agent}": "${run.reply}"}}
agents:
  triage: {instructions: Choose., writes: {decision: "${run.output}"}}
  billing: {instructions: Answer about bills.}
  writer: {instructions: Write it up.}
flow: {router: {decide: triage, to: "${run.output.to}"}}
limits: {turns: 1000}
"""
ROUTED = """
  - user: Question {number}
    replies:
      triage: {{json: {{to: [billing, writer]}}}}
      billing: Bill {number}
      writer: Letter {number}
"""
CLAIMED = """
    expect:
      agents: [triage, billing, writer]
      context:
        writer: {{includes: [{{$contains: "Bill {number}"}}], excludes: [{{agent: triage}}]}}
      state: {{outputs: {{billing: Bill {number}}}}}
"""
DESK = """
version: 1
pipeline: p
agents:
  desk: {instructions: Help., tools: [find_order], handoffs: [billing]}
  billing: {instructions: Answer about bills.}
tools: {find_order: {}}
flow: {handoffs: {start: desk}}
limits: {turns: 1000}
"""
HANDED_OVER = """
  - user: Question {number}
    replies:
      desk: [{{calls: {{find_order: {{id: {number}}}}}}}, {{handoff: {{to: billing, query: Bill}}}}]
      billing: Bill {number}
    tool_results: {{find_order: {{total: {number}}}}}
"""


def trace_of(pipeline: str, turn: str) -> tuple[Prepared, Trace]:
    turns = "".join(turn.format(number=number) for number in range(TURNS))
    scenario = prepared(pipeline, f"turns:{turns}")
    return scenario, run(scenario)


@pytest.mark.parametrize(
    ("pipeline", "turn", "most", "most_of_view"),
    [
        (ROUTER, ROUTED, 420, 275),
        (ROUTER, ROUTED + CLAIMED, 620, 275),
        (DESK, HANDED_OVER, 635, 230),
    ],
    ids=["a router", "with claims", "a tool and a handoff"],
)
def test_judging_a_turn_calls_few_functions(
    pipeline: str, turn: str, most: int, most_of_view: int
) -> None:
    scenario, trace = trace_of(pipeline, turn)
    judge(scenario.scenario, scenario.document, trace, function_named)  # what a process makes once

    _, viewed = counted(lambda: view_of(trace.events))
    outcome, calls = counted(
        lambda: judge(scenario.scenario, scenario.document, trace, function_named)
    )

    assert [finding.what for finding in outcome.judgement.findings] == []
    assert viewed / TURNS <= most_of_view
    assert calls / TURNS <= most


def test_a_method_is_not_called_while_there_is_nothing_to_wait_for() -> None:
    _, trace = trace_of(ROUTER, ROUTED)
    Watch(all_lints()).see(trace)
    watch = Watch(all_lints())

    _, count = counted(lambda: watch.see(trace))
    _, count_of_view = counted(lambda: view_of(trace.events))

    assert (count - count_of_view) / TURNS <= 150


def test_a_container_that_methods_wait_for_stays_the_same() -> None:
    lints = list(all_lints())
    _, trace = trace_of(DESK, HANDED_OVER)

    def containers() -> dict[tuple[str, str], int]:
        names = [(lint, reading.waits) for lint in lints for reading in readings_of(type(lint))]
        return {
            (lint.id, name): id(attrgetter(name)(lint))
            for lint, name in names
            if name and not name.startswith("view.")
        }

    before = containers()
    Watch(lints).see(trace)

    assert before
    assert containers() == before
