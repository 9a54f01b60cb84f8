"""Memory tiers: search sees none, decide the task's and the project's, analyze all three."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.store.sqlite import SqliteStore

from engine.agents import Agent
from engine.memory import GLOBAL, PROJECT, TASK, Item, Memory, Tier, Where, recall
from engine.prompts import prompt

TAGS = ["code"]
TOKENS = 30


def collected(items: list[Item], update: list[Item] | None) -> list[Item]:
    """Adds items; None begins anew."""
    return [] if update is None else [*items, *update]


class Task(TypedDict, total=False):
    """The state of a project's tasks, one after the other."""

    request: dict[str, Any]
    current_output: Any
    task_items: Annotated[list[Item], collected]


def new_task(request: dict[str, Any]) -> Task:
    """What a task begins with: nothing of the last one is left."""
    return {"request": request, "current_output": None, "task_items": None}  # type: ignore[typeddict-item]


def node(agent: Agent, sees: Sequence[Tier]) -> Callable[[Task, Runtime[Where]], Task]:
    """Returns the node in which an agent works, which sees some tiers and may write to all."""

    def work(state: Task, runtime: Runtime[Where]) -> Task:
        memory = Memory(runtime.store, runtime.context["project"])
        tiers = {tier: state["task_items"] if tier == TASK else memory.items(tier) for tier in sees}
        before = state["current_output"]
        given = state["request"] if before is None else before
        said = prompt(agent.instructions, given, recall=recall(tiers, tags=TAGS, tokens=TOKENS))
        output, _ = agent.work(said)
        kept = output if isinstance(output, dict) else {}
        for tier, name in ((PROJECT, "for_the_project"), (GLOBAL, "for_all")):
            if name in kept:
                memory.keep(tier, kept[name])
        for_the_task = [kept["for_the_task"]] if "for_the_task" in kept else []
        return {"current_output": output, "task_items": for_the_task}

    return work


def build() -> CompiledStateGraph[Any, Any, Any, Any]:
    """Returns the workflow; what it keeps outlives its process."""
    graph = StateGraph(Task, context_schema=Where)
    graph.add_node("search", node(Agent("Search the code."), []))
    graph.add_node("decide", node(Agent("Decide what to change."), [TASK, PROJECT]))
    graph.add_node("analyze", node(Agent("Analyze the change."), [TASK, PROJECT, GLOBAL]))
    graph.add_edge(START, "search")
    graph.add_edge("search", "decide")
    graph.add_edge("decide", "analyze")
    graph.add_edge("analyze", END)
    file = os.environ.get("ENGINE_DB", "engine.sqlite")
    connection = sqlite3.connect(file, check_same_thread=False, isolation_level=None)
    store = SqliteStore(connection)
    store.setup()
    return graph.compile(store=store, checkpointer=SqliteSaver(connection))
