"""Which calls and runs a claim is of: a denial of every one, an affirmation of the first."""

# ruff: noqa: E501  what is found stands here as it is said

from __future__ import annotations

from typing import Any

import pytest

from simkit.core.errors import SourceError
from simkit.report.contexts import context_lines
from simkit.session.simulate import run
from simkit.spec.scenario.claims import malformed, selected
from simkit.trace.views import view_of
from tests.building import prepared
from tests.checks.judging import FIRST_MEAL, PIPELINE, WHOLE, describe_findings, with_claims

TOOL = "{role: tool}"


def whole(claims: str) -> str:
    """What is found of claims on the whole run."""
    return describe_findings(f"{WHOLE}  {claims}")


def first(key: str, claim: str) -> str:
    """What is found of a claim on the contexts of the first turn."""
    return describe_findings(FIRST_MEAL, f'context: {{"{key}": {{{claim}}}}}')


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

    assert "is checked in the first of 2 model calls of 'nutrition' in turn 1; " in result
    assert "`nutrition[1]` would match" in result
    for key in ("nutrition[1]", "nutrition[-1]", "nutrition[any]", "nutrition[run 0][1]"):
        assert first(key, claim) == ""
    for key in ("nutrition[*]", "*", "nutrition[run 0]", "nutrition[run 0][*]"):
        assert first(key, claim)
    with pytest.raises(SourceError) as refused:
        whole(f"context: {{nutrition: {{{claim}}}}}")
    text = "needs one matching model call: for the whole run, say which of `nutrition`"
    assert text in str(refused.value)
    assert "`nutrition[any]` some one, `nutrition[run 1][0]`" in str(refused.value)


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
    with pytest.raises(
        SourceError, match="needs one matching run: for the whole run, say which of `nutrition`"
    ):
        whole(f"runs: {{nutrition: {{{claim}}}}}")
    assert whole(f'runs: {{"nutrition[1]": {{{claim}}}}}')


def test_a_run_of_runs_is_refused() -> None:
    with pytest.raises(SourceError, match=r"runs are named by their place alone: `nutrition\[1\]`"):
        whole('runs: {"nutrition[run 1]": {reply: x}}')


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


def test_contexts_are_shown_as_claims_count_them() -> None:
    claims = "context: {nutrition: {run: {$not: {$has: x}}, messages: {$len: 2}}}"
    ready = prepared(PIPELINE, with_claims(FIRST_MEAL, claims))
    view = view_of(run(ready).events)

    lines = list(context_lines(view, 1, "nutrition"))

    assert [line for line in lines if line.startswith("turn")] == [
        "turn 1, nutrition, call 1 of 2 (in claims `nutrition[0]`), at 0 ms: 2 messages, 13 tokens, 1 dropped",
        "turn 1, nutrition, call 2 of 2 (in claims `nutrition[1]`), at 0 ms: 4 messages, 22 tokens, 1 dropped",
    ]
