"""Agents: a model with instructions, and the tools that it may call until it answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AnyMessage
from langchain_core.tools import BaseTool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from engine.models import chat_model
from engine.records import ToolCallRecord, recorded, records_in
from engine.values import parsed

llm = chat_model()


class Agent:
    """One agent, which any number of nodes may name."""

    def __init__(self, instructions: str, tools: Sequence[BaseTool] = ()) -> None:
        self.instructions = instructions
        self._model = llm.bind_tools(tools) if tools else llm
        self._loop = self._built(tools)

    def _built(self, tools: Sequence[BaseTool]) -> Any:
        loop = StateGraph(MessagesState)
        loop.add_node("model", self._ask)
        loop.add_edge(START, "model")
        if tools:
            loop.add_node("tools", ToolNode(tools, wrap_tool_call=recorded))
            loop.add_conditional_edges("model", tools_condition)
            loop.add_edge("tools", "model")
        return loop.compile()

    def _ask(self, state: MessagesState) -> dict[str, Any]:
        return {"messages": [self._model.invoke(state["messages"])]}

    def work(self, prompt: Sequence[AnyMessage]) -> tuple[Any, list[ToolCallRecord]]:
        """Returns what the agent puts out, and the records of the tool calls that it made."""
        said = self._loop.invoke({"messages": list(prompt)})["messages"]
        made = said[len(prompt) :]
        return parsed(str(made[-1].text)), records_in(made)
