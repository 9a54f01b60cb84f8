"""What lints saw, and how a run ends: claimed, missing, allowed, turned off, or a finding."""

from __future__ import annotations

import pytest

from simkit.checks.findings import Hit
from simkit.checks.judge import judge
from simkit.checks.unclaimed import HitsByTurn
from simkit.runtime.functions import function_named
from simkit.session.simulate import run
from simkit.trace import events as e
from simkit.trace.store import Trace
from tests.building import prepared
from tests.checks.judging import PIPELINE, judged

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


def test_claims_and_lints_are_in_the_order_of_the_run() -> None:
    _, judgement = judged(TWO_TURNS + "    expect: {reply: x}\nexpect: {reply: y}")

    assert [(finding.id, finding.turn) for finding in judgement.findings] == [
        ("CTX-10", 2), ("CTX-10", 2), ("claim", 2), ("claim", 0),
    ]  # fmt: skip


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


AFTER = """
  - user: And now?
    replies: {router: {json: {to: coach}}, coach: Run.}
    expect: {reply: Run.}
"""


def test_a_stored_trace_of_another_scenario_is_not_judged_in_silence() -> None:
    short, long = (prepared(PIPELINE, f"turns:{AFTER * times}") for times in (1, 2))
    trace = run(long)

    judgement = judge(short.scenario, short.document, trace, function_named).judgement

    assert [finding.what for finding in judgement.findings] == [
        "the trace has 2 turns, the scenario 1"
    ]


def test_a_trace_that_is_cut_short_is_not_judged_in_silence() -> None:
    ready = prepared(PIPELINE, f"turns:{AFTER}")
    cut = Trace()
    for event in run(ready).events:
        if not isinstance(event, (e.TurnFinished, e.RunFinished)):
            cut.emit(event)

    judgement = judge(ready.scenario, ready.document, cut, function_named).judgement

    assert "turn 1 did not finish: the trace ends in it" in [
        finding.what for finding in judgement.findings
    ]


def test_a_trace_without_turns_says_so() -> None:
    ready = prepared(PIPELINE, f"turns:{AFTER}{AFTER}")
    empty = Trace()
    empty.emit(run(ready).events[0])

    judgement = judge(ready.scenario, ready.document, empty, function_named).judgement

    assert [(finding.what, finding.turn) for finding in judgement.findings] == [
        ("turns 1 to 2 did not run: the trace ends before", 1)
    ]


def test_the_exit_code_is_2_only_where_the_scenario_is_at_fault() -> None:
    claims = {"reply: Run.": 0, "reply: Stop.": 1, "satisfies: nowhere.at_all:check": 2}

    codes = [
        judged(f"turns:{AFTER.replace('reply: Run.', claim)}")[1].exit_code for claim in claims
    ]

    assert codes == list(claims.values())
