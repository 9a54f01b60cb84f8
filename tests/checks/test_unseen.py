"""For every kind of claim: a driver that cannot see it yields a finding, and never a pass."""

# ruff: noqa: E501  what is found stands here as it is said

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import fields, replace

from simkit.checks.judge import CHECKS
from simkit.spec.scenario.claim_kinds import ASPECTS, ClaimKind
from simkit.spec.scenario.claims import RUN_CLAIMS, TURN_CLAIMS
from simkit.trace import events as e
from tests.adapters.scribes import Desk, user
from tests.checks.judging import MEALS, describe_findings
from tests.checks.recorded_claims import RECORDED

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
    unseen = {
        field: default_of(kind, field)
        for name, (kind, field) in RECORDED.items()
        if type(event) is kind and RUN_CLAIMS[name].null_needs
    }
    return [replace(event, **unseen)] if unseen else [event]


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


@pytest.mark.parametrize(
    "matcher", ["null", "{$contains: lunch}", "{$not: {$contains: x}}", "{$any: true}"]
)
@pytest.mark.parametrize("name", [name for name, row in RUN_CLAIMS.items() if row.null_needs])
def test_a_value_that_code_did_not_show_is_not_null(name: str, matcher: str) -> None:
    result = describe_findings(MEALS, f"runs: {{nutrition: {{{name}: {matcher}}}}}", edit=with_runs)

    words = ASPECTS[RUN_CLAIMS[name].null_needs].words
    assert (
        f"runs.nutrition.{name} is not observable by driver 'wire', which does not see {words}"
        in result
    )


def hole_in(row: ClaimKind) -> str:
    """Return what lets a claim on a run hold although code never showed its value, if anything."""
    assert row.recorded_in is not None
    assert row.read is not None
    desk = Desk()
    desk.turn("Hello")
    desk.answers(desk.asks([user("Hello")]), "Hi.")
    desk.recorder.end_run(desk.run())
    desk.ends("Hi.")
    kind, field = row.recorded_in
    (event,) = [event for event in desk.trace.events if type(event) is kind]
    (run,) = desk.view.runs.values()
    if getattr(event, field) != default_of(kind, field):
        return ""  # The recorder of code fills it.
    if row.read(run) is not None:
        return f"{kind.__name__}.{field} is recorded by no code, but `read` returns a value"
    return "" if row.null_needs else "`read` returns null, but `null_needs` is empty"


def default_of(kind: type, field: str) -> Any:
    (of_field,) = (each for each in fields(kind) if each.name == field)
    return of_field.default


@pytest.mark.parametrize("name", RECORDED)
def test_the_recorder_of_code_fills_what_a_claim_reads_or_the_claim_is_not_observable(
    name: str,
) -> None:
    assert not hole_in(RUN_CLAIMS[name]), (
        f"`runs: {{a: {{{name}: …}}}}` may hold of code that shows nothing of it: {hole_in(RUN_CLAIMS[name])}. "
        "Record it in simkit/adapters/recorder/trace.py, or let `read` return None and name the "
        "aspect in `null_needs`"
    )


@pytest.mark.parametrize(
    ("row", "hole"),
    [
        (
            ClaimKind(read=lambda run: 0, recorded_in=(e.AgentStarted, "goal")),
            "AgentStarted.goal is recorded by no code, but `read` returns a value",
        ),
        (
            ClaimKind(read=lambda run: run.goal, recorded_in=(e.AgentStarted, "goal")),
            "`read` returns null, but `null_needs` is empty",
        ),
        (ClaimKind(read=lambda run: run.output, recorded_in=(e.AgentFinished, "output")), ""),
    ],
)
def test_a_claim_that_could_hold_falsely_of_code_is_noticed(row: ClaimKind, hole: str) -> None:
    assert hole_in(row) == hole


@pytest.mark.parametrize("matcher", ["[]", "{$len: 0}", "{$not: {$has: [{tool: log_meal}]}}"])
def test_a_tool_that_was_asked_for_and_not_seen_was_not_left_uncalled(matcher: str) -> None:
    result = describe_findings(PIZZA, f"tool_calls: {matcher}", edit=with_runs)

    assert (
        "tool_calls is not observable by driver 'wire', which does not see whether a tool ran that was asked for last"
        in result
    )
