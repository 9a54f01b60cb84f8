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
SILENT = """
turns:
  - user: Where am I?
    replies: {router: {json: {to: coach}}}
"""


def test_an_error_that_nobody_claims_says_which_turns_did_not_run() -> None:
    result = describe_findings(LOST + AFTER + AFTER)

    assert result == text("""
        claim E [turn 1]
        turn 1 ended with error NoRoute: router 'router' chose 'nobody', which is no agent; it answered {"to":"nobody"}; agents: nutrition, coach, analyst, archivist, greeter, counter
        at `user: Where am I?`
        | turns 2 to 3 did not run
        -> If it is meant, claim it: `error: NoRoute`.
    """)


def test_an_error_of_the_last_turn_is_a_finding_too() -> None:
    result = describe_findings(LOST)

    assert result == text("""
        claim E [turn 1]
        turn 1 ended with error NoRoute: router 'router' chose 'nobody', which is no agent; it answered {"to":"nobody"}; agents: nutrition, coach, analyst, archivist, greeter, counter
        at `user: Where am I?`
        -> If it is meant, claim it: `error: NoRoute`.
    """)


def test_after_a_claimed_error_the_conversation_goes_on() -> None:
    assert describe_findings(LOST + "    expect: {error: {type: NoRoute}}" + AFTER) == ""


def test_an_error_that_is_claimed_wrongly_is_reported_once_and_the_conversation_goes_on() -> None:
    result = describe_findings(LOST + "    expect: {error: {type: ReplyMissing}}" + AFTER)

    assert result.split("\n")[:2] == ["claim E [turn 1]", "error does not match"]
    assert "\n\n" not in result


def test_an_error_claimed_for_the_whole_run_must_end_it() -> None:
    value = describe_findings(LOST + "expect: {error: {type: NoRoute}}")
    result = describe_findings(LOST + AFTER + "expect: {error: {type: NoRoute}}")

    assert value == ""
    assert result == text("""
        claim E [turn 2]
        turn 2 did not run: turn 1 ended with error NoRoute
        at `user: And now?`
        -> Claim the error in turn 1, `error: NoRoute`: then the conversation continues. Or remove the turns.
    """)


def test_a_missing_reply_is_one_finding_that_says_which_turns_did_not_run() -> None:
    result = describe_findings(SILENT + AFTER)

    assert result == text("""
        RUN-01 E [turn 1, coach, call 0]
        agent 'coach' made a model call in turn 1, but the scenario has no reply for it (the turn has replies for router).
        Add one under turns[0].replies.coach, or expect another agent to run.
        at `user: Where am I?`
        | RUN-01 script-mismatch: every reply line and every tool result is used, and every model call and tool call has one
        | turn 2 did not run
        -> Remove the unused line or result, move it to the turn that needs it, or add the missing one.
    """)


def test_an_error_does_not_vanish_with_the_lint_that_tells_of_it() -> None:
    result = describe_findings("lints: {RUN-01: too loud}" + SILENT + AFTER)

    assert result == text("""
        claim E [turn 1]
        turn 1 ended with error ReplyMissing: agent 'coach' made a model call in turn 1, but the scenario has no reply for it (the turn has replies for router).
        Add one under turns[0].replies.coach, or expect another agent to run.
        at `user: Where am I?`
        | turn 2 did not run
    """)


def test_turns_that_a_claimed_lint_kept_from_running_are_a_finding() -> None:
    talk = "limits: {agent_runs_per_turn: 1}" + LOST.replace("nobody", "coach")

    value = describe_findings(talk + "    expect: {findings: [FLW-01]}")
    result = describe_findings(talk + "    expect: {findings: [FLW-01]}" + AFTER)

    assert value == ""
    assert result == text("""
        claim E [turn 2]
        turn 2 did not run: turn 1 ended with error LimitExceeded
        at `user: And now?`
        -> Claim the error in turn 1, `error: LimitExceeded`: then the conversation continues. Or remove the turns.
    """)


def test_an_error_is_not_excused_by_a_claim_on_another_lint() -> None:
    talk = "limits: {agent_runs_per_turn: 1, context_tokens: 2}" + LOST.replace("nobody", "coach")

    result = describe_findings(talk + "    expect: {findings: [CTX-10]}")

    assert result == text("""
        claim E [turn 1]
        turn 1 ended with error LimitExceeded: limit `agent_runs_per_turn` reached: 1 allowed
        at `user: Where am I?`
        -> If it is meant, claim it: `error: LimitExceeded`.
    """)


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


def test_too_many_turns_do_not_vanish_with_their_lint() -> None:
    result = describe_findings("limits: {turns: 1}\nlints: {FLW-01: meant}\nturns:" + AFTER + AFTER)

    assert result == text("""
        claim E []
        the run ended with error LimitExceeded: limit `turns` reached: 1 allowed
        at `- user: And now?`
        | turn 2 did not run
        -> If it is meant, claim it: `error: LimitExceeded`.
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
