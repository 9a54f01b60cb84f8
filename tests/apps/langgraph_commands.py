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

# The same loop in a graph below, whose conversation has a name and a reducer of its own


def added_or_set(left: list[Any], right: Any) -> list[Any]:
    """Adds to a list, or begins it anew."""
    return right["anew"] if isinstance(right, dict) else left + right


class Digging(TypedDict, total=False):
    digger_messages: Annotated[list[Any], added_or_set]
    topic: str


class Reporting(MessagesState):
    digger_messages: Annotated[list[Any], added_or_set]
    topic: str


def ask(state: Reporting) -> Command[Literal["digging"]]:
    topic = str(llm.invoke([("system", "You name topics."), *state["messages"]]).content)
    update = {"topic": topic, "digger_messages": {"anew": [HumanMessage(topic)]}}
    return Command(goto="digging", update=update)


def dig(state: Digging) -> Command[Literal["tools_of_dig"]]:
    result = llm.bind_tools([look_up]).invoke(state["digger_messages"])
    return Command(goto="tools_of_dig", update={"digger_messages": [result]})


def tools_of_dig(state: Digging) -> Command[Literal["dig", "__end__"]]:
    message = state["digger_messages"][-1]
    if not message.tool_calls:
        return Command(goto=END)
    results = [
        ToolMessage(look_up.invoke(call["args"]), tool_call_id=call["id"], name="look_up")
        for call in message.tool_calls
    ]
    return Command(goto="dig", update={"digger_messages": results})


def report(state: Reporting) -> dict[str, Any]:
    return {"messages": [AIMessage(state["digger_messages"][-1].content)]}


def call_digger(state: Reporting) -> dict[str, Any]:
    given = {"digger_messages": {"anew": [HumanMessage(state["topic"])]}}
    return {"digger_messages": COMPILED["digger"].invoke(given)["digger_messages"]}


digger = StateGraph(Digging).add_node("dig", dig).add_node("tools_of_dig", tools_of_dig)
digger.add_edge(START, "dig")
COMPILED = {"digger": digger.compile()}
called = StateGraph(Reporting).add_node("ask", ask).add_node("digging", call_digger)
called.add_node("report", report).add_edge(START, "ask").add_edge("digging", "report")
dug = StateGraph(Reporting).add_node("ask", ask).add_node("digging", digger.compile())
dug.add_node("report", report).add_edge(START, "ask").add_edge("digging", "report")

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
