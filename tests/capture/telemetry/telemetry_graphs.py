"""Graphs whose exported traces are imported: a supervisor, a prebuilt agent, parallel nodes."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

from langchain_core.messages import HumanMessage, SystemMessage
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.prebuilt import create_react_agent
from langgraph_supervisor import create_supervisor


def look_up(order: str) -> str:
    """Looks an order up."""
    return f"{order} was shipped."


def add(a: float, b: float) -> float:
    """Adds."""
    return a + b


def _agent(name: str, prompt: str, *tools: Any) -> Any:
    return create_react_agent(ChatOpenAI(model="gpt-5-mini"), list(tools), prompt=prompt, name=name)


def single() -> Any:
    """One prebuilt agent with memory."""
    return create_react_agent(
        ChatOpenAI(model="gpt-5-mini"), [look_up], prompt="You are the desk.", name="desk",
        checkpointer=InMemorySaver(),
    )  # fmt: skip


def team() -> Any:
    """A supervisor of two experts."""
    experts = [_agent("orders", "You know orders.", look_up), _agent("sums", "You add up.", add)]
    supervisor = create_supervisor(
        experts, model=ChatOpenAI(model="gpt-5-mini"), prompt="You lead two experts."
    )
    return supervisor.compile(checkpointer=InMemorySaver())


class Notes(TypedDict):
    """The state of the review."""

    messages: list[Any]
    notes: Annotated[list[str], operator.add]


def _reviewer(name: str, prompt: str) -> Any:
    def node(state: Notes) -> dict[str, Any]:
        text = state["messages"][-1].content
        answer = ChatOpenAI(model="gpt-5-mini").invoke([SystemMessage(prompt), HumanMessage(text)])
        return {"notes": [answer.content]}

    node.__name__ = name
    return node


def _editor(state: Notes) -> dict[str, Any]:
    parts = ChatOpenAI(model="gpt-5-mini").stream(
        [SystemMessage("You are the editor."), HumanMessage(" ".join(state["notes"]))]
    )
    text = "".join(str(part.content) for part in parts)
    return {"messages": [HumanMessage(text)]}


def review() -> Any:
    """Two reviewers side by side, and an editor, whose answer is streamed."""
    graph = StateGraph(Notes)
    graph.add_node("lawyer", _reviewer("lawyer", "You are the lawyer."))
    graph.add_node("stylist", _reviewer("stylist", "You are the stylist."))
    graph.add_node("editor", _editor)
    graph.add_edge(START, "lawyer")
    graph.add_edge(START, "stylist")
    graph.add_edge(["lawyer", "stylist"], "editor")
    graph.add_edge("editor", END)
    return graph.compile()
