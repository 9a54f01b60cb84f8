"""Graphs as other people write them: nodes of usual names, filters of every kind, own types."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentState,
    ClearToolUsesEdit,
    ContextEditingMiddleware,
    SummarizationMiddleware,
    before_model,
    wrap_model_call,
)
from langchain_core.messages import RemoveMessage, ToolMessage, filter_messages, trim_messages
from langchain_core.tools import InjectedToolCallId, tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint, task
from langgraph.graph import START, MessagesState, StateGraph, add_messages
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.prebuilt import ToolNode, create_react_agent, tools_condition
from langgraph.types import Command, Send, interrupt
from pydantic import BaseModel

model = ChatOpenAI(model="gpt-4o-mini")


def _chatting(node: Any, *after: Any) -> Any:
    graph = StateGraph(MessagesState).add_sequence([node, *after])
    return graph.add_edge(START, node.__name__).compile(checkpointer=InMemorySaver())


# Nodes of usual names


@tool
def search(query: str) -> str:
    """Search the web."""
    raise ConnectionError(query)


@tool
def escalate(reason: str, call: Annotated[str, InjectedToolCallId]) -> Command[Any]:
    """Call a person."""
    message = ToolMessage("They are called.", tool_call_id=call)
    return Command(goto="person", update={"reason": reason, "messages": [message]})


class Desk(MessagesState):
    """A conversation, and why a person is needed."""

    reason: str


def merge_lists(before: list[str], given: Any) -> list[str]:
    return list(given["value"]) if isinstance(given, dict) else [*before, *given]


class Bag(TypedDict):
    """What is carried; a write may say that it takes the place of what was there."""

    items: Annotated[list[str], merge_lists]


def call_model(state: MessagesState) -> Any:
    return {"messages": [model.bind_tools([search, escalate]).invoke(state["messages"])]}


def person(state: Desk) -> Any:
    return {"messages": [("ai", f"A person looks at it: {state['reason']}.")]}


desk = (
    StateGraph(Desk)
    .add_node(call_model)
    .add_node("tools", ToolNode([search, escalate]))
    .add_node(person)
    .add_edge(START, "call_model")
    .add_conditional_edges("call_model", tools_condition)
    .add_edge("tools", "call_model")
    .compile(name="Desk")
)


def inner(state: MessagesState) -> Any:
    return {"messages": [model.invoke(state["messages"])]}


inner_graph = (
    StateGraph(MessagesState)
    .add_node(
        "researcher",
        StateGraph(MessagesState)
        .add_node("call_model", inner)
        .add_node("tools", ToolNode([search]))
        .add_edge(START, "call_model")
        .add_conditional_edges("call_model", tools_condition)
        .compile(),
    )
    .add_edge(START, "researcher")
    .compile()
)


@task(name="call_model")
def ask(messages: list[Any]) -> Any:
    return model.invoke(messages)


@entrypoint(checkpointer=InMemorySaver())
def chat(messages: list[Any], *, previous: list[Any] | None) -> Any:
    reply = add_messages(previous or [], messages)
    answer = ask(reply).result()
    return entrypoint.final(value=answer, save=add_messages(reply, [answer]))


def as_messages(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def as_items(text: str) -> dict[str, list[str]]:
    return {"items": text.split()}


def twice(state: Bag) -> Any:
    return [Send("pack", {"items": [item]}) for item in state["items"]]


def pack(state: Bag) -> Command[Any]:
    return Command(goto="carry")


def carry(state: Bag) -> Any:
    return {"items": {"type": "override", "value": ["carried"]}}


bag = (
    StateGraph(Bag)
    .add_node(pack)
    .add_node(carry)
    .add_conditional_edges(START, twice, ["pack"])
    .compile()
)


async def pack_later(state: Bag) -> Command[Any]:
    return pack(state)


async def carry_later(state: Bag) -> Any:
    return carry(state)


small = (
    StateGraph(Bag)
    .add_node("pack", pack_later)
    .add_node("carry", carry_later)
    .add_edge(START, "pack")
    .compile()
)


async def each(state: Bag) -> Any:
    results = await asyncio.gather(*(small.ainvoke({"items": [item]}) for item in state["items"]))
    return {"items": [item for result in results for item in result["items"]]}


bags = StateGraph(Bag).add_node(each).add_edge(START, "each").compile()


# Code that goes on with what its graph asked


def ask_first(state: MessagesState) -> Any:
    return {"messages": [("ai", f"Done: {interrupt('Really?')}.")]}


careful = _chatting(ask_first)


def approved(text: str) -> str:
    config: Any = {"configurable": {"thread_id": "desk"}}
    is_waiting = bool(careful.get_state(config).next)
    state = careful.invoke(
        Command(resume=text) if is_waiting else {"messages": [("user", text)]}, config
    )
    value = state.get("__interrupt__")
    return str(value[0].value if value else state["messages"][-1].content)


# Values of the user's own types


class Section(BaseModel):
    """A part of a report."""

    name: str


class Report(TypedDict):
    """One value that is no message."""

    title: str


class Plan(TypedDict):
    """What is to be written."""

    topic: str
    sections: Annotated[list[Section], lambda before, after: [*before, *after]]


def planned(state: Plan) -> Any:
    return {"sections": [Section(name=name) for name in state["topic"].split()]}


plan = StateGraph(Plan).add_node(planned).add_edge(START, "planned").compile()
titled = (
    StateGraph(Report)
    .add_node("loud", lambda state: {"title": state["title"].upper()})
    .add_edge(START, "loud")
    .compile()
)


# What filters


def talk(state: MessagesState) -> Any:
    return {"messages": [model.invoke(state["messages"])]}


def forget(state: MessagesState) -> Any:
    messages = state["messages"]
    return {"messages": [RemoveMessage(id=str(message.id)) for message in messages[:-2]]}


def trimming(state: MessagesState) -> Any:
    left = trim_messages(state["messages"], token_counter=len, max_tokens=1, strategy="last")
    return {"messages": [model.invoke(left)]}


chain = trim_messages(token_counter=len, max_tokens=1, strategy="last") | model


def chained(state: MessagesState) -> Any:
    return {"messages": [chain.invoke(state["messages"])]}


def filtering(state: MessagesState) -> Any:
    left = filter_messages(state["messages"], exclude_types=["ai"])
    return {"messages": [model.invoke(left)]}


def unheeded(state: MessagesState) -> Any:
    trim_messages(state["messages"], token_counter=len, max_tokens=1, strategy="last")
    return {"messages": [model.invoke(state["messages"])]}


forgetful = _chatting(talk, forget)
trimmed, piped = _chatting(trimming), _chatting(chained)
filtered, never_sent = _chatting(filtering), _chatting(unheeded)


def last_two(state: Any) -> Any:
    return {"llm_input_messages": state["messages"][-2:]}


@before_model
def only_the_last(state: AgentState[Any], runtime: Any) -> dict[str, Any]:
    return {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), state["messages"][-1]]}


@wrap_model_call
def short(request: Any, handler: Callable[[Any], Any]) -> Any:
    return handler(request.override(messages=request.messages[-1:]))


def _agent(*middleware: Any) -> Any:
    return create_agent(
        model, [search], middleware=middleware, checkpointer=InMemorySaver(), name="helper"
    )


hooked = create_react_agent(
    model, [search], pre_model_hook=last_two, checkpointer=InMemorySaver(), name="helper"
)
removing, wrapped = _agent(only_the_last), _agent(short)
summarizing = _agent(
    SummarizationMiddleware(model=model, trigger=("messages", 3), keep=("messages", 1))
)
editing = _agent(ContextEditingMiddleware(edits=[ClearToolUsesEdit(trigger=1, keep=0)]))
