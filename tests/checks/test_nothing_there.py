"""Claims where nothing is there: absent and null are one, and a share is 0; denials say so."""

from __future__ import annotations

import pytest

from tests.checks.golden_findings import assert_findings_are_golden
from tests.checks.judging import MEALS, describe_findings


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


@pytest.mark.golden
def test_the_findings_are_golden() -> None:
    assert_findings_are_golden("nothing_there")
