"""Two tools called at once, each with a command to the parent graph: one update is lost."""

from __future__ import annotations

from typing import Annotated, Any

from langchain.agents import create_agent
from langchain_core.messages import AnyMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command
from typing_extensions import TypedDict


class State(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    colour: str
    size: str


@tool
def set_colour(value: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
    """Sets the colour."""
    said = ToolMessage(f"colour is {value}", tool_call_id=tool_call_id)
    update = {"colour": value, "messages": [said]}
    return Command(graph=Command.PARENT, goto="desk", update=update)


@tool
def set_size(value: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
    """Sets the size."""
    said = ToolMessage(f"size is {value}", tool_call_id=tool_call_id)
    update = {"size": value, "messages": [said]}
    return Command(graph=Command.PARENT, goto="desk", update=update)


desk = create_agent(
    "openai:gpt-5-mini", [set_colour, set_size], system_prompt="You take orders.", name="desk"
)
graph = StateGraph(State)
graph.add_node("desk", desk)
graph.add_edge(START, "desk")
app = graph.compile()
