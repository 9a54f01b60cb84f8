"""Iterative refinement: a draft goes round until it is good."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from engine.agents import Agent
from engine.errors import NoRoute
from engine.prompts import prompt

WAYS = {"good": "exit", "poor": "refine"}


class Task(TypedDict, total=False):
    """The state of one task."""

    request: str
    current_output: Any
    drafts: Annotated[list[str], operator.add]


class Work:
    """Lets an agent work on what was put out last."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    def __call__(self, state: Task) -> Task:
        """Leaves its output for the next node."""
        given = state.get("current_output", {"request": state["request"]})
        return {"current_output": self._agent.work(prompt(self._agent.instructions, given))[0]}


class Draft(Work):
    """Writes a draft, which is kept."""

    def __call__(self, state: Task) -> Task:
        """Leaves its draft for the next node, and adds it to the others."""
        output = super().__call__(state)["current_output"]
        return {"current_output": output, "drafts": [output]}


def judged(state: Task) -> str:
    """Returns what the critic has decided; raises NoRoute for what leads nowhere."""
    verdict = state["current_output"]
    decided = verdict.get("quality") if isinstance(verdict, dict) else verdict
    if decided not in WAYS:
        raise NoRoute(
            f"node 'evaluate' decided \"{decided}\", which is none of its labels: {', '.join(WAYS)}"
        )
    return str(decided)


def publish(state: Task) -> Task:
    """Puts out what the critic has said."""
    return {"current_output": state["current_output"]}


def build() -> CompiledStateGraph[Any, Any, Any, Any]:
    """Returns the workflow."""
    graph = StateGraph(Task)
    graph.add_node("generate", Draft(Agent("Write a draft.")))
    graph.add_node("evaluate", Work(Agent("Judge the draft.")))
    graph.add_node("refine", Work(Agent("Say what the next draft must do better.")))
    graph.add_node("exit", publish)
    graph.add_edge(START, "generate")
    graph.add_edge("generate", "evaluate")
    graph.add_conditional_edges("evaluate", judged, WAYS)
    graph.add_edge("refine", "generate")
    graph.add_edge("exit", END)
    return graph.compile()
