"""The life of a task: start takes it in, process works on it, exit ends it; all is on record."""

from __future__ import annotations

import operator
import time
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from engine.agents import Agent
from engine.errors import InvalidInput
from engine.prompts import prompt
from engine.records import ToolCallRecord
from engine.tools import search_codebase

Put = tuple[Any, list[ToolCallRecord]]
"""What a node puts out, and the calls that it made."""


class Stage(TypedDict):
    """The complete record of one node's work."""

    node: str
    input: Any
    output: Any
    tool_calls: list[ToolCallRecord]
    took_ms: int


class Task(TypedDict, total=False):
    """The state of one task."""

    request: Any
    current_output: Any
    stages: Annotated[list[Stage], operator.add]


def node(name: str, work: Callable[[Any], Put]) -> Callable[[Task], Task]:
    """Returns a node that works on what was put out last, and leaves a record of it."""

    def execute(state: Task) -> Task:
        given, began = state.get("current_output", state["request"]), time.monotonic()
        output, calls = work(given)
        took_ms = round((time.monotonic() - began) * 1_000)
        stage = Stage(node=name, input=given, output=output, tool_calls=calls, took_ms=took_ms)
        return {"current_output": output, "stages": [stage]}

    return execute


def started(given: Any) -> Put:
    """Returns the request in small letters and single spaces; raises InvalidInput for none."""
    if not isinstance(given, dict) or not given.get("request"):
        raise InvalidInput("node 'start' is given no 'request'")
    return {**given, "request": " ".join(given["request"].lower().split())}, []


def ended(given: Any) -> Put:
    """Returns the result; raises InvalidInput for what is none."""
    if not isinstance(given, dict) or "result" not in given:
        raise InvalidInput("node 'exit' is given no 'result'")
    return given, []


def build() -> CompiledStateGraph[Any, Any, Any, Any]:
    """Returns the workflow."""
    agent = Agent("Find what the request asks for.", [search_codebase])
    graph = StateGraph(Task)
    graph.add_node("start", node("start", started))
    graph.add_node(
        "process", node("process", lambda given: agent.work(prompt(agent.instructions, given)))
    )
    graph.add_node("exit", node("exit", ended))
    graph.add_edge(START, "start")
    graph.add_edge("start", "process")
    graph.add_edge("process", "exit")
    graph.add_edge("exit", END)
    return graph.compile()
