"""Graphs that stop where they are told to, and code that lets them go on."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph


def joined(old: list[str] | None, new: list[str]) -> list[str]:
    return [*(old or []), *new]


class Log(TypedDict, total=False):
    text: str
    log: Annotated[list[str], joined]


def plan(state: Log) -> dict[str, Any]:
    return {"log": ["plan"]}


def pay(state: Log) -> dict[str, Any]:
    return {"log": ["pay"]}


builder = StateGraph(Log).add_node(plan).add_node(pay)
builder.add_edge(START, "plan").add_edge("plan", "pay")
before = builder.compile(checkpointer=InMemorySaver(), interrupt_before=["pay"])
after = builder.compile(checkpointer=InMemorySaver(), interrupt_after=["plan"])

outer = StateGraph(Log).add_node("office", builder.compile(interrupt_before=["pay"]))
outer.add_edge(START, "office")
inside = outer.compile(checkpointer=InMemorySaver())


def goes_on(text: str) -> Any:
    config = {"configurable": {"thread_id": "only"}}
    before.invoke({"text": text}, config)
    return before.invoke(None, config)["log"]
