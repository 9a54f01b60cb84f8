"""A research desk as a StateGraph: parallel Send, a subgraph, an interrupt, state in SQLite."""

from __future__ import annotations

import operator
import os
import sqlite3
import tempfile
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, Send, interrupt
from openai import OpenAI

client = OpenAI()
FILE = Path(tempfile.gettempdir()) / f"simkit-langgraph-research-{os.getpid()}.sqlite"


class State(TypedDict, total=False):
    messages: Annotated[list[Any], add_messages]
    topics: list[str]
    notes: Annotated[list[str], operator.add]
    verdict: str


class Topic(TypedDict):
    topic: str


class Review(TypedDict, total=False):
    notes: list[str]
    verdict: str


class Verdict(TypedDict):
    verdict: str


def ask(system: str, text: str) -> str:
    completion = client.chat.completions.create(
        model="gpt-5-mini",
        messages=[{"role": "system", "content": system}, {"role": "user", "content": text}],
    )
    return completion.choices[0].message.content or ""


def planner(state: State) -> dict[str, Any]:
    """Splits the question."""
    return {"topics": ask("Name topics.", state["messages"][-1].content).split(", ")}


def fan_out(state: State) -> list[Send]:
    """Sends every topic to a worker of its own."""
    return [Send("worker", {"topic": topic}) for topic in state["topics"]]


def worker(state: Topic) -> dict[str, Any]:
    """Looks one topic up."""
    return {"notes": [ask("Research one topic.", state["topic"])]}


def critic(state: Review) -> dict[str, Any]:
    """Judges the notes."""
    return {"verdict": ask("Judge the notes.", "; ".join(state["notes"]))}


def approve(state: State) -> Command[Any]:
    """Asks the user."""
    answer = interrupt({"question": "Publish?", "verdict": state["verdict"]})
    if answer == "yes":
        data = {"role": "assistant", "content": f"Published: {state['verdict']}"}
        return Command(goto=END, update={"messages": [data]})
    return Command(goto="planner", update={"verdict": ""})


def build() -> Any:
    """Builds the graph; its state outlives it in a file."""
    # Its output is the verdict alone: notes that it gave back would be added once more.
    review = StateGraph(Review, output_schema=Verdict)
    review.add_node("critic", critic)
    review.add_edge(START, "critic")
    graph = StateGraph(State)
    graph.add_node("planner", planner)
    graph.add_node("worker", worker)
    graph.add_node("review", review.compile())
    graph.add_node("approve", approve, destinations=("planner", END))
    graph.add_edge(START, "planner")
    graph.add_conditional_edges("planner", fan_out, ["worker"])
    graph.add_edge("worker", "review")
    graph.add_edge("review", "approve")
    connection = sqlite3.connect(FILE, check_same_thread=False)
    return graph.compile(checkpointer=SqliteSaver(connection))


def own_file() -> Any:
    """Begins and ends with no state."""
    FILE.unlink(missing_ok=True)
    yield
    FILE.unlink(missing_ok=True)
