"""Whom a flow can start."""

from __future__ import annotations

from typing import Any, Final

import pytest

from simkit.spec.pipeline.agents import members_of, sections_of, startable
from simkit.spec.pipeline.model import Pipeline

ROUTE: Final = "${run.output.to}"
EVERYBODY: Final = {"router", "coach", "analyst", "summarizer", "archivist"}


def pipeline(flow: Any, output: Any = None, **changed: Any) -> Pipeline:
    """A router, a coach with an analyst behind it, a summariser, and nobody's archivist."""
    router = {} if output is None else {"output": output}
    history = {"history": {"window": {"rounds": 1}, "summary": "summarizer"}}
    agents = {
        "router": router,
        "coach": {"handoffs": ["analyst"], "context": ["instructions", history]},
        "analyst": {},
        "summarizer": {},
        "archivist": {},
    }
    data = {"version": 1, "pipeline": "p", "agents": agents, "flow": flow, **changed}
    return Pipeline.model_validate(data)


def routed(output: Any) -> Pipeline:
    """The pipeline with a router whose output says who runs."""
    return pipeline({"router": {"decide": "router", "to": ROUTE}}, output)


def to(schema: Any) -> Any:
    """The schema of an output whose ``to`` has this schema."""
    return {"type": "object", "properties": {"to": schema}}


@pytest.mark.parametrize(
    ("schema", "names"),
    [
        (to({"enum": ["coach"]}), {"router", "coach", "analyst", "summarizer"}),
        (to({"const": "archivist"}), {"router", "archivist", "summarizer"}),
        (to({"items": {"enum": ["archivist"]}}), EVERYBODY - {"coach", "analyst"}),
        (
            to({"anyOf": [{"enum": ["analyst"]}, {"items": {"const": "archivist"}}]}),
            EVERYBODY - {"coach"},
        ),
        (to({"anyOf": [{"enum": ["analyst"]}, {"type": "array"}]}), EVERYBODY),
        (to({"type": "string"}), EVERYBODY),
        ({"type": "object"}, EVERYBODY),
        (None, EVERYBODY),
        ({"$ref": "Route"}, EVERYBODY),
    ],
)
def test_router_starts_what_its_output_may_name(schema: Any, names: set[str]) -> None:
    assert startable(routed(schema)) == names


def test_router_starts_what_a_named_schema_lets_it_name() -> None:
    flow = {"router": {"decide": "router", "to": ROUTE}}

    result = pipeline(flow, {"$ref": "Route"}, schemas={"Route": to({"enum": ["analyst"]})})

    assert startable(result) == {"router", "analyst", "summarizer"}


def test_router_starts_the_agents_that_its_route_names() -> None:
    flow = {"router": {"decide": "router", "to": {"parallel": ["analyst", "archivist"]}}}

    assert startable(pipeline(flow)) == EVERYBODY - {"coach"}


def test_agent_that_starts_a_turn_leads_to_those_it_hands_off_to() -> None:
    assert startable(pipeline({"handoffs": {"start": "coach"}})) == {
        "coach", "analyst", "summarizer",
    }  # fmt: skip


@pytest.mark.parametrize("source", ["coach", "*"])
def test_contract_leads_to_its_target(source: str) -> None:
    contract = {"from": source, "to": "archivist"}

    texts = startable(pipeline({"handoffs": {"start": "coach"}}, contracts=[contract]))

    assert texts == {"coach", "analyst", "summarizer", "archivist"}


def test_anybody_may_start_where_the_state_decides() -> None:
    assert startable(pipeline({"handoffs": {"start": "${state.first}"}})) == EVERYBODY


def test_members_of_a_graph_are_its_nodes_and_the_agents_that_no_node_is() -> None:
    graph = {"nodes": {"ask": {"agent": "router"}, "coach": {}}, "edges": []}

    assert members_of(pipeline({"graph": graph})) == {
        "ask": "router",
        "coach": "coach",
        "analyst": "analyst",
        "summarizer": "summarizer",
        "archivist": "archivist",
    }


def test_a_node_runs_the_agent_that_it_names_though_another_has_its_name() -> None:
    graph = {"nodes": {"coach": {"agent": "router"}, "router": {}}, "edges": []}

    assert members_of(pipeline({"graph": graph}))["coach"] == "router"


def test_sections_are_those_of_the_recipe_and_the_run() -> None:
    result = pipeline({"handoffs": {"start": "coach"}})

    assert sections_of(result, "coach") == ("instructions", "history", "run")
    assert sections_of(result, "summarizer") == (
        "instructions", "handoff", "history", "current_message", "summary", "run",
    )  # fmt: skip
