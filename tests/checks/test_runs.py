"""Claims on runs, replies, calls and how a turn ends: where they hold, and where they do not."""

# ruff: noqa: E501  what is found stands here as it is said

from __future__ import annotations

import pytest
from msgspec.structs import replace

from simkit.trace import events as e
from tests.checks.judging import FIRST_MEAL, HANDOFFS, MEALS, PARALLEL, describe_findings, text

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


def test_agents_that_ran_in_another_order_are_shown() -> None:
    result = describe_findings(MEALS, "agents: [nutrition, router]")

    assert result == text("""
        claim E [turn 2]
        agents does not match
        at `nutrition, router]`
        [0]: wanted "nutrition", found "router"
        [1]: wanted "router", found "nutrition"
        | agents that ran in turn 2: router, nutrition
    """)


def test_a_parallel_group_claimed_one_by_one_is_explained() -> None:
    result = describe_findings(PARALLEL, "agents: [router, nutrition, coach]")

    assert result == text("""
        claim E [turn 1]
        agents does not match
        at `nutrition, coach]`
        [1]: wanted "nutrition", found ["nutrition", "coach"]
        [2]: wanted "coach", found nothing
          note: 3 wanted, 2 found
        | agents that ran in turn 1: router, [nutrition, coach]
        -> A nested list is one parallel group, `[router, [a, b]]`; a flat one is one by one.
    """)


def test_agents_one_by_one_claimed_as_a_group_are_explained() -> None:
    result = describe_findings(MEALS, "agents: [[router, nutrition]]")

    assert result == text("""
        claim E [turn 2]
        agents does not match
        at `[router, nutrition]]`
        [0]: wanted the group ["router", "nutrition"], found "router"
        [1]: wanted nothing, found "nutrition"
          note: 1 wanted, 2 found
        | agents that ran in turn 2: router, nutrition
        -> A nested list is one parallel group, `[router, [a, b]]`; a flat one is one by one.
    """)


def test_of_a_group_the_missing_agent_is_named() -> None:
    result = describe_findings(PARALLEL, "agents: [router, [nutrition, analyst]]")

    assert result == text("""
        claim E [turn 1]
        agents does not match
        at `analyst]]`
        [1]: wanted "analyst", found nothing
        [1][1]: wanted nothing, found "coach"
        | agents that ran in turn 1: router, [nutrition, coach]
    """)


def test_a_list_of_many_agents_is_cut() -> None:
    turn = "  - user: Again\n    replies: {router: {json: {to: nutrition}}, nutrition: Yes.}\n"

    result = describe_findings(f"turns:\n{turn * 20}expect:\n  agents: {{$has: coach}}")

    assert result == text("""
        claim E []
        agents does not match
        at `coach}`
        .: wanted $has: "coach", found ["router", "nutrition", "router", "nutrition", "router", "nutrition", "router", "nutrition", "router", "nutrition", "ro…
        | agents that ran in the whole run: router, nutrition, router, nutrition, router, nutrition, router, nutrition, router, nutrition, router, nutrition, … (40 in all)
    """)


def test_another_reply_names_the_run_that_made_it() -> None:
    result = describe_findings(MEALS, "reply: {$contains: pizza}")

    assert result == text("""
        claim E [turn 2]
        reply does not match
        at `pizza}`
        .: wanted $contains: "pizza", found "Nothing more."
        | the last run with an output is nutrition's
    """)


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


def test_a_reply_that_an_error_prevented_names_the_error() -> None:
    result = describe_findings(LOST, "reply: Here.\nerror: {type: NoRoute}")

    assert result == text("""
        claim E [turn 1]
        reply does not match
        at `Here.`
        .: wanted "Here.", found null
        | the turn ended with error NoRoute: router 'router' chose 'nobody', which is no agent; it answered {"to":"nobody"}; agents: nutrition, coach, analyst, archivist, greeter, counter
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


def test_what_a_run_got_and_gave_is_compared_part_by_part() -> None:
    result = describe_findings(
        MEALS,
        """
        runs:
          nutrition:
            received: {decision: {to: coach}, scratch: x}
            input: And then?
            output: Something more.
            update: {total: 2}
            reply: Something more.
            messages: []
    """,
    )

    assert result == text("""
        claim E [turn 2, nutrition]
        runs.nutrition.received does not match
        at `coach}, scratch: x}`
        decision.to: wanted "coach", found "nutrition"
        scratch: wanted "x", found absent

        claim E [turn 2, nutrition]
        runs.nutrition.input does not match
        at `And then?`
        .: wanted "And then?", found "And now?"

        claim E [turn 2, nutrition]
        runs.nutrition.output does not match
        at `Something more.`
        .: wanted "Something more.", found "Nothing more."

        claim E [turn 2, nutrition]
        runs.nutrition.update does not match
        at `2}`
        total: wanted 2, found 1

        claim E [turn 2, nutrition]
        runs.nutrition.reply does not match
        at `Something more.`
        .: wanted "Something more.", found "Nothing more."

        claim E [turn 2, nutrition]
        runs.nutrition.messages does not match
        at `[]`
        [0]: wanted nothing, found {assistant: "Nothing more.", agent: "nutrition"}
          note: 0 wanted, 1 found
    """)


def test_a_run_without_an_update_says_why() -> None:
    result = describe_findings(
        HANDOFFS, "runs: {coach: {output: x, update: {messages: {$len: 1}}}}"
    )

    assert result == text("""
        claim E [turn 1, coach]
        runs.coach.output does not match
        at `x, update: {messages: {$len: 1}}}}`
        .: wanted "x", found null
        | the run passed control on, so it has no output and wrote nothing

        claim E [turn 1, coach]
        runs.coach.update does not match
        at `1}}}}`
        messages: wanted $len: 1, found absent
        | the run passed control on, so it has no output and wrote nothing
    """)


def test_a_rule_that_stood_in_is_named() -> None:
    result = describe_findings(GREETING, "runs: {greeter: {update: {total: 4}}}")

    assert result == text("""
        claim E [turn 1, greeter]
        runs.greeter.update does not match
        at `4}}}`
        total: wanted 4, found 5
        | a `before` rule stood in for the model: no call was made, `after` was skipped
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


def test_a_run_that_was_not_made_is_reported_with_those_that_were() -> None:
    result = describe_findings(MEALS, 'runs: {coach: {output: x}, "nutrition[1]": {output: x}}')

    assert result == text("""
        claim E [turn 2, coach]
        agent 'coach' did not run in turn 2; those that did: router, nutrition
        at `{output: x}, "nutrition[1]": {output: x}}`

        claim E [turn 2, nutrition]
        agent 'nutrition' ran once in turn 2, so there is no [1]: the only one is [0]
        at `{output: x}}`
    """)


def test_a_star_stands_for_every_run() -> None:
    result = describe_findings(
        MEALS, 'runs: {"*": {reply: {$contains: more}}, "*[1]": {output: x}}'
    )

    assert result == text(r"""
        claim E [turn 2, router]
        runs.router[0].reply does not match
        at `more}}, "*[1]": {output: x}}`
        .: wanted $contains: "more", found "{\"to\":\"nutrition\"}"

        claim E [turn 2]
        no agent has a run [1] in turn 2: the first is [0], and nobody has more than 1
        at `{output: x}}`
    """)


def test_the_last_run_of_every_agent_is_named_by_its_place() -> None:
    talk = GREETING.replace("[greeter, counter, coach]", "[counter, counter, coach]")

    result = describe_findings(talk, 'runs: {"*[-1]": {output: {$type: mapping}}}')

    assert result == text("""
        claim E [turn 1, counter]
        runs.counter[1].output does not match
        at `mapping}}}`
        .: wanted $type: "mapping", found 3
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


def test_a_tool_that_was_not_called_is_said_so() -> None:
    result = describe_findings(MEALS, "tool_calls: [{tool: log_meal}]")

    assert result == text("""
        claim E [turn 2]
        tool_calls does not match
        at `{tool: log_meal}]`
        [0]: wanted {tool: "log_meal"}, found nothing
          note: 1 wanted, 0 found
        | no tool was called in turn 2
    """)


def test_model_calls_are_counted() -> None:
    result = describe_findings(FIRST_MEAL, "model_calls: {nutrition: 0, coach: 1}")

    assert result == text("""
        claim E [turn 1, nutrition]
        agent 'nutrition' made 2 model calls in turn 1, wanted 0
        at `0, coach: 1}`
        | model calls in turn 1: router 1, nutrition 2

        claim E [turn 1, coach]
        agent 'coach' made 0 model calls in turn 1, wanted 1
        at `1}`
        | model calls in turn 1: router 1, nutrition 2
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


def test_an_error_that_did_not_come_is_missed() -> None:
    result = describe_findings(MEALS, "error: {type: NoRoute}")

    assert result == text("""
        claim E [turn 2]
        error does not match
        at `{type: NoRoute}`
        .: wanted {type: "NoRoute"}, found null
        | there was no error in turn 2
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
