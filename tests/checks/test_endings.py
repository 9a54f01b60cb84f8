"""How a run ends where nobody claims it: an error, and the turns after it that did not run."""

# ruff: noqa: E501  what is found stands here as it is said

from __future__ import annotations

from simkit.checks.judge import judge
from simkit.runtime.functions import function_named
from simkit.session.simulate import run
from simkit.trace import events as e
from simkit.trace.store import Trace
from tests.building import prepared
from tests.checks.judging import PIPELINE, describe_findings, judged, text

AFTER = """
  - user: And now?
    replies: {router: {json: {to: coach}}, coach: Run.}
    expect: {reply: Run.}
"""
LOST = """
turns:
  - user: Where am I?
    replies: {router: {json: {to: nobody}}}
"""


def test_an_error_that_is_claimed_wrongly_is_reported_once_and_the_conversation_goes_on() -> None:
    result = describe_findings(LOST + "    expect: {error: {type: ReplyMissing}}" + AFTER)

    assert result.split("\n")[:2] == ["claim E [turn 1]", "error does not match"]
    assert "\n\n" not in result


def test_too_many_turns_are_reported_with_those_that_did_not_run() -> None:
    result = describe_findings("limits: {turns: 1}" + LOST.replace("nobody", "[]") + AFTER)
    limited = describe_findings("limits: {turns: 1}\nturns:" + AFTER + AFTER)

    assert "turn 2 did not run" in result
    assert limited == text("""
        FLW-01 E [turn 1]
        limit `turns` was reached: 1 allowed
        at `user: And now?`
        | FLW-01 limit-reached: turns, runs, handoffs, calls and virtual time stay within their limits
        | turn 2 did not run
        -> Stop the loop, or raise the limit under `limits`.
    """)


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
    claims = {
        "reply: Run.": 0,
        "reply: Stop.": 1,
        "satisfies: nowhere.at_all:check": 2,
    }

    codes = [
        judged(f"turns:{AFTER.replace('reply: Run.', claim)}")[1].exit_code for claim in claims
    ]

    assert codes == list(claims.values())
