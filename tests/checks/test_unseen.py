"""For every kind of claim: a driver that cannot see it yields a finding, and never a pass."""

# ruff: noqa: E501  what is found stands here as it is said

from __future__ import annotations

import pytest
from msgspec.structs import replace

from simkit.checks.judge import CHECKS
from simkit.spec.scenario.claims import RUN_CLAIMS, TURN_CLAIMS
from simkit.trace import events as e
from tests.checks.judging import MEALS, describe_findings

PIZZA = """
turns:
  - user: I ate pizza for lunch
    replies:
      router: {json: {to: nutrition}}
      nutrition:
        - calls: [log_meal: {food: pizza}]
        - Logged your pizza.
    tool_results: {log_meal: {kcal: 800}}
    expect:
"""
ON_THE_WIRE = {
    "error": "how a model call failed is answered by simkit itself",
    "interrupt": "a question is a reply line of the scenario",
    "reply": "the last thing that a model said",
    "context": "messages, tools, tokens and settings are the request's; sections are tested beside",
    "model_calls": "requests are counted",
    "events": "tested kind by kind",
    "judge": "simkit itself asks",
}
"""Claims that the bare wire shows, and why."""
CLAIMS = {name for name, row in TURN_CLAIMS.items() if row.needs} | {"tool_calls"}
"""Claims that need more: `tool_calls` needs what was asked for last."""


def bare(event: e.AnyEvent) -> list[e.AnyEvent]:
    """Make a trace one of a driver that sees requests and responses alone."""
    if isinstance(event, e.RunStarted):
        facts = replace(event.pipeline, observes=(), channels={}, is_open=True)
        return [replace(event, driver="wire", pipeline=facts)]
    if isinstance(event, (e.ToolCalled, e.ToolReturned, e.ToolFailed, e.StateUpdated)):
        return []
    if isinstance(event, e.AgentStarted):
        return [replace(event, input=None)]
    return [event]


def with_runs(event: e.AnyEvent) -> list[e.AnyEvent]:
    """The same of a driver that sees whose calls are of one run."""
    events = bare(event)
    return [
        replace(item, pipeline=replace(item.pipeline, observes=("runs", "handoffs")))
        if isinstance(item, e.RunStarted)
        else item
        for item in events
    ]


def test_every_claim_is_seen_on_the_wire_or_says_what_it_needs() -> None:
    unsaid = {*CHECKS} - {*ON_THE_WIRE} - CLAIMS - {"runs"}

    assert not unsaid, f"say what a driver must see for {unsaid}: `needs` in its row"
    assert CLAIMS.isdisjoint(ON_THE_WIRE)


@pytest.mark.parametrize("name", sorted(CLAIMS))
def test_what_is_not_seen_is_a_finding_whatever_the_claim_says(name: str) -> None:
    result = describe_findings(PIZZA, f"{name}: {{$any: true}}", edit=bare)

    assert "is not observable by driver 'wire', which does not see" in result
    assert "does not match" not in result


@pytest.mark.parametrize("claim", RUN_CLAIMS)
def test_no_claim_on_a_run_holds_where_runs_are_not_seen(claim: str) -> None:
    result = describe_findings(
        MEALS, f"runs: {{nutrition: {{{claim}: {{$absent: true}}}}}}", edit=bare
    )

    assert f"runs.nutrition.{claim} is not observable" in result


def test_a_turn_in_which_no_tool_was_asked_for_called_none() -> None:
    assert describe_findings(MEALS, "tool_calls: []", edit=with_runs) == ""


@pytest.mark.parametrize("matcher", ["null", "And now?", "{$not: x}", "{$any: true}"])
def test_an_input_that_nobody_saw_is_not_null(matcher: str) -> None:
    result = describe_findings(MEALS, f"runs: {{nutrition: {{input: {matcher}}}}}", edit=with_runs)

    assert (
        "runs.nutrition.input is not observable by driver 'wire', which does not see what the code gave this run"
        in result
    )


@pytest.mark.parametrize(
    "matcher", ["null", "{$contains: lunch}", "{$not: {$contains: x}}", "{$any: true}"]
)
def test_a_goal_that_nobody_told_is_not_null(matcher: str) -> None:
    result = describe_findings(MEALS, f"runs: {{nutrition: {{goal: {matcher}}}}}", edit=with_runs)

    assert (
        "runs.nutrition.goal is not observable by driver 'wire', which does not see for which goal this run works"
        in result
    )


@pytest.mark.parametrize("matcher", ["[]", "{$len: 0}", "{$not: {$has: [{tool: log_meal}]}}"])
def test_a_tool_that_was_asked_for_and_not_seen_was_not_left_uncalled(matcher: str) -> None:
    result = describe_findings(PIZZA, f"tool_calls: {matcher}", edit=with_runs)

    assert (
        "tool_calls is not observable by driver 'wire', which does not see whether a tool ran that was asked for last"
        in result
    )
