"""What conversations reached is counted against what is declared, or what a framework knows."""

from __future__ import annotations

import pytest

from tests.cli.projects import Call, write

LABELLED = """
version: 1
pipeline: d
agents: {a: {instructions: A.}, b: {instructions: B.}, c: {instructions: C., tools: [t]}}
tools: {t: {}}
flow:
  graph:
    nodes: {a: {start: true, role: decision, exit: true}, b: {exit: true}, c: {exit: true}}
    edges: [{from: a, to: b, label: else}, {from: a, to: c, label: refund}]
"""
CODE = """
from langgraph.graph import END, START, MessagesState, StateGraph

builder = StateGraph(MessagesState)
for name in ("first", "second", "third"):
    builder.add_node(name, lambda state: {"messages": []})
builder.add_edge(START, "first")
builder.add_conditional_edges("first", lambda state: END, ["second", END])
builder.add_edge("second", "third")
graph = builder.compile()
"""
AGENTS = """
from agents import Agent, function_tool


@function_tool
def look(order: str) -> str:
    "Look."
    return order


last = Agent(name="last", instructions="L.", tools=[look])
desk = Agent(name="desk", instructions="D.", handoffs=[last])
"""


def test_an_edge_whose_label_was_never_chosen_is_listed(simkit: Call) -> None:
    write("d.pipeline.yaml", LABELLED)

    done = simkit("explore", "--runs", "1", "d.pipeline.yaml")

    assert done.out.splitlines()[1:-1] == [
        "reached 2 of 3 agents, 1 of 2 edges, 0 of 1 tool",
        "never reached: agent c: nothing passed control to it",
        "never reached: edge a → c: 'a' never chose 'refund'",
        "never reached: tool t of c: 'c' never ran",
    ]


def test_nodes_and_edges_that_a_framework_knows_are_counted(simkit: Call) -> None:
    pytest.importorskip("langgraph")
    write("reach_graph.py", CODE)

    done = simkit("explore", "--runs", "3", "reach_graph:graph")

    assert done.out.splitlines()[1:5] == [
        "reached 1 of 3 agents, 0 of 2 edges",
        "never reached: agent second, third: nothing passed control to it",
        "never reached: edge first → second: 'first' never went on to 'second'",
        "never reached: edge second → third: 'second' never ran",
    ]


def test_handoffs_and_tools_of_an_agent_that_never_ran_are_counted(simkit: Call) -> None:
    pytest.importorskip("agents")
    write("reach_agents.py", AGENTS)
    write("a.simulation.yaml", "simulation: a\npipeline: reach_agents:desk\n"
          "models: {desk: Hello.}\n")  # fmt: skip

    done = simkit("explore", "--runs", "3", "a.simulation.yaml")

    assert done.out.splitlines()[1:5] == [
        "reached 1 of 2 agents, 0 of 1 handoff, 0 of 1 tool",
        "never reached: agent last: nothing passed control to it",
        "never reached: handoff desk → last: no model asked for it",
        "never reached: tool look of last: 'last' never ran",
    ]
