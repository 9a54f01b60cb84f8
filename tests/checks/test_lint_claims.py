"""What lints saw: claimed, missing, allowed, turned off, or a finding."""

from __future__ import annotations

import pytest

from simkit.checks.findings import Hit
from simkit.checks.lint_claims import HitsByTurn
from tests.checks.judging import as_code, describe_findings, judged

CROWDED = """
limits: {context_tokens: 10}
turns:
  - user: I had soup, bread, an apple and a pear
    replies: {router: {json: {to: nutrition}}, nutrition: Fine.}
    expect:
"""
"""Both agents' contexts are over their budget."""

TWO_TURNS = """
limits: {context_tokens: 10}
turns:
  - user: Hi
    replies: {router: {json: {to: archivist}}, archivist: Hm.}
  - user: I had soup, bread, an apple and a pear
    replies: {router: {json: {to: nutrition}}, nutrition: Fine.}
"""


def test_of_code_a_lint_says_what_to_do_in_the_code() -> None:
    result = describe_findings(CROWDED, "reply: Fine.", edit=as_code)

    assert result.splitlines()[3:5] == [
        "| CTX-10 over-budget: a context stays within its token budget; a warning from 80 % on",
        "-> Trim or summarize the history before the model call, or raise `limits: "
        "{context_tokens: N}`.",
    ]


def test_lints_come_after_the_claims_of_their_turn() -> None:
    _, judgement = judged(TWO_TURNS + "    expect: {reply: x}\nexpect: {reply: y}")

    assert [(finding.id, finding.turn) for finding in judgement.findings] == [
        ("claim", 2), ("CTX-10", 2), ("CTX-10", 2), ("claim", 0),
    ]  # fmt: skip


def test_an_empty_list_of_claims_excuses_nothing() -> None:
    result = describe_findings(CROWDED, "findings: []")

    assert result.count("CTX-10 E") == 2


def test_a_lint_that_is_turned_off_is_no_finding_and_is_listed_with_its_reason() -> None:
    _, judgement = judged("lints: {CTX-10: the limit is old}\n" + CROWDED.strip() + " {}")

    assert judgement.findings == ()
    assert judgement.noted == ()
    assert judgement.lints_off == (("CTX-10", "the limit is old"),)


@pytest.mark.parametrize("place", ["nutrition", "turn 1"])
def test_a_lint_is_turned_off_at_a_place_alone(place: str) -> None:
    _, judgement = judged(f"lints: {{CTX-10: {{{place}: old}}}}\n" + CROWDED.strip() + " {}")

    left = {finding.agent for finding in judgement.findings}
    assert left == ({"router"} if place == "nutrition" else set())
    assert judgement.lints_off == ((f"CTX-10 at {place}", "old"),)


@pytest.mark.parametrize("place", ["nutri", "turn 2", "kitchen", "CTX-1"])
def test_a_place_where_nothing_was_turned_off_is_a_finding(place: str) -> None:
    _, judgement = judged(f"lints: {{CTX-10: {{{place}: old}}}}\n" + CROWDED.strip() + " {}")

    last = judgement.findings[-1]
    assert last.what == f"`CTX-10` was not found at `{place}`, so nothing is turned off there"
    assert last.path == ("lints", "CTX-10", place)
    assert last.context[0].startswith("found: ")


def test_a_warning_fails_nothing() -> None:
    _, judgement = judged(
        "turns:\n  - user: Hi\n    replies: {router: {json: {to: coach}}, coach: Hm.}\n"
        "    expect: {context: {coach: {excludes: [{$contains: pizza}]}}}"
    )

    assert judgement.passed
    assert judgement.exit_code == 0
    assert [(warning.id, warning.severity) for warning in judgement.warnings] == [("RUN-03", "W")]


def test_hits_are_looked_up_by_their_turn() -> None:
    hits = [Hit("RUN-03", "a", 1), Hit("RUN-03", "b", 2), Hit("RUN-03", "c", 0)]

    by_turn = HitsByTurn(hits, ())

    assert [by_turn.scopes_of(hit) for hit in hits] == [[], [], []]
    assert by_turn.all == hits
