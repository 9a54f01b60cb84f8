"""Graphs as public templates write them: tools that return commands, middleware, agents inside."""

from __future__ import annotations

import operator
from typing import Annotated, Any

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, AgentState
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.managed import RemainingSteps
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Command, interrupt

llm = ChatOpenAI(model="gpt-5-mini", api_key="none")


class Noting(MessagesState):
    notes: Annotated[list[str], operator.add]
    remaining_steps: RemainingSteps


@tool
def save(note: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
    """Saves a note."""
    message = ToolMessage("saved", tool_call_id=tool_call_id)
    return Command(update={"notes": [note], "messages": [message]})


@tool
def look(word: str) -> str:
    """Looks a word up."""
    return word


def agent(state: Noting) -> dict[str, Any]:
    return {"messages": [llm.bind_tools([save]).invoke(state["messages"])]}


_noting = StateGraph(Noting).add_node("agent", agent).add_node("tools", ToolNode([save]))
_noting.add_edge(START, "agent")
_noting.add_conditional_edges("agent", tools_condition)
_noting.add_edge("tools", "agent")
noting = _noting.compile(checkpointer=InMemorySaver())


class Counting(AgentState[Any]):
    calls: int


class Count(AgentMiddleware[Any, Any]):
    """Counts what the model is asked."""

    state_schema = Counting

    def before_model(self, state: Any, runtime: Any) -> dict[str, Any]:
        return {"calls": state.get("calls", 0) + 1}


clerk = create_agent(llm, [look], middleware=[Count()], checkpointer=InMemorySaver(), name="clerk")


def ends(state: MessagesState) -> dict[str, Any]:
    return {}


_holding = StateGraph(MessagesState)
_holding.add_node("clerk", create_agent(llm, [look], middleware=[Count()], name="clerk"))
_holding.add_node("ends", ends)
_holding.add_edge(START, "clerk")
_holding.add_edge("clerk", "ends")
holding = _holding.compile(checkpointer=InMemorySaver())

expert = create_agent(llm, [look], name="expert")


def delegates(state: MessagesState) -> dict[str, Any]:
    task = HumanMessage(f"Task: {state['messages'][-1].content}")
    return {"messages": [expert.invoke({"messages": [task]})["messages"][-1]]}


calling = StateGraph(MessagesState).add_node("delegates", delegates)
calling.add_edge(START, "delegates")


def approve(state: Noting) -> Command[Any]:
    answer = str(interrupt({"question": "ok?"}))
    return Command(goto="agent" if answer == "fine" else END, update={"notes": [answer]})


_human = StateGraph(Noting).add_node("approve", approve, destinations=("agent", END))
_human.add_node("agent", agent)
_human.add_edge(START, "approve")
human = _human.compile(checkpointer=InMemorySaver())
