"""Gather and process: two searches side by side, and one analysis of both."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.store.memory import InMemoryStore
from langgraph.types import Send

from engine.agents import Agent
from engine.memory import Where
from engine.prompts import prompt
from engine.records import StageRecord
from engine.tools import search_code, search_docs

SEARCHES = ("search_docs", "search_code")


class Task(TypedDict, total=False):
    """The state of one task."""

    request: str
    stages: Annotated[list[StageRecord], operator.add]
    found: Annotated[dict[str, Any], operator.or_]
    """What each search has put out."""
    task_summary: Any
    answer: Any


class Search(TypedDict):
    """What one search is sent."""

    question: dict[str, Any]
    before: StageRecord
    """What sends it out."""


def gather(state: Task) -> Task:
    """Begins with nothing found."""
    return {"found": {}}


def fan_out(state: Task) -> list[Send]:
    """Sends the request to every search."""
    question = {"request": state["request"]}
    before = StageRecord(node="gather", output=question, tool_calls=[])
    return [Send(name, Search(question=question, before=before)) for name in SEARCHES]


def search(name: str, agent: Agent, keep: Callable[[Any, Runtime[Where]], Task]) -> Any:
    """Returns the node of a search, which keeps its summary in a tier of its own."""

    def work(state: Search, runtime: Runtime[Where]) -> Task:
        said = prompt(agent.instructions, state["question"], upstream=[state["before"]])
        output, calls = agent.work(said)
        stage = StageRecord(node=name, output=output, tool_calls=calls)
        return {"stages": [stage], "found": {name: output}, **keep(output, runtime)}

    return work


def for_the_task(output: Any, runtime: Runtime[Where]) -> Task:
    """Keeps a summary as long as the task lasts."""
    return {"task_summary": output}


def for_the_project(output: Any, runtime: Runtime[Where]) -> Task:
    """Keeps a summary for later tasks of the project."""
    assert runtime.store is not None
    runtime.store.put(("projects", runtime.context["project"]), "summary", {"text": output})
    return {}


def build() -> CompiledStateGraph[Any, Any, Any, Any]:
    """Returns the workflow, with a memory of its own."""
    docs = Agent("Search the documentation.", [search_docs])
    code = Agent("Search the code.", [search_code])
    analyst = Agent("Analyze what both searches found.")

    def analyze(state: Task) -> Task:
        said = prompt(analyst.instructions, state["found"], upstream=state["stages"])
        return {"answer": analyst.work(said)[0]}

    graph = StateGraph(Task, context_schema=Where)
    graph.add_node("gather", gather)
    graph.add_node("search_docs", search("search_docs", docs, for_the_task), input_schema=Search)
    graph.add_node("search_code", search("search_code", code, for_the_project), input_schema=Search)
    graph.add_node("analyze_together", analyze)
    graph.add_edge(START, "gather")
    graph.add_conditional_edges("gather", fan_out, list(SEARCHES))
    for name in SEARCHES:
        graph.add_edge(name, "analyze_together")
    graph.add_edge("analyze_together", END)
    return graph.compile(store=InMemoryStore())
