"""Judging a turn calls few functions; calls do not flicker as time does.

The bounds are a little above what a turn costs today. Whoever makes a turn cheaper lowers them.
"""

from __future__ import annotations

import pytest

from simkit.checks.judge import judge
from simkit.runtime.functions import function_named
from simkit.session.simulate import run
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


@pytest.mark.parametrize(
    ("pipeline", "turn", "most", "most_of_view"),
    [
        (ROUTER, ROUTED, 1, 1),
        (ROUTER, ROUTED + CLAIMED, 1, 1),
        (DESK, HANDED_OVER, 1, 1),
    ],
    ids=["a router", "with claims", "a tool and a handoff"],
)
def test_judging_a_turn_calls_few_functions(
    pipeline: str, turn: str, most: int, most_of_view: int
) -> None:
    turns = "".join(turn.format(number=number) for number in range(TURNS))
    scenario = prepared(pipeline, f"turns:{turns}")
    trace = run(scenario)

    _, viewed = counted(lambda: view_of(trace.events))
    outcome, calls = counted(
        lambda: judge(scenario.scenario, scenario.document, trace, function_named)
    )

    assert [finding.what for finding in outcome.judgement.findings] == []
    assert viewed / TURNS <= most_of_view
    assert calls / TURNS <= most
