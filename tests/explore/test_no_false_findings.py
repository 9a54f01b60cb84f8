"""Exploration finds no fault in what a model, a user or a guardrail may do."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest

import simkit
from simkit.explore.choices import ODDS, Plan, TurnPlan
from simkit.explore.claims import reach_lines
from simkit.explore.conversations import converse
from simkit.session.simulate import simulate
from simkit.spec.scenario.files import Library
from simkit.spec.scenario.items import items_in
from tests.cli.projects import Call, write
from tests.explore.test_simulations import campaign_of, labels, replayed, subject_of

RULED = """
version: 1
pipeline: ruled
channels: {messages: {reducer: append, scope: session}}
agents:
  desk:
    instructions: You are the desk.
    before: [{when: {"state.messages[-1]": {$contains: Thanks}}, writes: {messages: Bye.}}]
    writes: {messages: ["${run.final_message}"]}
flow: {handoffs: {start: desk}}
---
version: 1
simulation: what the desk reads
pipeline: ruled
users: {buyer: {says: [Hello., Thanks.]}}
"""
DELEGATING = """
version: 1
pipeline: delegating
channels: {messages: {reducer: append, scope: session}}
defaults: {context: [instructions, handoff, history, current_message]}
agents:
  desk:
    instructions: Desk.
    tools: [look, find]
    handoffs: [expert]
    writes: {messages: ["${run.final_message}"]}
  expert: {instructions: Expert., writes: {}}
tools: {look: {args: {type: object}}, find: {args: {type: object}}}
contracts: [{from: desk, to: expert, mode: delegate, payload: {type: object}}]
flow: {handoffs: {start: desk}}
---
version: 1
simulation: a model may repeat itself
pipeline: delegating
turns: 2
"""
LINES = """
models:
  desk:
    - calls: [look: {}]
    - calls: [look: {}, find: {}]
    - {handoff: {to: expert, payload: {}}}
    - Done.
"""
GRAPH = """
version: 1
pipeline: graph
channels: {found: {reducer: merge, scope: turn}}
defaults: {context: [instructions, current_message]}
agents:
  searcher: {instructions: Search., writes: {found: {what: "${run.output}"}}}
  reader: {instructions: Read., tools: [look_up], writes: {}}
tools: {look_up: {reads: found}}
flow:
  graph:
    nodes: {search: {agent: searcher, start: true}, read: {agent: reader, exit: true}}
    edges: [{from: search, to: read}]
---
version: 1
simulation: a tool that reads a channel answers for itself
pipeline: graph
users: {team: {says: [{json: {request: find it}}, Find it.]}}
models:
  search: The third shelf.
  read:
    - {when: {messages: {$not: {$has: [{role: tool}]}}}, calls: [look_up: {path: what}]}
    - {when: {messages: {$has: [{role: tool}]}}, text: It is there.}
always: {tool_calls: [{result: The third shelf.}]}
"""


@pytest.mark.slow
def test_a_claim_on_a_context_is_judged_where_a_model_was_asked(tmp_path: Path) -> None:
    """A rule may stand in for the model of an agent that runs; a second call may not be made."""
    claims = "always: {context: {desk: {tools: []}, 'desk[1]': {includes: [never]}}}\n"

    campaign = campaign_of(subject_of(tmp_path, claims, RULED))

    assert campaign.discoveries == ()
    assert campaign.model_calls < campaign.turns


@pytest.mark.slow
@pytest.mark.parametrize("lines", ["", LINES], ids=["any answer", "lines"])
def test_a_model_that_does_the_same_again_and_again_is_no_fault(lines: str, tmp_path: Path) -> None:
    campaign = campaign_of(subject_of(tmp_path, lines, DELEGATING), runs=200)

    assert campaign.discoveries == ()
    assert reach_lines(campaign.reach)[1:] == []


APPROVING = """
from agents import Agent, Runner, function_tool
from pydantic import BaseModel
class City(BaseModel): name: str
@function_tool(needs_approval=True)
def look() -> str: return "seen"
inner = Agent(name="inner", instructions="You look.", tools=[look])
asks = inner.as_tool(tool_name="ask", tool_description="Ask.", needs_approval=True)
desk = Agent(name="desk", instructions="You know a city.", tools=[asks, look], output_type=City)
async def answer(text):
    result = await Runner.run(desk, text)
    while result.interruptions:
        state = result.to_state()
        for each in result.interruptions:
            state.approve(each)
        result = await Runner.run(desk, state)
    return result.final_output.name
"""


@pytest.mark.slow
def test_code_may_approve_calls_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "approving.py").write_text(APPROVING, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))

    exploration = simkit.explore("approving:answer", runs=6, seed=0)

    assert (*exploration.findings, *exploration.warnings) == ()


FORM = """
version: 1
pipeline: forms
agents:
  desk:
    instructions: You know a city.
    tools: [look]
    output: {type: object, required: [name], properties: {name: {type: string}}}
tools: {look: {description: Look.}}
flow: {handoffs: {start: desk}}
---
version: 1
simulation: a model looks often, and answers with a form
pipeline: forms
"""


@pytest.mark.slow
def test_a_model_that_has_called_often_enough_answers_in_the_form_asked_for(tmp_path: Path) -> None:
    campaign = campaign_of(subject_of(tmp_path, "", FORM), runs=80)

    assert campaign.discoveries == ()


def test_a_tool_that_reads_a_channel_and_a_user_that_says_a_value(tmp_path: Path) -> None:
    campaign = campaign_of(subject_of(tmp_path, "", GRAPH), runs=30)

    assert campaign.discoveries == ()
    assert reach_lines(campaign.reach)[1:] == [], (
        "a graph's agents run under the names of its nodes"
    )


TWO_CONTRACTS = """
version: 1
pipeline: typed
defaults: {context: [instructions, handoff, current_message]}
agents:
  desk: {instructions: Desk., handoffs: [expert]}
  expert: {instructions: Expert.}
contracts:
  - {from: desk, to: expert, type: question, payload: {type: object, required: [ask]}}
  - {from: desk, to: expert, type: order, payload: {type: object, required: [number]}}
flow: {handoffs: {start: desk}}
---
version: 1
simulation: a handoff says which contract it keeps
pipeline: typed
"""


def _plan(number: int) -> Plan:
    chance = Random(number)
    return Plan((TurnPlan(answers=(chance.getrandbits(64), 0, 0)),), 0)


def test_a_handoff_of_a_pair_with_two_contracts_says_its_type(tmp_path: Path) -> None:
    subject = subject_of(tmp_path, "", TWO_CONTRACTS)

    handoffs = [
        line["handoff"]
        for number in range(40)
        for turn in converse(subject, _plan(number)).turns
        if isinstance(line := turn["replies"]["desk"], dict)
    ]

    assert {(each["type"], *each["payload"]) for each in handoffs} == {
        ("question", "ask"),
        ("order", "number"),
    }
    assert campaign_of(subject, runs=60).discoveries == ()


PREDICATES = """
def holds(view):
    return True


def fails(view):
    return "no good"


worse = fails
"""


def test_each_predicate_is_a_cause_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_predicates.py").write_text(PREDICATES, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    names = ", ".join(f"own_predicates:{name}" for name in ("holds", "fails", "worse"))
    subject = subject_of(tmp_path, f"finally: {{satisfies: [{names}]}}\n")

    discoveries = labels(campaign_of(subject, runs=10))

    assert [*discoveries] == ["finally finally.satisfies.fails", "finally finally.satisfies.worse"]
    for discovery in discoveries.values():
        assert replayed(discovery, subject, tmp_path) == {discovery.cause}


def test_what_a_fault_ends_is_no_finding(tmp_path: Path) -> None:
    subject = subject_of(tmp_path, "faults: {rate_limit: 0.5}\n")

    record = converse(subject, Plan((TurnPlan(rare=(0, ODDS - 1)),), enabled=(True,)))

    assert record.turns[0]["expect"] == {"error": "rate_limit"}
    assert not record.causes


GUARDED = """
import simkit
from openai import OpenAI


class InputGuardrailTripwireTriggered(Exception):
    pass


def answer(text):
    with simkit.agent("guard"):
        reply = OpenAI().chat.completions.create(
            model="m", messages=[{"role": "user", "content": text}]
        )
    raise InputGuardrailTripwireTriggered(reply.choices[0].message.content)
"""


def test_a_guardrail_that_ends_a_turn_is_no_finding(simkit: Call) -> None:
    write("guarded_desk.py", GUARDED)

    done = simkit("explore", "guarded_desk:answer", "--runs", "5")

    assert (done.code, done.err) == (0, "")


def test_a_file_whose_rules_lack_an_agent_is_told_the_rule(simkit: Call) -> None:
    write("plain_desk.py", PLAIN)
    write("a.scenario.yaml", "scenario: a\npipeline: plain_desk:answer\nturns: [{user: Hello.}]\n")

    done = simkit("explore", "a.scenario.yaml", "--runs", "5")

    assert done.code == 2
    assert 'name: {system: {$eq: "You help."}}' in done.err
    assert "init --app" not in done.err


def test_an_import_that_fails_is_not_looked_for_elsewhere(simkit: Call) -> None:
    write("broken_import.py", "raise ValueError('no such region')\n")

    done = simkit("explore", "broken_import:answer", "--runs", "5")

    assert done.code == 2
    assert "no such region" in done.err
    assert "Start the command in the folder" not in done.err


PLAIN = """
from openai import OpenAI


def answer(text):
    reply = OpenAI().chat.completions.create(
        model="m", messages=[{"role": "system", "content": "You help."},
                             {"role": "user", "content": text}])
    return reply.choices[0].message.content
"""
TRACED = """
import os

import simkit

os.environ["LANGCHAIN_TRACING_V2"] = "true"


def answer(text):
    from langsmith.utils import get_env_var, tracing_is_enabled

    get_env_var.cache_clear()
    return str(tracing_is_enabled())
"""


def test_reports_to_langsmith_stay_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A report that a thread sends later would end a turn that has nothing to do with it."""
    pytest.importorskip("langsmith")
    for name in ("LANGSMITH_TRACING_V2", "LANGCHAIN_TRACING_V2", "LANGSMITH_TRACING"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "traced_desk.py").write_text(TRACED, encoding="utf-8")
    file = tmp_path / "a.scenario.yaml"
    file.write_text(
        "scenario: a\npipeline: traced_desk:answer\n"
        "turns: [{user: Hi, expect: {reply: 'False'}}]\n",
        encoding="utf-8",
    )
    library = Library()
    (item,) = items_in(str(file), library.cache)

    outcome = simulate(library.prepared(item))

    os.environ.pop("LANGCHAIN_TRACING_V2", None)
    assert not outcome.judgement.findings


def test_a_folder_whose_scenarios_hold_numbers_is_explored(simkit: Call) -> None:
    write(
        "shop/a.scenario.yaml",
        "pipeline: shop\nchannels: {notes: {reducer: append}}\n"
        "agents: {desk: {instructions: Desk.}}\n"
        "flow: {handoffs: {start: desk}}\n---\nscenario: a\npipeline: shop\n"
        "given: {state: {notes: [{text: Tea, score: 0.42}]}}\nturns: [{user: Hello.}]\n",
    )

    done = simkit("explore", "shop", "--runs", "3")

    assert (done.code, done.err) == (0, "")
