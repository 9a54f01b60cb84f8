"""The conversation of `benchmarks.conversations` as a StateGraph of LangGraph with fake models.

Nothing of simkit is imported: `python -m benchmarks.graph TURNS` costs what LangGraph costs.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

TEXT = "the quick brown fox jumps over the lazy dog " * 4


class _State(TypedDict):
    messages: Annotated[list[Any], operator.add]


def langgraph(turns: int, saver: bool) -> Callable[[], object]:
    """Returns a run of the same conversation as a StateGraph with fake chat models."""
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage, HumanMessage
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.graph import END, START, StateGraph

    names = ("triage", "billing", "writer")

    def node(name: str) -> Callable[[_State], _State]:
        model = GenericFakeChatModel(messages=iter(_endless(AIMessage, f"{name} {TEXT}")))
        return lambda state: {"messages": [model.invoke(state["messages"])]}

    def converse() -> None:
        # Its types cannot say that a node is any function of the state.
        graph: Any = StateGraph(_State)
        for name in names:
            graph.add_node(name, node(name))
        for one, other in zip((START, *names), (*names, END), strict=True):
            graph.add_edge(one, other)
        app = graph.compile(checkpointer=InMemorySaver() if saver else None)
        state: Any = {"messages": []}
        for place in range(turns):
            said = HumanMessage(f"{place} {TEXT}")
            if saver:
                app.invoke({"messages": [said]}, {"configurable": {"thread_id": "1"}})
            else:
                state = app.invoke({"messages": [*state["messages"], said]})

    return converse


def langgraph_desk(turns: int) -> Callable[[], object]:
    """Returns a run of `benchmarks.conversations.desk` as a StateGraph with a ToolNode."""
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
    from langchain_core.tools import StructuredTool
    from langgraph.graph import END, START, StateGraph
    from langgraph.prebuilt import ToolNode
    from langgraph.types import Command

    def find_order(id: int) -> dict[str, int]:
        """Finds an order."""
        return {"total": id}

    def lines() -> Any:
        for place in range(turns):
            args: dict[str, Any] = {"id": place}
            yield AIMessage("", tool_calls=[{"name": "find_order", "args": args, "id": "c1"}])
            args = {"query": str(place), "payload": {"order": place}}
            yield AIMessage(
                "", tool_calls=[{"name": "transfer_to_billing", "args": args, "id": "c2"}]
            )

    def converse() -> None:
        models = {
            "desk": GenericFakeChatModel(messages=lines()),
            "billing": GenericFakeChatModel(messages=iter(_endless(AIMessage, f"billing {TEXT}"))),
        }

        def desk(state: _State) -> Any:
            reply = models["desk"].invoke(state["messages"])
            if reply.tool_calls[0]["name"] == "find_order":
                return Command(update={"messages": [reply]}, goto="tools")
            answer = ToolMessage("Transferred to billing.", tool_call_id="c2")
            return Command(update={"messages": [reply, answer]}, goto="billing")

        graph: Any = StateGraph(_State)
        graph.add_node("desk", desk, destinations=("tools", "billing"))
        graph.add_node("tools", ToolNode([StructuredTool.from_function(find_order)]))
        graph.add_node(
            "billing", lambda state: {"messages": [models["billing"].invoke(state["messages"])]}
        )
        graph.add_edge(START, "desk")
        graph.add_edge("tools", "desk")
        graph.add_edge("billing", END)
        app = graph.compile()
        state: Any = {"messages": []}
        for place in range(turns):
            said = HumanMessage(f"{place} {TEXT}")
            state = app.invoke({"messages": [*state["messages"], said]})

    return converse


def _endless(message: Any, text: str) -> Any:
    while True:
        yield message(content=text)


if __name__ == "__main__":
    langgraph(int(sys.argv[1]), saver=False)()
