"""Context accumulation: each step knows what the steps before it have kept for the project."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.store.memory import InMemoryStore

from engine.agents import Agent
from engine.memory import PROJECT, Memory, Where, recall
from engine.prompts import prompt


class Task(TypedDict, total=False):
    """The state of one task."""

    request: str
    current_output: Any


def step(agent: Agent, *, keeps: bool = True) -> Callable[[Task, Runtime[Where]], Task]:
    """Returns the node of a step, which works on what is known alone."""

    def work(state: Task, runtime: Runtime[Where]) -> Task:
        memory = Memory(runtime.store, runtime.context["project"])
        known = recall({PROJECT: memory.items(PROJECT)})
        output, _ = agent.work(prompt(agent.instructions, recall=known))
        if keeps:
            memory.keep(PROJECT, {"text": output})
        return {"current_output": output}

    return work


def build() -> CompiledStateGraph[Any, Any, Any, Any]:
    """Returns the workflow, with a memory of its own."""
    graph = StateGraph(Task, context_schema=Where)
    graph.add_node("step1", step(Agent("Find the data.")))
    graph.add_node("step2", step(Agent("Process the data.")))
    graph.add_node("step3", step(Agent("Report on all of it."), keeps=False))
    graph.add_edge(START, "step1")
    graph.add_edge("step1", "step2")
    graph.add_edge("step2", "step3")
    graph.add_edge("step3", END)
    return graph.compile(store=InMemoryStore())
