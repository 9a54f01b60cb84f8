"""Claims on handoffs, state and events: where they hold, and where they, or all of it, are not."""

from __future__ import annotations

import pytest

from tests.checks.judging import HANDOFFS, MEALS, describe_findings


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


@pytest.mark.parametrize(
    "claim",
    [
        "error: {$any: true}",
        "interrupt: {$any: true}",
        "tool_calls: {$any: true}",
        "handoffs: {$not: {$absent: true}}",
        "reply: {$absent: true}",
        "runs: {nutrition: {output: {$absent: true}}}",
        "runs: {nutrition: {update: {$absent: true}}}",
        "context: {nutrition: {tools: {$absent: true}}}",
        "context: {nutrition: {share: {run: {$gt: 0.1}}}}",
        "context: {nutrition: {share: {history: {$lt: 0.1}}}}",
    ],
)
def test_a_claim_that_something_is_there_fails_where_nothing_is(claim: str) -> None:
    assert claim.split(":")[0] in describe_findings(MEALS, claim)


@pytest.mark.parametrize(
    "claim",
    [
        "reply: {$not: {$has: [x]}}",
        "reply: {$not: [x]}",
        "reply: {$not: {$type: list}}",
        "reply: {$not: {$gt: 3}}",
        "interrupt: {$not: {$contains: pizza}}",
        "interrupt: {$not: {to: nutrition}}",
        "error: {$not: {type: nutrition}}",
        "state: {decision: {$not: {$has: [x]}}}",
        "runs: {nutrition: {output: {$not: {$has: [x]}}}}",
        "runs: {nutrition: {input: {$not: {$keys: [a]}}}}",
        "context: {nutrition: {settings: {$not: {to: nutrition}}}}",
    ],
)
def test_a_denial_of_a_shape_that_no_value_had_proves_nothing(claim: str) -> None:
    assert describe_findings(MEALS, claim) == ""
    assert "no value of this claim in the trace could match" in describe_findings(
        MEALS, claim, warnings=True
    )
