"""A graph's edges and what its conditional ones choose; writes that take the place of others."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

if find_spec("langgraph") is None:
    pytest.skip("langgraph is not installed", allow_module_level=True)

from importlib.util import find_spec
from textwrap import dedent

import pytest

from simkit.trace import events as e
from tests.adapters.running import check_app, run_app
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


if find_spec("langgraph") is None:
    pytest.skip("langgraph is not installed", allow_module_level=True)


ROUNDS = 15
"""More than the handoffs and, with two nodes a round, the runs that a turn may have."""
LINES = "".join(
    f"          - {{calls: [look_up: {{word: w{number}}}]}}\n" for number in range(ROUNDS)
)


@pytest.mark.parametrize("name", ["loop", "sending"])
def test_a_loop_of_a_model_and_its_tools_hands_nothing_over_and_reaches_no_limit(name: str) -> None:
    ran = check_app(
        f"langgraph_commands:{name}",
        f"turns:\n  - user: Define.\n    replies:\n      think:\n{LINES}          - Done.\n"
        "    expect: {handoffs: [], reply: Done.}\n",
    )

    assert len(ran.turn().runs) == 2 * ROUNDS + 1


@pytest.mark.parametrize("name", ["dug", "called"])
def test_a_conversation_under_any_name_and_reducer_is_handed_to_nobody(name: str) -> None:
    """Its model need not be sent the user's message: nothing passed control to it."""
    ran = check_app(
        f"langgraph_commands:{name}",
        "turns:\n  - user: What are trams?\n    replies:\n      ask: trams\n"
        f"      dig:\n{LINES}          - Cars on rails.\n"
        "    expect: {handoffs: [], reply: Cars on rails.}\n",
    )

    assert [hit.id for hit in ran.judgement.findings] == []


def test_a_loop_that_asks_models_without_end_reaches_the_limit() -> None:
    ran = run_app(
        "langgraph_commands:loop",
        f"limits: {{agent_runs_per_turn: {ROUNDS}}}\n"
        f"turns:\n  - user: Define.\n    replies:\n      think:\n{LINES}          - Done.\n",
    )

    assert [hit.limit for hit in ran.events(e.LimitReached)] == ["agent_runs_per_turn"]


SUPERVISED = """
    turns:
      - user: Read, then write.
        replies:
          supervisor: [read, write, done]
          reader: I have read.
          writer: I have written.
        expect:
          agents: [supervisor, reader, supervisor, writer, supervisor]
          handoffs: [{from: supervisor, to: reader, payload: {next: reader}}]
          context: {writer: {includes: [{user: I have read.}]}}
"""


def test_control_goes_to_an_agent_with_a_conversation_of_its_own_by_a_handoff() -> None:
    ran = check_app("langgraph_commands:supervised", SUPERVISED)

    assert [(event.agent, event.targets) for event in ran.events(e.RouteChosen)] == [
        ("reader", ("supervisor",)), ("supervisor", ("writer",)), ("writer", ("supervisor",)),
    ]  # fmt: skip


def test_a_scenario_says_that_an_agent_only_routes() -> None:
    routed = dedent(SUPERVISED).replace(
        "[{from: supervisor, to: reader, payload: {next: reader}}]", "[]"
    )

    check_app("langgraph_commands:supervised", "agents: {supervisor: {routes: true}}\n" + routed)
