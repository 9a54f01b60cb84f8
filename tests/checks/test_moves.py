"""Claims on handoffs, state and events: where they hold, and the nearest where they do not."""

from __future__ import annotations

import pytest

from tests.checks.golden_findings import assert_findings_are_golden
from tests.checks.judging import HANDOFFS, describe_findings


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


@pytest.mark.golden
def test_the_findings_are_golden() -> None:
    assert_findings_are_golden("moves")
