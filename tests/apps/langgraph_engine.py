"""Graphs with inputs and outputs of their nodes, errors, and a memory: for tests of the adapter."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, Send


class Refused(ValueError):
    """A request that nobody takes."""


class Steps(TypedDict, total=False):
    request: str
    current: dict[str, Any]
    found: Annotated[list[str], operator.add]


def plan(state: Steps) -> Any:
    if not state["request"]:
        raise Refused("there is nothing to plan")
    return {"current": {"answer": state["request"].upper()}}


def search(state: Steps) -> Any:
    return {"found": [state["current"]["answer"]]}


def either(state: Steps) -> Any:
    return "left" if state["request"] == "left" else [Send("left", state), Send("right", state)]


def pick(state: Steps) -> Any:
    return Command(goto="report", update={"found": ["picked"]})


def build_steps() -> Any:
    """plan, then left or both, and report behind all that worked."""
    graph = StateGraph(Steps)
    graph.add_node("plan", plan)
    graph.add_node("left", search)
    graph.add_node("right", search)
    graph.add_node("check", lambda state: {"found": ["checked"]})
    graph.add_node("report", lambda state: {"current": {"answer": len(state["found"])}})
    graph.add_edge(START, "plan")
    graph.add_conditional_edges("plan", either, ["left", "right"])
    graph.add_edge("left", "check")
    graph.add_edge("right", "check")
    graph.add_node("last", pick, destinations=("report",))
    graph.add_edge("check", "last")
    graph.add_edge("report", END)
    return graph.compile()


steps = build_steps()


def build_loop() -> Any:
    """turn and back, three times round."""
    graph = StateGraph(Steps)
    graph.add_node("turn", lambda state: {"found": ["turned"]})
    graph.add_node("back", lambda state: {})
    graph.add_edge(START, "turn")
    graph.add_conditional_edges(
        "turn", lambda state: "back" if len(state["found"]) < 3 else END, ["back", END]
    )
    graph.add_edge("back", "turn")
    return graph.compile()


class Where(TypedDict):
    project: str


class Words(TypedDict, total=False):
    request: str
    known: list[str]


def names(project: str) -> tuple[str, ...]:
    return ("projects", project, "names")


def remember(state: Words, runtime: Runtime[Where]) -> Any:
    """Knows all names of the project, and keeps the request as one; `-name` forgets one."""
    store, project = runtime.store, runtime.context["project"]
    assert store is not None
    known = [item.value["name"] for item in store.search(names(project))]
    request = state["request"]
    if request.startswith("-"):
        store.delete(names(project), request[1:])
    else:
        store.put(names(project), request, {"name": request})
        store.put(("everywhere",), "last", {"said": request})
    return {"known": known}


def build_words() -> Any:
    graph = StateGraph(Words, context_schema=Where)
    graph.add_node("remember", remember)
    graph.add_edge(START, "remember")
    graph.add_edge("remember", END)
    return graph.compile(store=InMemoryStore())


def begin(graph: Any, state: dict[str, Any], project: str) -> None:
    for item in state.pop("names", []):
        graph.store.put(names(project), item["name"], item)
