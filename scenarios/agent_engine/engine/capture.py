"""Tool output capture: search, read, analyze; each is told what the one before has called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from engine.agents import Agent
from engine.prompts import prompt
from engine.records import StageRecord, ToolCallRecord
from engine.tools import read_file, search_codebase


class NodeOutput(TypedDict):
    """What a node leaves to the next one."""

    result: Any
    tool_calls: list[ToolCallRecord]


class Capture(TypedDict, total=False):
    """The state of one task."""

    request: str
    current_output: NodeOutput
    stages: list[StageRecord]
    """That of the node before, which is told in full."""


def node(name: str, agent: Agent) -> Callable[[Capture], Capture]:
    """Returns the node in which an agent works."""

    def work(state: Capture) -> Capture:
        before = state.get("stages", [])
        given = before[-1]["output"] if before else {"request": state["request"]}
        output, calls = agent.work(prompt(agent.instructions, given, upstream=before))
        result = output.get("result") if isinstance(output, dict) else output
        return {
            "current_output": {"result": result, "tool_calls": calls},
            "stages": [{"node": name, "output": output, "tool_calls": calls}],
        }

    return work


def build() -> CompiledStateGraph[Any, Any, Any, Any]:
    """Returns the workflow."""
    graph = StateGraph(Capture)
    graph.add_node("search", node("search", Agent("Search the code.", [search_codebase])))
    graph.add_node("read", node("read", Agent("Read the files that were found.", [read_file])))
    graph.add_node("analyze", node("analyze", Agent("Say what the files do.")))
    graph.add_edge(START, "search")
    graph.add_edge("search", "read")
    graph.add_edge("read", "analyze")
    graph.add_edge("analyze", END)
    return graph.compile()


def reply(state: Capture) -> Any:
    """The task's result: what the last node has put out."""
    return state["stages"][-1]["output"]
