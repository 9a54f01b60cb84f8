"""Decision routing: a request is classified, one branch or both are gone, and a merge finishes."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.store.memory import InMemoryStore

from engine.agents import Agent
from engine.memory import PROJECT, Memory, Tier, Where, recall
from engine.prompts import prompt
from engine.records import StageRecord
from engine.tools import create_doc, look_up, update_doc
from engine.values import compact

LABELS = ("create", "update", "replace")
ELSE = "else"


class Choice(TypedDict):
    """What a decision node has decided."""

    node: str
    label: str


class Task(TypedDict, total=False):
    """The state of one task."""

    request: str
    current_output: Any
    """Of the node that leads to branches."""
    choice: Choice
    stages: Annotated[list[StageRecord], operator.add]
    branches: Annotated[dict[str, Any], operator.or_]
    """What the branches that were gone have put out."""
    answer: Any


def label_in(decision: Any) -> str:
    """Returns the first label that a decision contains."""
    words = decision.get("decision") if isinstance(decision, dict) else decision
    return next((label for label in LABELS if label in compact(words)), ELSE)


class Nodes:
    """What all nodes of the workflow do."""

    def __init__(
        self, agent: Agent, name: str, *, knows: Tier = PROJECT, tags: Sequence[str] = ()
    ) -> None:
        self._agent, self._name = agent, name
        self._knows, self._tags = knows, tags

    def work(
        self, runtime: Runtime[Where], given: Any, upstream: Sequence[StageRecord]
    ) -> StageRecord:
        """Returns what the node's agent puts out, who is told what its project knows."""
        memory = Memory(runtime.store, runtime.context["project"])
        known = recall({self._knows: memory.items(self._knows)}, tags=self._tags)
        agent = self._agent
        output, calls = agent.work(
            prompt(agent.instructions, given, recall=known, upstream=upstream)
        )
        return {"node": self._name, "output": output, "tool_calls": calls}


class Decision(Nodes):
    """Chooses a branch by the words of its agent."""

    def __call__(self, state: Task, runtime: Runtime[Where]) -> Task:
        stage = self.work(runtime, {"request": state["request"]}, ())
        choice = Choice(node=self._name, label=label_in(stage["output"]))
        stage["decision"] = {**choice}
        return {"current_output": stage["output"], "choice": choice, "stages": [stage]}


class Branch(Nodes):
    """Works on what led to it."""

    def __call__(self, state: Task, runtime: Runtime[Where]) -> Task:
        stage = self.work(runtime, state["current_output"], state["stages"][-1:])
        stage["decision"] = {**state["choice"]}
        return {"stages": [stage], "branches": {self._name: stage["output"]}}


class Answer(Nodes):
    """Answers instead of a branch."""

    def __call__(self, state: Task, runtime: Runtime[Where]) -> Task:
        stage = self.work(runtime, state["current_output"], state["stages"][-1:])
        return {"answer": stage["output"]}


class Merge(Nodes):
    """Finishes what the branches have begun."""

    def __call__(self, state: Task, runtime: Runtime[Where]) -> Task:
        gone = [one for one in state["stages"] if one["node"] in state["branches"]]
        stage = self.work(runtime, state["branches"], gone)
        return {"answer": stage["output"]}


def split(state: Task) -> Task:
    """Lets two branches begin with what is there."""
    output = state["current_output"]
    stage = StageRecord(
        node="replace_document", output=output, tool_calls=[], decision={**state["choice"]}
    )
    return {"current_output": output, "stages": [stage]}


def chosen(state: Task) -> str:
    """Returns the label of the branch that is gone."""
    return state["choice"]["label"]


def build() -> CompiledStateGraph[Any, Any, Any, Any]:
    """Returns the workflow, with a memory of its own."""
    nodes: dict[str, Callable[..., Task]] = {
        "classify_request": Decision(Agent("Classify the request.", [look_up]), "classify_request"),
        "create_document": Branch(Agent("Create the document.", [create_doc]), "create_document"),
        "update_document": Branch(Agent("Update the document.", [update_doc]), "update_document"),
        "replace_document": split,
        "ask_back": Answer(Agent("Ask what is wanted."), "ask_back"),
        "finalize": Merge(Agent("Finalize."), "finalize"),
    }
    graph = StateGraph(Task, context_schema=Where)
    for name, work in nodes.items():
        graph.add_node(name, work)
    graph.add_edge(START, "classify_request")
    ways = {label: f"{label}_document" for label in LABELS}
    graph.add_conditional_edges("classify_request", chosen, {**ways, ELSE: "ask_back"})
    graph.add_edge("replace_document", "create_document")
    graph.add_edge("replace_document", "update_document")
    graph.add_edge("create_document", "finalize")
    graph.add_edge("update_document", "finalize")
    graph.add_edge("finalize", END)
    graph.add_edge("ask_back", END)
    return graph.compile(store=InMemoryStore())
