"""A graph's edges and what its conditional ones choose; writes that take the place of others."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

if find_spec("langgraph") is None:
    pytest.skip("langgraph is not installed", allow_module_level=True)

from simkit.trace import events as e
from tests.adapters.running import run_app
from tests.building import Ran

APP = 'app: {path: [.], input: {text: "${user}"}, output: text}\n'


def ran(name: str, *turns: str) -> Ran:
    text = "".join(f"  - user: {turn}\n" for turn in turns)
    return run_app(f"langgraph_routes:{name}", f"{APP}turns:\n{text}")


def routes(ran: Ran) -> list[tuple[str, tuple[str, ...], tuple[str, ...], bool]]:
    chosen = [event for event in ran.trace.events if isinstance(event, e.RouteChosen)]
    return [(item.agent, item.targets, item.labels, item.parallel) for item in chosen]


@pytest.mark.parametrize(
    ("name", "reply", "route"),
    [
        ("labelled", "go left", ("first", ("left",), ("go left",), False)),
        ("labelled", "go right", ("first", ("right",), ("go right",), False)),
        ("unlabelled", "right", ("first", ("right",), (), False)),
        ("sending", "both", ("first", ("left", "right"), (), True)),
    ],
)
def test_a_conditional_edge_says_where_it_leads_once_its_node_is_over(
    name: str, reply: str, route: tuple[str, tuple[str, ...], tuple[str, ...], bool]
) -> None:
    outcome = ran(name, reply)

    kinds = [type(event) for event in outcome.trace.events]
    before = kinds[: kinds.index(e.RouteChosen)]
    assert routes(outcome) == [route]
    assert before[-1] is e.AgentFinished


def test_a_way_to_the_end_is_no_route() -> None:
    assert routes(ran("labelled", "stop")) == []


def test_judges_know_the_edges_and_where_a_run_begins() -> None:
    labelled, unlabelled = (ran(name, "left").view.pipeline for name in ("labelled", "unlabelled"))

    assert labelled.edges == (("first", "left"), ("first", "right"), ("left", "right"))
    assert unlabelled.edges == (("left", "right"),)
    assert (labelled.starts, unlabelled.starts) == (("first",), ("first",))


def test_an_overwrite_is_a_declared_reset() -> None:
    outcome = ran("resetting", "go", "reset")

    first, second = outcome.view.turns
    update = second.runs[0].update
    assert outcome.judgement.findings == ()
    assert (first.state["log"], first.state["count"]) == (["old"], 2)
    assert (update["log"], update["count"]) == ({"$set": ["new"]}, {"$set": 0})
    assert (second.state["log"], second.state["count"]) == (["new"], 0)


def test_a_reducer_that_keeps_the_newer_value_replaces_and_has_one_from_the_start() -> None:
    outcome = ran("resetting", "go", "reset")

    facts = outcome.view.pipeline.channels
    assert facts["open"] == e.ChannelFacts("replace", "session", False)
    assert facts["names"] == e.ChannelFacts("langgraph_routes:newer_if_any", "session", [])
    assert [turn.runs[0].received["open"] for turn in outcome.view.turns] == [False, True]
    assert [turn.state["open"] for turn in outcome.view.turns] == [True, False]
    assert [turn.state["names"] for turn in outcome.view.turns] == [["Ada"], ["Ada"]]
