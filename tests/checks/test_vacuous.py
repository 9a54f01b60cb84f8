"""RUN-03: a claim that denies what occurs nowhere proves nothing; the nearest that occurs does."""

# ruff: noqa: E501  what is found stands here as it is said

from __future__ import annotations

import pytest

from simkit.core.errors import SourceError
from tests.checks.judging import HANDOFFS, MEALS, describe_findings, text


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
        "context: {nutrition: {excludes: [{$contains: kcal}]}}",
        "context: {nutrition: {excludes: [{user: pizza}]}}",
        "context: {nutrition: {excludes: [{agent: router}, {role: tool}]}}",
        "context: {nutrition: {excludes: [{section: run}]}}",
        "context: {nutrition: {excludes: [{$contains: [kcal, food]}]}}",
        "context: {nutrition: {excludes: [{$either: [{$contains: sugar}, {$contains: kcal}]}]}}",
        "context: {nutrition: {excludes: [{calls: {$len: 1}}]}}",
        "context: {nutrition: {tokens: {$not: {$gt: 4000}}}}",
        "reply: {$not: {$contains: pizza}}",
        "reply: {$not: null}",
        'reply: {$not: ""}',
        "state: {messages: {$not: []}}",
        "agents: {$not: {$has: coach}}",
        "handoffs: {$not: {$has: {to: analyst}}}",
        "tool_calls: {$not: {$has: {tool: log_meal}}}",
        "events: {$not: {$has: {kind: HandoffMade}}}",
        "tool_calls: {$unique: args.food}",
        "tool_calls: {$unique: {of: {tool: log_meal}, by: [tool, args]}}",
        "tool_calls: {$not: {$unique: {by: args.fodo}}}",
        "state: {messages: {$unique: content}}",
        "handoffs: {$unique: true}",
        "events: {$unique: {of: {kind: LimitReached}, by: limit}}",
        "context: {nutrition: {messages: {$unique: {of: {role: user}}}}}",
    ],
)
def test_a_pattern_that_occurs_somewhere_is_not(claim: str) -> None:
    assert describe_findings(MEALS, claim, warnings=True) == ""


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


@pytest.mark.parametrize(
    "claim",
    [
        "state: {messages: {$not: {$has: [{user: pizza}]}}}",
        "state: {messages: {$each: {$not: {agent: coach, content: pizza}}}}",
    ],
)
def test_a_key_that_some_value_may_have_is_not(claim: str) -> None:
    assert describe_findings(MEALS, claim, warnings=True) == ""


@pytest.mark.parametrize("key", ["asistant", "usr", "agnt"])
def test_a_channel_of_messages_has_the_keys_of_messages(key: str) -> None:
    with pytest.raises(SourceError) as caught:
        describe_findings(
            MEALS, f"state: {{messages: {{$not: {{$has: [{{{key}: {{$contains: pizza}}}}]}}}}}}"
        )

    assert caught.value.what == f"a message has no `{key}`, so this could never match"


def test_the_warning_names_claim_and_pattern() -> None:
    warned = describe_findings(MEALS, """
        context:
          nutrition:
            excludes:
              - {role: tool}
              - {$contains: kcals}
    """, warnings=True)  # fmt: skip

    assert warned == text("""
        RUN-03 W [turn 2]
        context.nutrition.excludes[1]: nothing in the trace matches {$contains: "kcals"}, so its absence proves nothing
        at `{$contains: kcals}`
        | RUN-03 vacuous-claim: the pattern of an `excludes`, `$not` or `$unique` occurs somewhere in the trace or in the given values
        -> Correct the pattern: nothing in this run could match it.
    """)


def test_what_was_given_counts() -> None:
    talk = "given: {state: {messages: [{user: I like sugar}]}}" + MEALS

    assert (
        describe_findings(talk, "context: {nutrition: {excludes: [{user: sugar}]}}", warnings=True)
        == ""
    )


def test_the_scenarios_own_name_does_not_count() -> None:
    talk = "version: 1\nscenario: no sugar\npipeline: p\n" + MEALS

    warned = describe_findings(talk, "reply: {$not: {$contains: sugar}}", warnings=True)

    assert warned.startswith("RUN-03 W [turn 2]")


def test_a_text_that_json_writes_differently_is_found() -> None:
    talk = HANDOFFS.replace("payload: {km: 8}", 'payload: {km: 8, note: "say \\"hi\\"\\nnow"}')

    claim = 'context: {coach: {excludes: [{$contains: "say \\"hi\\"\\nnow"}]}}'

    assert describe_findings(talk, claim, warnings=True) == ""


def test_claims_of_turns_that_did_not_run_are_not_looked_at() -> None:
    talk = """
turns:
  - user: Hi
    replies: {router: {json: {to: nobody}}}
  - user: Hi again
    expect: {reply: {$not: sugar}}
"""

    assert describe_findings(talk, warnings=True) == ""


@pytest.mark.parametrize(
    "claim",
    [
        "context: {nutrition: {messages: {$not: {$has: [{role: tool}]}}}}",
        "context: {nutrition: {messages: {$each: {$not: {role: tool}}}}}",
        "context: {nutrition: {excludes: [{$either: [{$contains: zzz}, {role: tool}]}]}}",
        "context: {nutrition: {sections: {$not: {$has: [run]}}}}",
        "context: {router: {dropped: {$not: {$has: [{by: tool_messages}]}}}}",
        "runs: {nutrition: {messages: {$not: {$has: [{role: tool}]}}}}",
        "reply: {$not: {$not: Nothing more.}}",
    ],
)
def test_what_is_of_its_kind_elsewhere_in_the_run_could_have_been_here(claim: str) -> None:
    assert describe_findings(MEALS, claim) == ""
    assert describe_findings(MEALS, claim, warnings=True) == ""


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
