"""Graphs whose conditional edges choose, and channels whose writes take the place of others."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Overwrite, Send


def newer(before: Any, now: Any) -> Any:
    return now


def newer_if_any(before: Any, now: Any) -> Any:
    return now or before


class State(TypedDict, total=False):
    text: str
    log: Annotated[list[str], operator.add]
    count: Annotated[int, operator.add]
    open: Annotated[bool, newer]
    names: Annotated[list[str], newer_if_any]


def work(name: str) -> Any:
    def node(state: State) -> dict[str, Any]:
        return {"log": [name], "count": 1}

    return node


def _graph(choose: Any, ends: Any = None) -> Any:
    graph = StateGraph(State)
    for name in ("first", "left", "right"):
        graph.add_node(name, work(name))
    graph.add_edge(START, "first")
    graph.add_conditional_edges("first", choose, ends)
    graph.add_edge("left", "right")
    graph.add_edge("right", END)
    return graph.compile()


def by_text(state: State) -> str:
    return state["text"]


def by_sending(state: State) -> list[Send]:
    return [Send("left", state), Send("right", state)]


labelled = _graph(by_text, {"go left": "left", "go right": "right", "stop": END})
unlabelled = _graph(by_text)
sending = _graph(by_sending)


def _resets(state: State) -> dict[str, Any]:
    if state["text"] == "reset":
        return {"log": Overwrite(["new"]), "count": Overwrite(0), "open": False, "names": []}
    return {"log": ["old"], "count": 2, "open": True, "names": ["Ada"]}


_item = StateGraph(State)
_item.add_node("only", _resets)
_item.add_edge(START, "only")
resetting = _item.compile(checkpointer=InMemorySaver())
