"""A workflow to look into: start, search, read, analyze, exit, each with one edge to the next."""

from __future__ import annotations

import fnmatch
import operator
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

from langchain_core.tools import tool
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.store.memory import InMemoryStore

from engine.agents import Agent
from engine.memory import PROJECT, TASK, Item, Memory, Where, recall
from engine.prompts import prompt


@tool
def search_codebase(names: list[str], pat: str) -> list[str]:
    """Returns the names that fit a pattern."""
    return fnmatch.filter(names, pat)


@tool
def search_history(query: str) -> list[str]:
    """Searches the history of the code."""
    raise ConnectionError("the history is not connected")


class Task(TypedDict, total=False):
    """The state of one task."""

    request: Any
    current_output: Any
    task_items: Annotated[list[Item], operator.add]


def passed_on(state: Task) -> Task:
    """Puts out what it is given."""
    return {"current_output": state.get("current_output", state["request"])}


def search(agent: Agent) -> Callable[[Task, Runtime[Where]], Task]:
    """Returns the node of the search, which keeps for the project what it has found."""

    def work(state: Task, runtime: Runtime[Where]) -> Task:
        output, _ = agent.work(prompt(agent.instructions, state["current_output"]))
        memory = Memory(runtime.store, runtime.context["project"])
        memory.keep(PROJECT, {"agent": "search", "text": output})
        return {"current_output": output}

    return work


def read(agent: Agent) -> Callable[[Task], Task]:
    """Returns the node that reads, which keeps for the task what it has read."""

    def work(state: Task) -> Task:
        output, _ = agent.work(prompt(agent.instructions, state["current_output"]))
        return {"current_output": output, "task_items": [{"agent": "read", "text": output}]}

    return work


def analyze(agent: Agent) -> Callable[[Task, Runtime[Where]], Task]:
    """Returns the node of the analysis, which is told what the project knows, not the task."""

    def work(state: Task, runtime: Runtime[Where]) -> Task:
        memory = Memory(runtime.store, runtime.context["project"])
        known = recall({TASK: [], PROJECT: memory.items(PROJECT)})
        said = prompt(agent.instructions, state["current_output"], recall=known)
        return {"current_output": agent.work(said)[0]}

    return work


def build() -> CompiledStateGraph[Any, Any, Any, Any]:
    """Returns the workflow, with a memory of its own."""
    graph = StateGraph(Task, context_schema=Where)
    graph.add_node("start", passed_on)
    searcher = Agent("Find the files.", [search_codebase, search_history])
    graph.add_node("search", search(searcher))
    graph.add_node("read", read(Agent("Read the files.")))
    graph.add_node("analyze", analyze(Agent("Say what they do.")))
    graph.add_node("exit", passed_on)
    graph.add_edge(START, "start")
    graph.add_edge("start", "search")
    graph.add_edge("search", "read")
    graph.add_edge("read", "analyze")
    graph.add_edge("analyze", "exit")
    graph.add_edge("exit", END)
    return graph.compile(store=InMemoryStore())
