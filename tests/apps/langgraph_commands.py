"""Graphs whose nodes say with a `Command` who goes on: plumbing, and control that is passed."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypedDict

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, Send

llm = ChatOpenAI(model="gpt-5-mini", api_key="none")


@tool
def look_up(word: str) -> str:
    """Looks a word up."""
    return f"{word} means {word}"


# A loop of a model's node and the node of its tools, as people write it


def think(state: MessagesState) -> Command[Literal["act", "__end__"]]:
    result = llm.bind_tools([look_up]).invoke(state["messages"])
    return Command(goto="act" if result.tool_calls else END, update={"messages": [result]})


def act(state: MessagesState) -> Command[Literal["think"]]:
    message = state["messages"][-1]
    assert isinstance(message, AIMessage)
    results = [
        ToolMessage(look_up.invoke(call["args"]), tool_call_id=call["id"], name="look_up")
        for call in message.tool_calls
    ]
    return Command(goto="think", update={"messages": results})


loop = StateGraph(MessagesState).add_node("think", think).add_node("act", act)
loop.add_edge(START, "think")


def think_and_send(state: MessagesState) -> Command[Any]:
    result = llm.bind_tools([look_up]).invoke(state["messages"])
    goto: Any = [Send("act", {"messages": [result]})] if result.tool_calls else END
    return Command(goto=goto, update={"messages": [result]})


sending = StateGraph(MessagesState).add_node("think", think_and_send, destinations=("act",))
sending.add_node("act", ToolNode([look_up]))
sending.add_edge(START, "think")
sending.add_edge("act", "think")

# A supervisor whose workers are agents with conversations of their own


class Supervised(MessagesState):
    next: str


reader = create_agent(llm, [look_up], system_prompt="You read.")
ROUTES = {"read": "reader", "write": "writer"}


def supervisor(state: Supervised) -> Command[Any]:
    result = llm.invoke([("system", "You choose."), *state["messages"]])
    goto = ROUTES.get(str(result.content), END)
    return Command(goto=goto, update={"next": goto})


def call_reader(state: Supervised) -> Command[Literal["supervisor"]]:
    content = reader.invoke({"messages": state["messages"]})["messages"][-1].content
    return Command(goto="supervisor", update={"messages": [HumanMessage(content, name="reader")]})


def writer(state: Supervised) -> Command[Literal["supervisor"]]:
    result = llm.invoke([("system", "You write."), *state["messages"]])
    message = HumanMessage(result.content, name="writer")
    return Command(goto="supervisor", update={"messages": [message]})


supervised = StateGraph(Supervised).add_node("supervisor", supervisor)
supervised.add_node("reader", call_reader).add_node("writer", writer)
supervised.add_edge(START, "supervisor")

# What is passed on


class Briefed(TypedDict, total=False):
    messages: Annotated[list[Any], add_messages]
    brief: list[Any]


def brief(state: Briefed) -> Command[Literal["briefed"]]:
    result = llm.invoke([("system", "You brief."), *state["messages"]])
    return Command(goto="briefed", update={"brief": [HumanMessage(result.content)]})


def briefed(state: Briefed) -> dict[str, Any]:
    result = llm.invoke([("system", "You do as briefed."), *state["messages"], *state["brief"]])
    return {"messages": [result]}


briefing = StateGraph(Briefed).add_node("brief", brief).add_node("briefed", briefed)
briefing.add_edge(START, "brief")
