"""Documents are created or updated, by the label that the classification contains."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.store.memory import InMemoryStore

from engine.agents import Agent
from engine.decision import Choice, Nodes
from engine.errors import NoRoute
from engine.memory import Where
from engine.records import StageRecord
from engine.tools import create_doc, update_doc
from engine.values import compact

WAYS = {"create": "create_document", "update": "update_document"}
KNOWS, TAGS = "items", ("documents",)


class Task(TypedDict, total=False):
    """The state of one task."""

    request: str
    current_output: Any
    choice: Choice | None
    stages: Annotated[list[StageRecord], operator.add]
    branches: dict[str, Any]
    """What the branch that was gone has put out, by its name."""


class Classify(Nodes):
    """Chooses a branch by what its agent says."""

    def __call__(self, state: Task, runtime: Runtime[Where]) -> Task:
        stage = self.work(runtime, {"request": state["request"]}, ())
        said = compact(stage["output"])
        label = next((label for label in WAYS if label in said), None)
        choice = None if label is None else Choice(node=self._name, label=label)
        if choice is not None:
            stage["decision"] = {**choice}
        return {"current_output": stage["output"], "choice": choice, "stages": [stage]}


class Branch(Nodes):
    """Carries out what was decided."""

    def __call__(self, state: Task, runtime: Runtime[Where]) -> Task:
        stage = self.work(runtime, state["current_output"], state["stages"])
        stage["decision"] = {**(state["choice"] or {})}  # type: ignore[typeddict-item]
        output = stage["output"]
        return {"current_output": output, "stages": [stage], "branches": {self._name: output}}


class Finalize(Nodes):
    """Tells what has become of the request."""

    def __call__(self, state: Task, runtime: Runtime[Where]) -> Task:
        return {
            "current_output": self.work(runtime, state["branches"], state["stages"][1:])["output"]
        }


def chosen(state: Task) -> str:
    """Returns the label of the branch; raises NoRoute where none fits."""
    choice = state["choice"]
    if choice is None:
        said = compact(state["current_output"])
        labels = ", ".join(WAYS)
        raise NoRoute(
            f"node 'classify_request' decided {said}, which contains none of its labels: {labels}"
        )
    return choice["label"]


def build() -> CompiledStateGraph[Any, Any, Any, Any]:
    """Returns the workflow, with a memory of its own."""
    graph = StateGraph(Task, context_schema=Where)
    for kind, name, agent in (
        (Classify, "classify_request", Agent("Classify the request.")),
        (Branch, "create_document", Agent("Create the document.", [create_doc])),
        (Branch, "update_document", Agent("Update the document.", [update_doc])),
        (Finalize, "finalize", Agent("Finalize.")),
    ):
        graph.add_node(name, kind(agent, name, knows=KNOWS, tags=TAGS))
    graph.add_edge(START, "classify_request")
    graph.add_conditional_edges("classify_request", chosen, WAYS)
    graph.add_edge("create_document", "finalize")
    graph.add_edge("update_document", "finalize")
    graph.add_edge("finalize", END)
    return graph.compile(store=InMemoryStore())
