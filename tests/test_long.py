"""Reference systems at 500 turns: they hold, and a turn costs what it did at half of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from simkit.session.simulate import run, simulate
from tests.building import prepared
from tests.test_linear import counted

SCENARIOS = Path(__file__).resolve().parent.parent / "scenarios"
TURNS = (250, 500)
GROWTH_MAX = 1.10
LIMITS = "limits: {turns: 1000, virtual_ms: 100000000}\n"


def pipeline_of(system: str) -> str:
    """The pipeline of a system's example: the first document of its file."""
    text = (SCENARIOS / system / "example.scenario.yaml").read_text()
    first = text.partition("\n---\n")[0]
    return re.sub(r"(?m)^pipeline: .*$", "pipeline: p", first) + "\n"


def decision_workflow() -> str:
    """Every turn saves an item to the project's memory, from which the next ones recall."""
    return pipeline_of("agent_engine").replace(
        '  writes: {current_output: "${run.output}"}\n',
        '  writes: {current_output: "${run.output}", items: [{text: "${run.output}", '
        "tags: [documents]}]}\n",
    )


def workflow_turn(number: int) -> str:
    return f"""
  - user: {{json: {{request: Write document {number}}}}}
    replies:
      classify_request: {{json: {{decision: create, reason: Asked for {number}}}}}
      create_document:
        - calls: [create_doc: {{title: T{number}}}]
        - {{json: {{result: {number}}}}}
      finalize: Document {number} is ready.
    tool_results: {{create_doc: {{doc: d{number}}}}}
    expect:
      agents: [classify_request, create_document, finalize]
      context: {{finalize: {{upstream: [{{$contains: d{number}}}]}}}}
      state: {{items: {{$len: {3 * number}}}}}"""


def supervisor_turn(number: int) -> str:
    return f"""
  - user: Run {number}
    replies:
      database_agent: {{calls: [fetch_product_data: {{}}]}}
      analysis_agent: {{calls: [analyze_product_data: {{product_json: '[{number}]'}}]}}
      reporting_agent: {{calls: [generate_report: {{report_json: '[{number}]'}}]}}
    tool_results:
      fetch_product_data: {{data: [{{sales: {number}}}]}}
      analyze_product_data: {{insights: [up {number}]}}
      generate_report: {{report: Report {number}}}
    expect:
      model_calls: {{database_agent: 1, analysis_agent: 1, reporting_agent: 1}}
      runs: {{database_agent: {{received: {{agent_results: {{$exact: {{}}}}}}}}}}
      reply: {{report: Report {number}}}"""


def research_turn(number: int) -> str:
    if number % 2:
        return f"""
  - user: Tell me about it, {number}
    replies: {{orchestrator: CLARIFICATION, clarification: About what in {number}?}}
    expect: {{agents: [orchestrator, clarification], state: {{clarification_count: 1}}}}"""
    return f"""
  - user: Paper {number}
    replies:
      research: [{{calls: [pdf_retrieval: {{q: Q{number}}}]}}, Found result {number}]
      synthesis: {{json: {{answer: Answer {number}, confidence: 0.9}}}}
    tool_results: {{pdf_retrieval: [[Table {number}]]}}
    expect:
      model_calls: {{orchestrator: 0}}
      context: {{research: {{history: {{$len: {min(10, 2 * number - 1)}}}}}}}
      state: {{messages: {{$len: {2 * number}}}, final_answer: Answer {number}}}"""


SYSTEMS: dict[str, tuple[Callable[[], str], Callable[[int], str]]] = {
    "agent_engine": (decision_workflow, workflow_turn),
    "supervisor_context": (lambda: pipeline_of("supervisor_context"), supervisor_turn),
    "research_assistant": (lambda: pipeline_of("research_assistant"), research_turn),
}


@pytest.mark.slow
@pytest.mark.parametrize("system", SYSTEMS)
def test_five_hundred_turns_hold_and_cost_twice_what_half_of_them_do(system: str) -> None:
    pipeline, turn = SYSTEMS[system]
    costs = []
    for turns in TURNS:
        text = "".join(turn(number) for number in range(1, turns + 1))
        scenario = prepared(pipeline(), f"{LIMITS}turns:{text}")
        outcome = simulate(scenario)
        trace, lines = counted(partial(run, scenario))
        costs.append((lines / turns, len(trace.encoded()) / turns))
        assert [finding.what for finding in outcome.judgement.findings] == []

    (few, small), (many, large) = costs
    assert many / few < GROWTH_MAX
    assert large / small < GROWTH_MAX
