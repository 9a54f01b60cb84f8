"""A node that asks LangChain's model of OpenAI, and tells where its answer was read."""

from __future__ import annotations

import threading
from typing import Any

from langchain_core.messages import AIMessage
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph

read_in: list[threading.Thread] = []


class Watched(ChatOpenAI):
    def _create_chat_result(self, *args: Any, **kwargs: Any) -> Any:
        read_in.append(threading.current_thread())
        return super()._create_chat_result(*args, **kwargs)


async def ask(state: MessagesState) -> dict[str, Any]:
    await Watched(model="m").ainvoke(state["messages"])
    is_here = read_in == [threading.current_thread()]
    return {"messages": [AIMessage("here" if is_here else "elsewhere")]}


graph = StateGraph(MessagesState).add_node(ask).add_edge(START, "ask").compile()
