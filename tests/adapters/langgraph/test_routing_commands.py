"""Commands that go somewhere: plumbing is a route, control that is passed is a handoff."""

from __future__ import annotations

from importlib.util import find_spec
from textwrap import dedent

import pytest

if find_spec("langgraph") is None:
    pytest.skip("langgraph is not installed", allow_module_level=True)

from simkit.trace import events as e
from tests.adapters.running import check_app, run_app

ROUNDS = 15
"""More than the handoffs and, with two nodes a round, the runs that a turn may have."""
LINES = "".join(
    f"          - {{calls: [look_up: {{word: w{number}}}]}}\n" for number in range(ROUNDS)
)


@pytest.mark.parametrize("name", ["loop", "sending"])
def test_a_loop_of_a_model_and_its_tools_hands_nothing_over_and_reaches_no_limit(
    name: str,
) -> None:
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


def test_messages_that_are_passed_on_beside_the_conversation_are_a_handoff() -> None:
    check_app(
        "langgraph_commands:briefing",
        """
        turns:
          - user: Plan it.
            replies: {brief: Be short., briefed: A plan.}
            expect:
              handoffs: [{from: brief, to: briefed, payload: {brief: [{user: Be short.}]}}]
              context: {briefed: {includes: [{user: Be short.}]}}
        """,
    )


def test_a_scenario_says_that_an_agent_only_routes() -> None:
    routed = dedent(SUPERVISED).replace(
        "[{from: supervisor, to: reader, payload: {next: reader}}]", "[]"
    )

    check_app("langgraph_commands:supervised", "agents: {supervisor: {routes: true}}\n" + routed)
