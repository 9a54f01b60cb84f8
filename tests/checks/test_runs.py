"""Claims on runs, replies, calls and how a turn ends: where they hold, and where they do not."""

# ruff: noqa: E501  what is found stands here as it is said

from __future__ import annotations

import pytest
from msgspec.structs import replace

from simkit.trace import events as e
from tests.checks.golden_findings import assert_findings_are_golden
from tests.checks.judging import FIRST_MEAL, MEALS, PARALLEL, describe_findings, text

GREETING = """
turns:
  - user: hello
    replies: {router: {json: {to: [greeter, counter, coach]}}, coach: '{"km": 8}'}
    expect:
"""

LOST = """
turns:
  - user: Where am I?
    replies: {router: {json: {to: nobody}}}
    expect:
"""


def interrupted(event: e.AnyEvent) -> list[e.AnyEvent]:
    """Edits a trace so that its turns end with a question."""
    if isinstance(event, e.TurnFinished):
        where = (event.at, event.session, event.turn, "coach", "r9")
        request = e.TurnInterrupted(*where, question={"sure": "?"})
        return [request, replace(event, waits_for="r9")]
    return [event]


@pytest.mark.parametrize(
    "claims",
    [
        "agents: [router, nutrition]",
        "agents: {$has: nutrition, $len: 2}",
        "agents: {$not: {$has: coach}}",
        "reply: Nothing more.",
        "reply: {$contains: more}",
        "runs: {nutrition: {update: {scratch: x, total: 1}, output: Nothing more., reply: Nothing more.}}",
        "runs: {nutrition: {input: And now?, messages: [{assistant: Nothing more.}]}}",
        "runs: {nutrition: {received: {decision: {to: nutrition}, total: 1, scratch: {$absent: true}}}}",
        "runs: {router: {reply: {to: nutrition}, output: {to: nutrition}}}",
        'runs: {"nutrition[-1]": {reply: Nothing more.}, "nutrition[*]": {input: And now?}}',
        'runs: {"*": {input: And now?}, "*[0]": {received: {total: 1}}}',
        "model_calls: {router: 1, nutrition: 1, coach: 0}",
        "tool_calls: []",
        "error: null",
        "interrupt: null",
    ],
)
def test_a_claim_that_holds_says_nothing(claims: str) -> None:
    assert describe_findings(MEALS, claims) == ""


@pytest.mark.parametrize(
    "claim",
    [
        "agents: [router, [nutrition, coach]]",
        "agents: [router, [coach, nutrition]]",
        "agents: {$in_order: [router, [coach, nutrition]]}",
        "agents: {$not: [router, nutrition, coach]}",
        "agents: {$has: coach}",
        "agents: {$in_order: [router, coach]}",
    ],
)
def test_a_nested_list_is_one_parallel_group_in_any_order(claim: str) -> None:
    assert describe_findings(PARALLEL, claim) == ""


def test_a_reply_of_null_claims_that_nothing_was_replied() -> None:
    value = describe_findings(LOST, "reply: null\nerror: {type: NoRoute}")
    result = describe_findings(MEALS, "reply: null")

    assert value == ""
    assert result == text("""
        claim E [turn 2]
        reply does not match
        at `null`
        .: wanted null, found "Nothing more."
        | the last run with an output is nutrition's
    """)


def test_a_reply_that_is_a_value_is_held_against_the_value() -> None:
    value = describe_findings(GREETING, "reply: {km: 8}")
    result = describe_findings(GREETING, "reply: {km: 9}")

    assert value == ""
    assert result == text("""
        claim E [turn 1]
        reply does not match
        at `9}`
        km: wanted 9, found 8
        | the last run with an output is coach's
    """)


def test_a_function_agent_has_an_output() -> None:
    value = describe_findings(
        GREETING, "runs: {counter: {output: 3, update: {messages: {$len: 1}}}}"
    )
    result = describe_findings(GREETING, "runs: {counter: {output: 4, update: {total: 1}}}")

    assert value == ""
    assert result == text("""
        claim E [turn 1, counter]
        runs.counter.output does not match
        at `4, update: {total: 1}}}`
        .: wanted 4, found 3

        claim E [turn 1, counter]
        runs.counter.update does not match
        at `1}}}`
        total: wanted 1, found absent
    """)


def test_tool_calls_are_whole_and_in_order() -> None:
    value = describe_findings(
        FIRST_MEAL,
        "tool_calls: [{agent: nutrition, tool: log_meal, args: {food: pizza}, result: {kcal: 800}, error: null}]",
    )
    result = describe_findings(FIRST_MEAL, "tool_calls: [{tool: log_meal, args: {food: pasta}}]")

    assert value == ""
    assert result == text("""
        claim E [turn 1]
        tool_calls does not match
        at `pasta}}]`
        [0].args.food: wanted "pasta", found "pizza"
        | tools called in turn 1:
        |   [0] log_meal by nutrition
    """)


def test_an_error_is_compared_field_by_field() -> None:
    value = describe_findings(
        LOST, "error: {type: NoRoute, message: {$contains: nobody}, status: {$absent: true}}"
    )
    result = describe_findings(LOST, "error: {type: ReplyMissing}")

    assert value == ""
    assert result == text("""
        claim E [turn 1]
        error does not match
        at `ReplyMissing}`
        type: wanted "ReplyMissing", found "NoRoute"
        | the turn ended with error NoRoute: router 'router' chose 'nobody', which is no agent; it answered {"to":"nobody"}; agents: nutrition, coach, analyst, archivist, greeter, counter
    """)


def test_an_interrupt_is_the_question_that_the_turn_ends_with() -> None:
    value = describe_findings(MEALS, "interrupt: {sure: '?'}\nstate: {total: 2}", edit=interrupted)
    result = describe_findings(MEALS, "interrupt: {sure: '!'}", edit=interrupted)
    missed = describe_findings(MEALS, "interrupt: {sure: '?'}")

    assert value == ""
    assert result == text("""
        claim E [turn 2]
        interrupt does not match
        at `'!'}`
        sure: wanted "!", found "?"
    """)
    assert missed == text("""
        claim E [turn 2]
        interrupt does not match
        at `{sure: '?'}`
        .: wanted {sure: "?"}, found null
        | nothing was asked in turn 2
    """)


@pytest.mark.golden
def test_the_findings_are_golden() -> None:
    assert_findings_are_golden("runs")
