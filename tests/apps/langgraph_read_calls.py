"""Graphs that read what a model calls and answer no call: the four designs of `read_calls`."""

from __future__ import annotations

from typing import Any, Literal

from langchain_core.messages import HumanMessage, SystemMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

model = ChatOpenAI(model="gpt-5-mini")


class State(MessagesState, total=False):
    answer: str


@tool
def look_up(topic: str) -> str:
    """Finds something out."""
    return f"{topic}: found"


@tool
def done(summary: str) -> str:
    """Ends the work."""
    return summary


@tool
def route(to: str) -> str:
    """Names who answers."""
    return to


@tool
def answer(text: str) -> str:
    """Answers the user."""
    return text


def _says(system: str, *tools: Any) -> Any:
    def node(state: State) -> dict[str, Any]:
        request = model.bind_tools(tools) if tools else model
        return {"messages": [request.invoke([SystemMessage(system), *state["messages"]])]}

    return node


def _last(state: State) -> Any:
    return state["messages"][-1]


def _graph(first: str, node: Any, **others: Any) -> StateGraph[Any]:
    graph = StateGraph(State)
    for name, item in {first: node, **others}.items():
        graph.add_node(name, item)
    graph.add_edge(START, first)
    return graph


def _ended_by_a_tool() -> Any:
    def report(state: State) -> dict[str, Any]:
        return {"messages": [("assistant", _last(state).tool_calls[0]["args"]["summary"])]}

    graph = _graph("writer", _says("You write.", done), report=report)
    graph.add_edge("writer", "report")
    return graph.compile()


def _routed_by_a_tool() -> Any:
    def router(state: State) -> dict[str, Any]:
        result = model.bind_tools([route]).invoke([SystemMessage("You route."), *state["messages"]])
        return {"answer": result.tool_calls[0]["args"]["to"]}

    def chosen(state: State) -> Literal["sales"]:
        return state["answer"]  # type: ignore[return-value]

    graph = _graph("router", router, sales=_says("You are sales."))
    graph.add_conditional_edges("router", chosen)
    return graph.compile()


def _told_as_text() -> Any:
    def find(state: State) -> dict[str, Any]:
        messages = [SystemMessage("You find."), *state["messages"]]
        result = model.bind_tools([look_up]).invoke(messages)
        if not result.tool_calls:
            return {"messages": [result]}
        results = [look_up.invoke(call["args"]) for call in result.tool_calls]
        return {"messages": [HumanMessage(f"look_up says: {item}") for item in results]}

    def next_of(state: State) -> str:
        return "finder" if _last(state).type == "human" else END

    graph = _graph("finder", find)
    graph.add_conditional_edges("finder", next_of, ["finder", END])
    return graph.compile()


def _answered_by_the_last_tool() -> Any:
    def give(state: State) -> dict[str, Any]:
        return {"answer": _last(state).tool_calls[0]["args"]["text"]}

    def next_of(state: State) -> str:
        return "give" if _last(state).tool_calls[0]["name"] == "answer" else "tools"

    graph = _graph(
        "board", _says("You answer.", look_up, answer), tools=ToolNode([look_up]), give=give
    )
    graph.add_conditional_edges("board", next_of, ["give", "tools"])
    graph.add_edge("tools", "board")
    return graph.compile()


ends_on_a_tool = _ended_by_a_tool()
routes_by_a_tool = _routed_by_a_tool()
tells_results_as_text = _told_as_text()
answers_by_the_last_tool = _answered_by_the_last_tool()
forgets_the_tool = _graph("finder", _says("You find.", look_up)).compile()
