"""Graphs of which LangGraph does some work once: it saves it before a stop, or in a cache."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

from langgraph.cache.memory import InMemoryCache
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint, task
from langgraph.graph import START, StateGraph
from langgraph.types import CachePolicy, interrupt


class Notes(TypedDict, total=False):
    text: str
    notes: Annotated[list[str], operator.add]
    region: str


def quick(state: Notes) -> dict[str, Any]:
    return {"notes": ["quick"]}


def asking(state: Notes) -> dict[str, Any]:
    return {"notes": [interrupt("Which?")]}


def last(state: Notes) -> dict[str, Any]:
    return {"notes": ["last"]}


def locate(state: Notes) -> dict[str, Any]:
    return {"region": "north"}


def parallel_graph(*nodes: Any, **cached: Any) -> StateGraph:
    graph = StateGraph(Notes)
    for node in nodes:
        graph.add_node(node.__name__, node).add_edge(START, node.__name__)
    for name, node in cached.items():
        graph.add_node(name, node, cache_policy=CachePolicy()).add_edge(START, name)
    return graph


one_asks = parallel_graph(quick, asking, last).compile(checkpointer=InMemorySaver())
cached = parallel_graph(quick, found=locate).compile(cache=InMemoryCache())

failures: list[str] = []


def failing(state: Notes) -> dict[str, Any]:
    failures.append("busy")
    if len(failures) == 1:
        raise TimeoutError("busy")
    return {"notes": ["failing"]}


one_fails = parallel_graph(quick, failing).compile(checkpointer=InMemorySaver())


def try_again(text: str) -> Any:
    config = {"configurable": {"thread_id": "only"}}
    try:
        state = one_fails.invoke({"text": text}, config)
    except TimeoutError:
        state = one_fails.invoke(None, config)
    return state["notes"]


@task
def note(text: str) -> str:
    return f"about {text}"


@task
def approve(text: str) -> str:
    return str(interrupt(text))


@entrypoint(checkpointer=InMemorySaver())
def essay(text: str) -> str:
    notes = [item.result() for item in (note(text), note("cats"))]
    return approve(" and ".join(notes)).result()
