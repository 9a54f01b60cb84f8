"""Graphs whose tools run other agents: prebuilt ones, nodes that run tools, graphs with steps."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

from langchain.agents import create_agent
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

model = ChatOpenAI(model="gpt-5-mini")
worker = create_agent(model, tools=[], system_prompt="You do one task.", name="worker")


def _question(description: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": description}]}


@tool
def task(description: str) -> str:
    """Has a worker do a task."""
    return str(worker.invoke(_question(description))["messages"][-1].content)


@tool("task")
async def task_async(description: str) -> str:
    """Has a worker do a task."""
    return str((await worker.ainvoke(_question(description)))["messages"][-1].content)


prebuilt = create_agent(model, tools=[task], system_prompt="You are the boss.", name="boss")
asynchronous = create_agent(
    model, tools=[task_async], system_prompt="You are the boss.", name="boss"
)


def _boss(state: MessagesState) -> dict[str, Any]:
    items = [("system", "You are the boss."), *state["messages"]]
    return {"messages": [model.bind_tools([task]).invoke(items)]}


def _by_hand() -> Any:
    graph = StateGraph(MessagesState)
    graph.add_node("boss", _boss)
    graph.add_node("tools", ToolNode([task]))
    graph.add_edge(START, "boss")
    graph.add_conditional_edges("boss", tools_condition)
    graph.add_edge("tools", "boss")
    return graph.compile()


by_hand = _by_hand()


class Job(TypedDict):
    description: str
    said: Annotated[list[Any], operator.add]


def _says(system: str) -> Any:
    def node(job: Job) -> dict[str, Any]:
        items = [("system", system), ("user", job["description"]), *job["said"]]
        return {"said": [model.invoke(items)]}

    return node


def _in_steps() -> Any:
    graph = StateGraph(Job)
    graph.add_node("plan", _says("You plan."))
    graph.add_node("write", _says("You write."))
    graph.add_edge(START, "plan")
    graph.add_edge("plan", "write")
    return graph.compile()


steps = _in_steps()


@tool("task")
def task_in_steps(description: str) -> str:
    """Has a task planned and written down."""
    return str(steps.invoke({"description": description, "said": []})["said"][-1].content)


with_steps = create_agent(
    model, tools=[task_in_steps], system_prompt="You are the boss.", name="boss"
)
