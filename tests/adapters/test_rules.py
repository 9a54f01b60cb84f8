"""Rules that speak of nothing: a node or an agent that is not there is an error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simkit.adapters.refusals import check_agents, check_nodes
from simkit.core.errors import ScriptBroken, SourceError
from simkit.spec.scenario.apps import AgentRule, App, AppOptions
from tests.adapters.running import run_app


def app(**rules: dict[str, Any]) -> App:
    agents = {name: AgentRule.model_validate(rule) for name, rule in rules.items()}
    return App("team:graph", "team:graph", ".", AppOptions(), agents)


def test_a_node_that_is_not_there_is_an_error_that_names_those_that_are() -> None:
    rules = app(planner={"node": ["plan", "reserch"]})

    with pytest.raises(ScriptBroken) as caught:
        check_nodes(rules, ["plan", "research"], are_all=True)

    assert (caught.value.what, caught.value.path) == (
        "no node 'reserch' worked, and `team:graph` has none of that name. Did you mean "
        "`research`?\nIts nodes: plan, research.",
        ("agents", "planner", "node"),
    )


def test_nodes_that_are_there_are_none() -> None:
    check_nodes(app(planner={"node": ["plan", "research"]}), ["plan", "research"], are_all=True)


def test_a_node_of_a_graph_that_is_not_reached_may_be_there_but_for_one_nearly_called_so() -> None:
    check_nodes(app(critic={"node": ["judge"]}), ["plan"], are_all=False)

    with pytest.raises(ScriptBroken, match="no node 'plann' worked"):
        check_nodes(app(planner={"node": ["plann"]}), ["plan"], are_all=False)


def test_an_agent_that_is_nearly_called_like_one_is_an_error() -> None:
    rules = app(traige={"sections": {}}, billing={"handoff": "to_billing"})

    with pytest.raises(ScriptBroken) as caught:
        check_agents(rules, ["triage", "billing"], ["triage"])

    assert (caught.value.what, caught.value.path) == (
        "no agent 'traige' worked, and `team:graph` has none of that name. Did you mean "
        "`triage`?\nIts agents: triage, billing.",
        ("agents", "traige"),
    )


@pytest.mark.parametrize(
    "rules",
    [
        {"triage": {"sections": {}}},
        {"helper": {"sections": {}}},
        {"traige": {"system": "You triage."}},
        {"traige": {"node": "triage"}},
        {"triage": {"sections": {}}, "triage2": {"system": "You too."}},
    ],
    ids=["there", "far from all", "by its calls", "by its node", "a name of its own"],
)
def test_an_agent_that_may_be_there_is_none(rules: dict[str, Any]) -> None:
    check_agents(app(**rules), ["triage", "billing"], ["triage"])


def test_a_node_of_what_is_no_graph_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "graphless.py").write_text("def run(text):\n    return text\n", encoding="utf-8")
    rule = "agents: {triage: {system: {$starts: You are the triage}, node: [ask]}}\n"
    turns = "turns: [{user: Hello}]"

    with pytest.raises(SourceError) as caught:
        run_app("graphless:run", "app: {path: [.]}\n" + rule + turns, tmp_path)

    assert str(caught.value).partition("test.scenario.yaml")[2] == (
        ":5:64: `node` names nodes of a graph, and `graphless:run` is no graph, nor code "
        "that uses LangGraph.\n"
        "Name the graph under `pipeline:`, or say by `system` which calls are the agent's."
    )


BEHIND = """
import hidden_graphs
def ask(text):
    return hidden_graphs.made().invoke({"word": text})["word"] if text == "go" else text
"""
HIDDEN = """
from typing import TypedDict
from langgraph.graph import START, StateGraph
from langchain_openai import ChatOpenAI
class State(TypedDict):
    word: str
def first(state):
    return {"word": ChatOpenAI(model="gpt-5-mini", api_key="x").invoke(state["word"]).content}
def made():
    graph = StateGraph(State)
    graph.add_node("plan_node", first)
    graph.add_edge(START, "plan_node")
    return graph.compile()
"""


def test_nodes_have_names_also_in_graphs_behind_a_module_that_only_imports_theirs(
    tmp_path: Path,
) -> None:
    (tmp_path / "behind.py").write_text(BEHIND, encoding="utf-8")
    (tmp_path / "hidden_graphs.py").write_text(HIDDEN, encoding="utf-8")
    rule = "app: {path: [.]}\nagents: {planner: {node: plan_node}}\n"
    turns = "turns: [{user: go, replies: {planner: Gone.}, expect: {agents: [planner]}}]"

    ran = [
        run_app("behind:ask", rule + lines, tmp_path) for lines in (turns, "turns: [{user: stay}]")
    ]

    assert [item.judgement.findings for item in ran] == [(), ()]
