"""The names that a scenario's rules give to agents win over those of their frameworks."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

pytest.importorskip("agents", reason="openai-agents is not installed")
pytest.importorskip("pydantic_ai", reason="pydantic-ai is not installed")
pytest.importorskip("langgraph", reason="langgraph is not installed")

from simkit.adapters.recorder.sessions import RenamingSink, Run
from simkit.core.errors import SourceError
from simkit.core.messages import Message, ToolCall
from simkit.trace import events as e
from tests.adapters.running import run_app
from tests.building import Ran

DERIVED = """
from pydantic_ai import Agent

def ask(text):
    agent = Agent("openai:gpt-4.1", instructions="You sort requests.")
    first = agent.run_sync(text).output
    agent = Agent("openai:gpt-4.1", instructions="You answer requests.")
    return agent.run_sync(first).output
"""
TEAM = """
from agents import Agent, Runner

billing = Agent(name="Assistant B", instructions="You bill people.")
triage = Agent(name="Assistant A", instructions="You sort requests.", handoffs=[billing])

def ask(text):
    return Runner.run_sync(triage, text).final_output
"""
NODES = """
from typing import TypedDict

from langchain_openai import ChatOpenAI
from langgraph.graph import START, StateGraph

class State(TypedDict):
    text: str

def call_model(state):
    plan = ChatOpenAI(model="gpt-4.1").invoke([("system", "You plan."), state["text"]])
    said = ChatOpenAI(model="gpt-4.1").invoke([("system", "You write."), plan.content])
    return {"text": said.content}

def check(state):
    return {}

builder = StateGraph(State)
builder.add_node(call_model)
builder.add_node(check)
builder.add_edge(START, "call_model")
builder.add_edge("call_model", "check")
graph = builder.compile()

def ask(text):
    return graph.invoke({"text": text})["text"]
"""


def run_module(module: str, code: str, scenario: str, folder: Path) -> Ran:
    (folder / f"{module}.py").write_text(dedent(code), encoding="utf-8")
    return run_app(f"{module}:ask", scenario, folder)


def find_problems(ran: Ran) -> list[str]:
    return [finding.what for finding in ran.judgement.findings]


def test_two_agents_of_one_derived_name_have_the_names_of_their_rules(tmp_path: Path) -> None:
    ran = run_module(
        "named_derived", DERIVED,
        """
        agents: {sorter: {system: {$starts: You sort}}, support: {system: {$starts: You answer}}}
        turns:
          - user: Hi
            replies: {sorter: One, support: Two}
            expect:
              reply: Two
              agents: [sorter, support]
              runs: {sorter: {output: One}, support: {input: One}}
              context: {support: {messages: [{system: You answer requests.}, {user: One}]}}
        """,
        tmp_path,
    )  # fmt: skip

    assert find_problems(ran) == []
    assert b'"agent":"agent"' not in ran.trace.encoded()


def test_a_handoff_is_between_the_names_of_rules_from_its_request_on(tmp_path: Path) -> None:
    ran = run_module(
        "named_team", TEAM,
        """
        agents:
          triage: {system: {$starts: You sort}}
          billing: {system: {$starts: You bill}, handoff: transfer_to_assistant_b}
        turns:
          - user: Hi
            replies: {triage: {handoff: {to: billing}}, billing: Two}
            expect:
              reply: Two
              agents: [triage, billing]
              handoffs: [{from: triage, to: billing}]
              context: {triage: {handoffs: [billing]}}
        """,
        tmp_path,
    )  # fmt: skip

    assert find_problems(ran) == []
    assert {event.agent for event in ran.trace.events} == {"", "triage", "billing"}
    assert {*ran.view.pipeline.agents} == {"triage", "billing"}


def test_a_later_call_of_a_run_that_fits_another_rule_is_a_run_of_its_own(tmp_path: Path) -> None:
    ran = run_module(
        "named_nodes", NODES,
        """
        agents: {planner: {system: You plan.}, writer: {system: You write.}}
        turns:
          - user: Hi
            replies: {planner: A plan, writer: Words}
            expect:
              reply: Words
              agents: [planner, writer, check]
              runs: {planner: {update: {text: Words}}}
              context: {writer: {includes: [{user: A plan}]}}
        """,
        tmp_path,
    )  # fmt: skip

    assert find_problems(ran) == []


def test_a_call_that_fits_two_rules_is_refused_though_a_framework_knows_it(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="fits the attribution rules of `one`, `other`"):
        run_module(
            "named_twice", DERIVED,
            """
            agents: {one: {system: {$starts: You sort}}, other: {system: {$contains: sort}}}
            turns: [{user: Hi, replies: {one: One}}]
            """,
            tmp_path,
        )  # fmt: skip


def test_where_a_frameworks_name_has_a_rule_that_fits_it_stays(tmp_path: Path) -> None:
    ran = run_module(
        "named_same", TEAM,
        """
        agents: {Assistant A: {system: {$starts: You}}, other: {system: {$contains: requests}}}
        turns: [{user: Hi, replies: {Assistant A: One}, expect: {agents: [Assistant A]}}]
        """,
        tmp_path,
    )  # fmt: skip

    assert find_problems(ran) == []


def test_all_that_names_a_run_has_its_new_name() -> None:
    events: list[e.AnyEvent] = []

    class EventList:
        def emit(self, event: e.AnyEvent) -> None:
            events.append(event)

    sink = RenamingSink(EventList(), has_rules=True)
    facts = e.PipelineFacts(
        name="p", agents={"old": e.AgentFacts(handoffs=("old",)), "new": e.AgentFacts(sees=("x",))},
        edges=(("old", "old"),), starts=("old",),
    )  # fmt: skip
    call = ToolCall("call1", "transfer_to_old", {})
    for event in (
        e.RunStarted(0, pipeline=facts),
        e.MessageAdded(
            0, agent="x", run="r0", message=Message("assistant", agent="x", calls=(call,))
        ),
        e.HandoffRequested(0, agent="x", run="r0", handoff="h1", from_agent="x", to_agent="old"),
        e.HandoffMade(0, agent="x", run="r0", handoff="h1", from_agent="x", to_agent="old"),
        e.AgentStarted(0, agent="old", run="r1", handoff="h1", handoff_from="x"),
        e.HandoffRequested(0, agent="old", run="r1", handoff="h2", from_agent="old", to_agent="y"),
        e.AgentStarted(0, agent="y", run="r2", handoff="h2", handoff_from="old"),
        e.ContextBuilt(0, agent="y", run="r2", handoffs=("old",)),
        e.UncontrolledEffect(0, agent="old"),
    ):
        sink.emit(event)
    before = len(events)

    sink.rename(Run("r1", "old"), "new")
    sink.flush()

    assert before == 0
    assert not any("old" in str(item).replace("transfer_to_old", "") for item in events)
    started, added = events[:2]
    assert isinstance(started, e.RunStarted)
    assert isinstance(added, e.MessageAdded)
    assert started.pipeline.agents == {"new": e.AgentFacts(handoffs=("new",), sees=("x",))}
    assert added.message.calls[0].target == "new"
