"""RUN-03: a claim that denies what occurs nowhere proves nothing; the nearest that occurs does."""

# ruff: noqa: E501  what is found stands here as it is said

from __future__ import annotations

import pytest

from simkit.core.errors import SourceError
from tests.checks.judging import MEALS, describe_findings


@pytest.mark.parametrize(
    "claim",
    [
        "context: {nutrition: {excludes: [{$contains: kcals}]}}",
        "context: {nutrition: {excludes: [{user: Pizza}]}}",
        "context: {nutrition: {excludes: [{agent: coach}]}}",
        "context: {nutrition: {excludes: [{role: tool, agent: router}]}}",
        "context: {nutrition: {excludes: [{$contains: [kcal, sugar]}]}}",
        "context: {nutrition: {excludes: [{$either: [{$contains: sugar}, {$contains: salt}]}]}}",
        "context: {nutrition: {messages: {$not: {$has: {$contains: sugar}}}}}",
        "reply: {$not: {$contains: sugar}}",
        "state: {messages: {$not: {$has: {user: sugar}}}}",
        "runs: {nutrition: {output: {$not: {$contains: sugar}}}}",
        "tool_calls: {$not: {$has: {args: {food: sugar}}}}",
        "handoffs: {$not: {$has: {payload: {food: sugar}}}}",
        "interrupt: {$not: {question: sugar}}",
        "tool_calls: {$unique: {by: args.fodo}}",
        "tool_calls: {$all: [{$unique: {of: {args: {food: sugar}}, by: args}}]}",
        "state: {messages: {$unique: {of: {user: sugar}}}}",
        "runs: {nutrition: {messages: {$unique: {of: {$contains: sugar}}}}}",
    ],
)
def test_a_pattern_that_occurs_nowhere_is_warned_of(claim: str) -> None:
    result = describe_findings(MEALS, claim)
    warned = describe_findings(MEALS, claim, warnings=True)

    assert result == ""
    assert warned.count("RUN-03 W [turn 2]") == 1


@pytest.mark.parametrize(
    "claim",
    [
        "context: {nutrition: {left_out: {$not: {$has: [{chanel: total}]}}}}",
        "context: {nutrition: {left_out: {$not: {$has: {chanel: {$any: true}}}}}}",
        "context: {nutrition: {left_out: {$each: {$not: {chanel: total}}}}}",
        "state: {decision: {$not: {$has: [{too: nutrition}]}}}",
        "state: {messages: {$not: {$has: {calls: {$has: {$exact: {}}}}}}, decision: {$not: {too: nutrition}}}",
    ],
)
def test_a_key_that_no_value_has_is_warned_of(claim: str) -> None:
    assert describe_findings(MEALS, claim) == ""
    assert describe_findings(MEALS, claim, warnings=True).count("RUN-03 W [turn 2]") == 1


@pytest.mark.parametrize("key", ["asistant", "usr", "agnt"])
def test_a_channel_of_messages_has_the_keys_of_messages(key: str) -> None:
    with pytest.raises(SourceError) as caught:
        describe_findings(
            MEALS, f"state: {{messages: {{$not: {{$has: [{{{key}: {{$contains: pizza}}}}]}}}}}}"
        )

    assert caught.value.what == f"a message has no `{key}`, so this could never match"


def test_the_scenarios_own_name_does_not_count() -> None:
    talk = "version: 1\nscenario: no sugar\npipeline: p\n" + MEALS

    warned = describe_findings(talk, "reply: {$not: {$contains: sugar}}", warnings=True)

    assert warned.startswith("RUN-03 W [turn 2]")


@pytest.mark.parametrize(
    "claim",
    [
        "context: {router: {messages: {$not: {$has: {role: user}}}}}",
        "context: {router: {excludes: [{$not: {role: system}}]}}",
        "context: {router: {messages: {$all: [{$len: 99}, {$not: {$has: sugar}}]}}}",
        "reply: {$all: [sugar, {$not: {$contains: salt}}]}",
    ],
)
def test_a_claim_that_fails_has_no_warning_of_its_own(claim: str) -> None:
    assert describe_findings(MEALS, claim) != ""
    assert describe_findings(MEALS, claim, warnings=True) == ""


def test_a_claim_beside_one_that_fails_keeps_its_warning() -> None:
    claim = "reply: sugar\ncontext: {router: {excludes: [{role: user}, {$contains: salt}]}}"

    warned = describe_findings(MEALS, claim, warnings=True)

    assert warned.count("RUN-03 W") == 1
    assert "context.router.excludes[1]: nothing in the trace matches" in warned
