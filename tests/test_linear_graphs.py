"""Parallel branches cost a turn what the turn says, however long the conversation is."""

from __future__ import annotations

import tracemalloc
from functools import cache

import pytest

from simkit.checks.judge import judge
from simkit.runtime.functions import function_named
from simkit.session.simulate import run, simulate
from simkit.trace.store import decoded
from simkit.trace.views import view_of
from tests.building import prepared
from tests.test_linear import GROWTH_MAX, counted

SIZES = (100, 400)

PIPELINE = """
version: 1
pipeline: p
channels: {seen: {reducer: append}}
defaults:
  context:
    - instructions
    - upstream
    - history: {from: log}
    - history: {name: talk}
    - current_message
  writes: {messages: ["${run.final_message}"], seen: "${agent}"}
agents:
  s: {instructions: S.}
  a: {instructions: A., tools: [look]}
  b: {instructions: B.}
  c: {instructions: C.}
  m: {instructions: M.}
tools: {look: {}}
flow:
  graph:
    nodes: {s: {role: split, start: true}, a: {}, b: {}, c: {}, m: {role: merge, exit: true}}
    edges:
      - {from: s, to: a}
      - {from: s, to: b}
      - {from: a, to: c}
      - {from: b, to: m}
      - {from: c, to: m}
limits: {turns: 5000, virtual_ms: 100000000}
"""
LINTS = "lints: {CTX-07: two sections show the conversation}\n"
TURN = """
  - user: Question NUMBER of many
    replies:
      s: Both.
      a: [{calls: [look: {}]}, {text: Answer NUMBER, latency_ms: 3}]
      b: b
      c: c
      m: m
    tool_results: {look: seen}
"""


@cache
def costs(turns: int) -> dict[str, float]:
    """What a turn costs: lines run, bytes of the trace, bytes of memory of the view."""
    text = "".join(TURN.replace("NUMBER", f"{number:05}") for number in range(turns))
    scenario = prepared(
        PIPELINE, f"lints: {{CTX-07: two sections show the conversation}}\nturns:{text}"
    )
    trace, ran = counted(lambda: run(scenario))
    outcome, judged = counted(
        lambda: judge(scenario.scenario, scenario.document, trace, function_named)
    )
    content = trace.encoded()
    _, read = counted(lambda: decoded(content))
    tracemalloc.start()
    view = view_of(trace.events)
    memory, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [finding.what for finding in outcome.judgement.findings] == []
    assert len(view.turns) == turns
    data = {
        "run": ran, "judge": judged, "read": read, "bytes": len(content), "memory": memory,
        "events": len(trace.events),
    }  # fmt: skip
    return {name: value / turns for name, value in data.items()}


@pytest.mark.slow
def test_turn_with_branches_costs_the_same_however_long_the_conversation_is() -> None:
    few, many = (costs(turns) for turns in SIZES)

    assert {
        name: (few[name], many[name]) for name in few if many[name] > GROWTH_MAX * few[name]
    } == {}


@pytest.mark.slow
def test_sessions_are_held_against_themselves_at_a_cost_that_is_linear() -> None:
    pipeline = "version: 1\nagents: {a: {instructions: A.}}\nflow: {handoffs: {start: a}}\n"

    def cost(turns: int) -> float:
        text = "".join(
            f"  - {{user: Question {n:05}, session: s{n % 2}, replies: {{a: Answer {n:05}}}}}\n"
            for n in range(turns)
        )
        scenario = prepared(f"{pipeline}limits: {{turns: 5000}}\npipeline: p\n", f"turns:\n{text}")
        outcome, lines = counted(lambda: simulate(scenario))
        assert outcome.passed
        return lines / turns

    few, many = cost(100), cost(400)

    assert many < GROWTH_MAX * few
