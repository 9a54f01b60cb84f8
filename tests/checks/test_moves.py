"""Claims on handoffs, state and events: where they hold, and the nearest where they do not."""

# ruff: noqa: E501  what is found stands here as it is said

from __future__ import annotations

import pytest

from tests.checks.golden_findings import assert_findings_are_golden
from tests.checks.judging import FIRST_MEAL, HANDOFFS, MEALS, describe_findings, text


@pytest.mark.parametrize(
    "claim",
    [
        "[{to: analyst, outcome: rejected, reason: {$contains: km}}, {from: coach, to: analyst, type: analysis, mode: transfer, payload: {km: 8}}]",
        "[{outcome: rejected}, {outcome: made}]",
        "{$has: {to: analyst}}",
        "{$has: [{to: analyst, outcome: rejected}, {to: analyst}]}",
        "{$in_order: [{outcome: rejected}, {to: analyst}]}",
        "{$unordered: [{to: analyst}, {outcome: rejected}]}",
        "{$not: {$has: {to: archivist}}}",
        "{$each: {to: analyst, outcome: {$any: true}}}",
        "{$len: 2}",
        "[{$any: true}, {to: analyst, $not: {to: archivist}}]",
        "[{reason: {$contains: km}}, {to: analyst}]",
        "[{to: analyst, $not: {outcome: made}}, {to: analyst}]",
        "[{$either: [{to: analyst}, {to: archivist}]}, {to: analyst}]",
        "{$has: [{to: analyst}, {to: analyst}]}",
        "{$has: [{reason: {$contains: km}}]}",
        "{$in_order: [{to: analyst}, {to: analyst}]}",
        "{$in_order: [{reason: {$contains: km}}, {to: analyst, outcome: made}]}",
        "{$unordered: [{to: analyst}, {to: analyst}]}",
        "{$each: {to: analyst}}",
        "{$all: [{$has: {payload: {$exact: {}}}}, {$len: 2}]}",
    ],
)
def test_handoffs_that_hold_say_nothing(claim: str) -> None:
    assert describe_findings(HANDOFFS, f"handoffs: {claim}") == ""


@pytest.mark.parametrize(
    "claim",
    [
        "[{to: analyst}, {to: analyst}]",
        "[{to: analyst, $not: {to: archivist}}, {to: analyst}]",
    ],
)
def test_a_handoff_that_does_not_say_its_outcome_must_be_made(claim: str) -> None:
    result = describe_findings(HANDOFFS, f"handoffs: {claim}")

    assert result.split("\n")[:2] == ["claim E [turn 1]", "handoffs does not match"]


@pytest.mark.parametrize(
    "claim",
    [
        "{$not: {$has: [{to: analyst, payload: {$exact: {}}}]}}",
        "{$not: {$has: {reason: {$contains: km}}}}",
        "{$each: {$not: {reason: {$contains: km}}}}",
        "{$each: {$not: {payload: {$exact: {}}}}}",
        "{$not: {$in_order: [{payload: {$exact: {}}}, {to: analyst}]}}",
        "{$not: {$unordered: [{to: analyst}, {to: analyst}]}}",
        "{$not: [{to: analyst}, {to: analyst}]}",
        "{$all: [{$not: {$has: {payload: {$exact: {}}}}}]}",
        "{$either: [{$not: {$has: {payload: {$exact: {}}}}}, {$len: 3}]}",
        "[{$not: {reason: {$contains: km}}}, {to: analyst}]",
    ],
)
def test_what_denies_a_handoff_denies_rejected_ones_too(claim: str) -> None:
    result = describe_findings(HANDOFFS, f"handoffs: {claim}")

    assert result.split("\n")[:2] == ["claim E [turn 1]", "handoffs does not match"]


def test_no_handoff_is_said_so() -> None:
    value = describe_findings(MEALS, "handoffs: []")
    result = describe_findings(MEALS, "handoffs: [{to: analyst}]")

    assert value == ""
    assert result == text("""
        claim E [turn 2]
        handoffs does not match
        at `{to: analyst}]`
        [0]: wanted {to: "analyst", outcome: "made"}, found nothing
          note: 1 wanted, 0 found
        | no handoff was requested in turn 2
    """)


def test_state_is_that_of_the_turns_end_before_its_channels_are_cleared() -> None:
    value = describe_findings(
        MEALS,
        """
        state:
          decision: {to: nutrition}
          total: 2
          scratch: {$absent: true}
          messages: {$len: 4}
          messages[-1]: {assistant: Nothing more., agent: nutrition}
    """,
    )
    result = describe_findings(
        MEALS,
        """
        state:
          total: 2
          decision: {to: coach}
          messages[-1]: {assistant: Bye.}
    """,
    )

    assert value == ""
    assert result == text("""
        claim E [turn 2]
        state does not match
        at `coach}`
        decision.to: wanted "coach", found "nutrition"
        "messages[-1]".content: wanted "Bye.", found "Nothing more."
        | channel decision was written in turn 2 by router
        | channel messages was written in turn 2 by the user's message, nutrition
    """)


@pytest.mark.parametrize(
    "claim",
    [
        "{$in_order: [{kind: AgentStarted, agent: router}, {kind: ToolCalled, tool: log_meal}]}",
        "{$has: {kind: AgentStarted, agent: router, handoff: {$absent: true}, group: {$absent: true}}}",
        "{$has: {kind: MessageAdded, message: {user: I ate pizza for lunch}}}",
        "{$not: {$has: {kind: HandoffMade}}}",
    ],
)
def test_events_that_hold_say_nothing(claim: str) -> None:
    assert describe_findings(FIRST_MEAL, f"events: {claim}") == ""


@pytest.mark.golden
def test_the_findings_are_golden() -> None:
    assert_findings_are_golden("moves")
