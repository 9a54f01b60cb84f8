"""A subgraph with the parent's state gives back the list that it was given: it is added twice."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

from langgraph.graph import START, StateGraph


class State(TypedDict, total=False):
    question: str
    notes: Annotated[list[str], operator.add]


def collect(state: State) -> dict[str, Any]:
    """Notes what was asked."""
    return {"notes": [f"asked: {state['question']}"]}


def check(state: State) -> dict[str, Any]:
    """Notes how many notes there are."""
    return {"notes": [f"{len(state['notes'])} note checked"]}


checking = StateGraph(State)
checking.add_node("check", check)
checking.add_edge(START, "check")
graph = StateGraph(State)
graph.add_node("collect", collect)
graph.add_node("checking", checking.compile())
graph.add_edge(START, "collect")
graph.add_edge("collect", "checking")
app = graph.compile()
