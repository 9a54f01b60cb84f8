"""A desk on LangGraph: three nodes with fake models, on a state that holds many messages."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph

NODES = ("triage", "billing", "writer")
TEXT = "the quick brown fox jumps over the lazy dog " * 4
THREAD = "desk"


def history(size: int) -> list[AnyMessage]:
    """Returns what was said before the first turn."""
    kinds = (HumanMessage, AIMessage)
    return [kinds[n % 2](f"earlier {n} {TEXT}", id=f"earlier-{n}") for n in range(size)]


FEW, MANY = history(10), history(1_000)


def _said(name: str) -> Iterator[AIMessage]:
    number = 0
    while True:
        number += 1
        yield AIMessage(f"{name} {number} {TEXT}")


def _node(name: str) -> Callable[[Any], Any]:
    model = GenericFakeChatModel(messages=_said(name))
    return lambda state: {"messages": [model.invoke(state["messages"])]}


def _timed(node: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda state: (time.time(), uuid.uuid4()) and node(state)


def _built(saver: Any = None, around: Callable[[Any], Any] = lambda node: node) -> Any:
    # Its types cannot say that a node is any function of the state.
    graph: Any = StateGraph(MessagesState)
    for name in NODES:
        graph.add_node(name, around(_node(name)))
    for one, other in zip((START, *NODES), (*NODES, END), strict=True):
        graph.add_edge(one, other)
    return graph.compile(checkpointer=saver)


def forgetful() -> Any:
    """Returns a graph that is given all that was said each time."""
    return _built()


def forgetful_timed() -> Any:
    """Returns the same graph, whose nodes read a clock and draw an id."""
    return _built(around=_timed)


def with_few(text: str) -> Any:
    """Returns what such a graph is given."""
    return {"messages": [*FEW, HumanMessage(text)]}


def with_many(text: str) -> Any:
    """Returns the same for a long conversation."""
    return {"messages": [*MANY, HumanMessage(text)]}


def remembering_few() -> Any:
    """Returns a graph whose thread holds what was said."""
    return _remembering(FEW)


def remembering_many() -> Any:
    """Returns the same for a long conversation."""
    return _remembering(MANY)


def _remembering(said: list[AnyMessage]) -> Any:
    graph = _built(InMemorySaver())
    graph.update_state({"configurable": {"thread_id": THREAD}}, {"messages": said}, "writer")
    return graph


def with_nothing(text: str) -> Any:
    """Returns what a graph is given that remembers."""
    return {"messages": [HumanMessage(text)]}
