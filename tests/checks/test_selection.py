"""Which calls and runs a claim is of: a denial of every one, an affirmation of the first."""

# ruff: noqa: E501  what is found stands here as it is said

from __future__ import annotations

from typing import Any

import pytest

from simkit.checks.contexts import claims_unheld_elsewhere
from simkit.core.errors import SourceError
from simkit.report.contexts import context_lines
from simkit.session.simulate import run
from simkit.spec.scenario.claims import malformed, selected
from simkit.trace.views import view_of
from tests.building import prepared
from tests.checks.judging import (
    FIRST_MEAL,
    HANDOFFS,
    MEALS,
    PIPELINE,
    describe_findings,
    text,
    with_claims,
)

TALK = f"{MEALS.rstrip().removesuffix('expect:').rstrip()}\nexpect:\n"
"""Two turns of `nutrition`: two calls, the second after a tool result; then one."""
TOOL = "{role: tool}"


def whole(claims: str) -> str:
    """What is found of claims on the whole run."""
    return describe_findings(f"{TALK}  {claims}")


def first(key: str, claim: str) -> str:
    """What is found of a claim on the contexts of the first turn."""
    return describe_findings(FIRST_MEAL, f'context: {{"{key}": {{{claim}}}}}')


def test_what_is_excluded_is_in_no_call_of_the_turn() -> None:
    assert first("nutrition", f"excludes: [{TOOL}]") == text("""
        claim E [turn 1, nutrition, call 1]
        context.nutrition.excludes[0] matches a message
        at `{role: tool}]}}`
        | section run shows tool log_meal of nutrition (turn 1): {"kcal":800}
        | it denies or bounds, so it is of all 2 model calls of 'nutrition' in turn 1; it does not hold of `nutrition[1]`
        -> It is the run's own message: correct its tools or handoffs, or the claim.
    """)


def test_what_is_excluded_is_in_no_call_of_the_whole_run() -> None:
    result = whole("context: {nutrition: {excludes: [And now?]}}")

    assert "it does not hold of `nutrition[2]`" in result
    assert "of all 3 model calls of 'nutrition' in the whole run" in result
    assert result.startswith("claim E [turn 2, nutrition, call 0]")


@pytest.mark.parametrize(
    "claim",
    [
        "run: []",
        "run: {$absent: true}",
        "run: {$len: 0}",
        "run: {$not: {$has: {role: tool}}}",
        "run: {$each: {$not: {role: tool}}}",
        "run: {$all: [{$not: {$has: {role: tool}}}]}",
        "run: {$either: [{$len: 0}, {$has: x}]}",
        "run: {$not: {$not: {$len: 0}}}",
        "sections: {$not: {$has: run}}",
        "messages: {$not: {$has: {role: tool}}}",
        "messages: {$len: {$lt: 4}}",
        "tokens: {$lt: 15}",
        "share: {user: {$gt: 0.4}}",
        "excludes: [{role: tool}]",
    ],
)
def test_a_denial_is_of_every_call_however_it_is_written(claim: str) -> None:
    result = first("nutrition", claim)

    assert "[turn 1, nutrition, call 1]" in result
    assert "does not hold of `nutrition[1]`" in result
    assert first("nutrition[0]", claim) == ""
    assert first("nutrition[run 0]", claim)
    assert first("nutrition[run 0][0]", claim) == ""
    assert whole(f"context: {{nutrition: {{{claim}}}}}")


@pytest.mark.parametrize(
    "claim",
    [
        "includes: [{role: tool}]",
        "run: {$has: {role: tool}}",
        "run: {$any: true}",
        "run: {$len: 2}",
        "run: [{assistant: ''}, {role: tool}]",
        "sections: {$has: run}",
        "messages: {$len: {$gte: 4}}",
    ],
)
def test_an_affirmation_is_of_the_first_call_and_says_of_which_it_holds(claim: str) -> None:
    result = first("nutrition", claim)

    assert "it affirms, so it is of the first of 2 model calls of 'nutrition' in turn 1; " in result
    assert "it holds of `nutrition[1]`" in result
    for key in ("nutrition[1]", "nutrition[-1]", "nutrition[any]", "nutrition[run 0][1]"):
        assert first(key, claim) == ""
    for key in ("nutrition[*]", "*", "nutrition[run 0]", "nutrition[run 0][*]"):
        assert first(key, claim)
    with pytest.raises(SourceError) as refused:
        whole(f"context: {{nutrition: {{{claim}}}}}")
    assert "so that a claim on the whole run must name the model call of `nutrition`" in str(
        refused.value
    )
    assert "`nutrition[any]` some one, `nutrition[run 1][0]`" in str(refused.value)


def test_what_a_claim_denies_beside_what_it_affirms_is_of_every_call() -> None:
    claim = "messages: {$has: {user: I ate pizza for lunch}, $not: {$has: {role: tool}}}"

    result = first("nutrition", claim)

    assert "what it denies is of all 2 model calls of 'nutrition' in turn 1" in result
    assert "[turn 1, nutrition, call 1]" in result


def test_calls_are_named_by_the_run_that_made_them() -> None:
    assert whole('context: {"nutrition[run 1][0]": {includes: [And now?]}}') == ""
    assert (
        whole('context: {"nutrition[run 1]": {includes: [And now?], excludes: [{role: tool}]}}')
        == ""
    )
    assert whole('context: {"nutrition[run -1][-1]": {includes: [And now?]}}') == ""
    assert whole('context: {"nutrition[run 0][1]": {includes: [{role: tool}]}}') == ""
    assert "ran twice" not in whole('context: {"nutrition[run 2]": {tokens: 1}}')
    assert "agent 'nutrition' ran 2 times in the whole run, so there is no [2]" in whole(
        'context: {"nutrition[run 2]": {tokens: 1}}'
    )
    assert "made 1 model call in its run [1] in the whole run, so there is no [1]" in whole(
        'context: {"nutrition[run 1][1]": {tokens: 1}}'
    )


def test_some_call_holds_all_that_is_claimed_of_it() -> None:
    assert (
        whole('context: {"nutrition[any]": {includes: [And now?], excludes: [{role: tool}]}}') == ""
    )

    result = whole('context: {"nutrition[any]": {includes: [And now?, {role: tool}]}}')

    assert (
        "no one of 3 model calls of 'nutrition' satisfies all claims; nearest is `nutrition[1]`"
        in result
    )


def test_every_agent_is_held_against_each_form() -> None:
    assert first("*", "includes: [{user: I ate pizza for lunch}]") == ""
    assert first("*[0]", f"excludes: [{TOOL}]") == ""
    assert first("*", f"excludes: [{TOOL}]")
    assert "router" in first("*[any]", f"includes: [{TOOL}]")
    assert first("*[run 0][-1]", f"excludes: [{TOOL}]")


@pytest.mark.parametrize(
    "claim",
    [
        "received: {messages: {$len: 1}}",
        "reply: Logged your pizza.",
        "messages: {$has: {role: tool}}",
    ],
)
def test_runs_are_named_as_calls_are(claim: str) -> None:
    assert whole(f'runs: {{"nutrition[0]": {{{claim}}}}}') == ""
    assert whole(f'runs: {{"nutrition[any]": {{{claim}}}}}') == ""
    assert whole(f'runs: {{"nutrition[*]": {{{claim}}}}}')
    with pytest.raises(SourceError, match="must name the run of `nutrition`"):
        whole(f"runs: {{nutrition: {{{claim}}}}}")
    assert whole(f'runs: {{"nutrition[1]": {{{claim}}}}}')


@pytest.mark.parametrize(
    "claim",
    [
        "messages: {$not: {$has: {role: tool}}}",
        "received: {messages: {$len: {$lt: 2}}}",
        "update: {total: {$absent: true}}",
        "reply: {$not: {$contains: Nothing}}",
    ],
)
def test_what_runs_deny_is_of_every_run(claim: str) -> None:
    result = whole(f"runs: {{nutrition: {{{claim}}}}}")

    assert (
        "of all 2 runs of 'nutrition' in the whole run; it does not hold of `nutrition[" in result
    )


def test_a_run_of_runs_is_refused() -> None:
    with pytest.raises(SourceError, match=r"runs are named by their place alone: `nutrition\[1\]`"):
        whole('runs: {"nutrition[run 1]": {reply: x}}')


def test_a_section_that_made_no_message_is_absent() -> None:
    assert (
        describe_findings(
            MEALS, "context: {nutrition: {run: {$absent: true}, history: {$any: true}}}"
        )
        == ""
    )
    assert describe_findings(MEALS, "context: {nutrition: {history: {$absent: true}}}")
    assert describe_findings(MEALS, "context: {nutrition: {run: {$any: true}}}")


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("a", ("a", None, "")),
        ("a[2]", ("a", None, "2")),
        ("a[-1]", ("a", None, "-1")),
        ("a[*]", ("a", None, "*")),
        ("a[any]", ("a", None, "any")),
        ("a[run 1]", ("a", 1, "")),
        ("a[run -1][*]", ("a", -1, "*")),
        ("*", ("*", None, "*")),
        ("*[0]", ("*", None, "0")),
        ("*[run 0]", ("*", 0, "")),
    ],
)
def test_a_key_names_calls(key: str, expected: Any) -> None:
    assert tuple(selected(key)) == expected
    assert malformed(key) is None


@pytest.mark.parametrize("key", ["a[last]", "a[run x]", "a[0][run 1]", "a[]", "a[1][2]"])
def test_a_key_in_no_form_that_there_is_has_its_brackets_told(key: str) -> None:
    assert malformed(key) is not None


def test_contexts_are_shown_as_claims_count_them_with_what_would_not_hold() -> None:
    claims = "context: {nutrition: {run: {$not: {$has: x}}, messages: {$len: 2}}}"
    ready = prepared(PIPELINE, with_claims(FIRST_MEAL, claims))
    view = view_of(run(ready).events)
    unheld = claims_unheld_elsewhere(ready.scenario, ready.document, view)

    lines = list(context_lines(view, 1, "nutrition", unheld=unheld))

    assert [line for line in lines if line.startswith("turn") or "claim" in line] == [
        "turn 1, nutrition[0] of 2 calls, at 0 ms: 2 messages, 13 tokens, 1 dropped",
        "turn 1, nutrition[1] of 2 calls, at 0 ms: 4 messages, 22 tokens, 1 dropped",
        "  claim context.nutrition.messages is of `nutrition[0]`; it would not hold here",
    ]


def test_a_run_that_goes_on_after_a_handoff_is_one_run() -> None:
    assert describe_findings(HANDOFFS, 'context: {"coach[run 0][1]": {run: {$len: 2}}}') == ""
