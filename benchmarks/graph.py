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


def _endless(message: Any, text: str) -> Any:
    while True:
        yield message(content=text)


if __name__ == "__main__":
    langgraph(int(sys.argv[1]), saver=False)()
