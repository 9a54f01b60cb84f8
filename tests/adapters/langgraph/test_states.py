"""What is shown of a graph's state is what its nodes were given and returned, and what it holds."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

if find_spec("langgraph") is None:
    pytest.skip("langgraph is not installed", allow_module_level=True)

from collections.abc import Mapping

from simkit.core.messages import Message
from tests.adapters.running import check_app, run_app
from tests.building import Ran

APP = 'app: {path: [.], input: {text: "${user}"}, output: log}\n'
TYPES = {"user": "human", "assistant": "ai"}


def noted_value(value: Any) -> Any:
    """A value of a view as the application's own nodes note it: null is what holds nothing."""
    if isinstance(value, Message):
        return [TYPES.get(value.role, value.role), value.content]
    if isinstance(value, Mapping):
        return {key: noted_value(inner) for key, inner in value.items() if inner is not None}
    is_list = not isinstance(value, (str, bytes)) and hasattr(value, "__iter__")
    return [noted_value(item) for item in value] if is_list else value


def ran_noting(name: str, scenario: str) -> tuple[Ran, list[tuple[str, Any, Any]]]:
    """Runs a scenario that must hold; returns also what the nodes noted."""
    states = sys.modules.get("langgraph_states")
    if states is not None:
        states.notes.clear()
    ran = check_app(f"langgraph_states:{name}", scenario)
    return ran, sys.modules["langgraph_states"].notes


def check(ran: Ran, observed: list[tuple[str, Any, Any]], *, are_plain: bool = True) -> None:
    """What each run received is what its node has noted; and what it wrote, if that is plain."""
    noted: dict[str, list[tuple[Any, Any]]] = {}
    for name, given, returned in observed:
        noted.setdefault(name, []).append((given, returned))
    pairs_by_name: dict[str, list[tuple[Any, Any]]] = {}
    for turn in ran.view.turns:
        for run in turn.runs:
            if run.agent in noted and run.status == "done":
                returned = noted_value(run.update), noted_value(run.output)
                pairs_by_name.setdefault(run.agent, []).append(
                    (noted_value(run.received), returned)
                )
    by_name = {
        name: [(given, (returned, returned)) for given, returned in pairs]
        for name, pairs in noted.items()
    }
    if not are_plain:
        pairs_by_name = {
            name: [(item, ((), ())) for item, _ in pairs] for name, pairs in pairs_by_name.items()
        }
        by_name = {name: [(item, ((), ())) for item, _ in pairs] for name, pairs in by_name.items()}
    assert pairs_by_name == by_name


def check_end(ran: Ran, name: str) -> None:
    """The state at the end is what the graph itself says that it is."""
    graph = getattr(sys.modules["langgraph_states"], name)
    thread = list(graph.checkpointer.storage)[-1]
    values = graph.get_state({"configurable": {"thread_id": thread}}).values
    by_name = {key: value for key, value in noted_value(ran.view.turns[-1].state).items() if value}
    results = {key: value for key, value in sys.modules["langgraph_states"].data(values).items()}
    lost = {"scratch"} if name == "fleeting" else set()  # No checkpoint keeps it.
    assert by_name.keys() - lost == {key for key, value in results.items() if value}
    assert {key: by_name[key] for key in by_name.keys() - lost} == {
        key: value for key, value in results.items() if value
    }


ALL = (
    "nested", "without_memory", "calling", "sending", "sending_far", "private", "narrow",
    "modelled", "classed", "reduced", "overwriting", "parallel", "fleeting", "sending_texts",
)  # fmt: skip
WITHOUT = ("without_memory", "sending_far", "sending_texts")


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_what_nodes_received_and_wrote_is_what_they_noted(name: str) -> None:
    app = APP if name not in ("narrow", "reduced") else APP.replace(", output: log", "")
    ran, observed = ran_noting(name, f"{app}turns: [{{user: one}}, {{user: two}}]")

    check(ran, observed, are_plain=name not in ("overwriting", "sending_texts"))
    if name not in WITHOUT:
        check_end(ran, name)


@pytest.mark.parametrize("name", ["managed", "forgetting"])
def test_the_same_goes_for_conversations(name: str) -> None:
    ran, observed = ran_noting(name, "turns: [{user: one}, {user: two}]")

    check(ran, observed, are_plain=False)
    check_end(ran, name)


def test_the_same_goes_for_code_that_calls_graphs_one_after_the_other() -> None:
    check(*ran_noting("wrapped", "turns: [{user: one}, {user: two}]"))


def test_the_same_goes_for_functions() -> None:
    check(*ran_noting("functional", "turns: [{user: one}]"))


def test_the_same_goes_for_a_graph_inside_that_asks() -> None:
    ran, observed = ran_noting("interrupted", f"{APP}turns: [{{user: one}}, {{resume: fine}}]")

    check(ran, observed)
    check_end(ran, "interrupted")


@pytest.mark.parametrize(
    ("name", "claim"),
    [
        ("sending", "{works: {received: {text: one}}}"),
        ("sending", "{works: {received: {found: [a, b]}}}"),
        ("nested", "{digs: {received: {text: one}}}"),
        ("nested", "{deeper: {received: {note: outer}}}"),
        ("calling", "{asks: {received: {note: outer}}}"),
        ("calling", "{answers: {update: {}}}"),
    ],
)
def test_a_claim_on_a_graph_inside_is_not_answered_from_another(name: str, claim: str) -> None:
    ran = run_app(
        f"langgraph_states:{name}",
        f"{APP}turns:\n  - user: one\n    expect: {{runs: {claim}}}\n".replace(
            "update: {}", "update: {$exact: {}}"
        ),
    )

    assert [finding.what.partition(" does")[2] for finding in ran.judgement.findings] == [
        " not match"
    ]


@pytest.mark.slow
def test_a_graph_inside_that_writes_back_what_it_was_given_is_found() -> None:
    ran = run_app("langgraph_states:doubling", f"{APP}turns: [{{user: one}}, {{user: two}}]")

    assert {finding.id for finding in ran.judgement.findings} >= {"STA-09"}


ARRAYS = """
from langchain_core.messages import AIMessage
from langgraph.graph import END, START, MessagesState, StateGraph

class Array:  # It compares its elements, as arrays do.
    __hash__ = None

    def __eq__(self, other):
        return Truth()

class Truth:
    def __bool__(self):
        raise ValueError("the truth value of an array is ambiguous")

class State(MessagesState):
    vector: object
    parts: list

def line(*nodes):
    graph = StateGraph(State)
    for (name, _), (after, _) in zip([(START, 0), *nodes], [*nodes, (END, 0)]):
        graph.add_edge(name, after)
    for name, node in nodes:
        graph.add_node(name, node)
    return graph.compile()

def measure(state):
    return {"vector": Array(), "parts": [Array()]}

def answer(state):
    return {"vector": state["vector"], "messages": [AIMessage("done")]}

graph = line(("measure", measure), ("inner", line(("again", measure), ("answer", answer))))
"""


def test_values_that_refuse_to_be_compared_may_stand_in_state(tmp_path: Path) -> None:
    (tmp_path / "arrays_in_state.py").write_text(ARRAYS, encoding="utf-8")

    ran = run_app("arrays_in_state:graph", "turns: [{user: Hi}, {user: Again}]", tmp_path)

    assert [turn.error for turn in ran.view.turns] == [None, None]
    assert ran.turn().reply == "done"
