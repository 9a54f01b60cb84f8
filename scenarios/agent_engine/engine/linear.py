"""Linear workflow: start, search_files, read_content, generate_analysis, exit."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.store.memory import InMemoryStore
from langgraph.types import RetryPolicy
from openai import APIConnectionError

from engine.agents import Agent
from engine.errors import InvalidInput
from engine.memory import GLOBAL, PROJECT, TASK, Item, Memory, Where, recall
from engine.prompts import prompt
from engine.records import StageRecord
from engine.tools import read_file, search_codebase
from engine.values import written

RECALLED_TOKENS = 400
AGAIN = RetryPolicy(max_attempts=2, retry_on=APIConnectionError)
"""A node begins anew where the client has given up to reach its model."""


class Request(TypedDict):
    """What a task begins with."""

    request: str


class Task(TypedDict, total=False):
    """The state of one task."""

    request: str
    current_output: Any
    stage: StageRecord
    """The node before, with its tool calls."""
    task_items: Annotated[list[Item], operator.add]


def start(state: Request) -> Task:
    """Takes the request in; raises InvalidInput where there is none."""
    if "request" not in state:
        raise InvalidInput("node 'start' is given no 'request'")
    output = {"request": state["request"]}
    return {
        "current_output": output,
        "stage": {"node": "start", "output": output, "tool_calls": []},
    }


def node(
    name: str, agent: Agent, instructions: Callable[[StageRecord], str] | None = None
) -> Callable[[Task, Runtime[Where]], Task]:
    """Returns the node in which an agent works; its instructions may name what is before it."""

    def work(state: Task, runtime: Runtime[Where]) -> Task:
        memory = Memory(runtime.store, runtime.context["project"])
        before = state["stage"]
        tiers = {
            TASK: state.get("task_items", []),
            PROJECT: memory.items(PROJECT),
            GLOBAL: memory.items(GLOBAL),
        }
        words = agent.instructions if instructions is None else instructions(before)
        output, calls = agent.work(
            prompt(
                words, state["current_output"],
                recall=recall(tiers, tokens=RECALLED_TOKENS), upstream=[before],
            )
        )  # fmt: skip
        return {
            "current_output": output,
            "stage": {"node": name, "output": output, "tool_calls": calls},
            "task_items": [{"agent": name, "text": f"{name}: {written(output)}"}],
        }

    return work


def files_to_read(before: StageRecord) -> str:
    """Returns the reader's instructions, which name what the search has found."""
    found = before["tool_calls"][0]["result"] if before["tool_calls"] else None
    return f"Read these files: {written(found)}"


def exit_(state: Task, runtime: Runtime[Where]) -> Task:
    """Ends the task, and keeps for the project what came of it."""
    memory = Memory(runtime.store, runtime.context["project"])
    output = state["current_output"]
    text = f"Past task: {written(output)}"
    memory.keep(PROJECT, {"agent": "exit", "text": text})
    return {"current_output": output}


def build() -> CompiledStateGraph[Any, Any, Any, Any]:
    """Returns the workflow, with a memory of its own."""
    searcher = Agent("Find the files that the request is about.", [search_codebase])
    reader, analyzer = Agent("", [read_file]), Agent("Say what these files do.")
    graph = StateGraph(Task, context_schema=Where)
    graph.add_node("start", start, input_schema=Request)
    for name, work in (
        ("search_files", node("search_files", searcher)),
        ("read_content", node("read_content", reader, files_to_read)),
        ("generate_analysis", node("generate_analysis", analyzer)),
    ):
        graph.add_node(name, work, retry_policy=AGAIN)
    graph.add_node("exit", exit_)
    graph.add_edge(START, "start")
    graph.add_edge("start", "search_files")
    graph.add_edge("search_files", "read_content")
    graph.add_edge("read_content", "generate_analysis")
    graph.add_edge("generate_analysis", "exit")
    graph.add_edge("exit", END)
    return graph.compile(store=InMemoryStore())
