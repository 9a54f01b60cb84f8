"""Claims on contexts: each on a run where it holds, and on the nearest where it does not."""

from __future__ import annotations

import msgspec
import pytest

from simkit.trace.events import AnyEvent, ContextBuilt
from tests.building import run_yaml
from tests.checks.judging import (
    HANDOFFS,
    MEALS,
    PIPELINE,
    as_code,
    describe_findings,
    judged,
    with_claims,
)


def test_the_agents_that_control_may_be_passed_to_are_claimed_beside_the_tools() -> None:
    assert (
        describe_findings(HANDOFFS, "context: {coach: {tools: [], handoffs: [analyst, archivist]}}")
        == ""
    )

    result = describe_findings(HANDOFFS, "context: {coach: {handoffs: [analyst]}}")

    assert result.splitlines()[1:4] == [
        "context.coach.handoffs does not match",
        "at `[analyst]}}`",
        '[1]: wanted nothing, found "archivist"',
    ]


def test_agents_that_a_tool_does_not_name_are_not_observable() -> None:
    def unnamed(event: AnyEvent) -> list[AnyEvent]:
        if not isinstance(event, ContextBuilt):
            return [event]
        return [msgspec.structs.replace(event, handoffs=None)]

    result = describe_findings(HANDOFFS, "context: {coach: {handoffs: []}}", edit=unnamed)

    assert "context.coach.handoffs is not observable: a tool offered passes control" in result


def test_of_code_the_filter_that_took_a_message_out_is_in_no_recipe() -> None:
    claim = "context: {nutrition: {includes: [{role: tool, content: {$contains: kcal}}]}}"

    result = describe_findings(MEALS, claim, edit=as_code)

    assert result.splitlines()[-1] == (
        "-> Change `tool_messages` that the code applies for 'nutrition', or the claim."
    )


@pytest.mark.parametrize(
    ("message", "difference"),
    [
        ("{assistant: And now?}", 'messages[3].role: wanted "assistant", found "user"'),
        (
            "{assistant: Logged your pasta.}",
            'messages[2].content: wanted "Logged your pasta.", found "Logged your pizza."',
        ),
    ],
)
def test_what_is_said_in_another_role_is_nearer_than_what_is_not_said(
    message: str, difference: str
) -> None:
    result = describe_findings(MEALS, f"context: {{nutrition: {{includes: [{message}]}}}}")

    assert difference in result


def test_a_history_in_one_message_is_nobodys_share() -> None:
    pipeline = PIPELINE.replace("{window: {messages: 2}}", "{as: text, name: older}")
    talk = MEALS.replace(
        "to: nutrition}}\n      nutrition: Nothing", "to: coach}}\n      coach: Nothing"
    )
    claimed = with_claims(talk, "context: {coach: {share: {older: {$gt: 0.2}, user: {$lt: 0.2}}}}")

    _, output = judged(claimed, pipeline=pipeline)
    _, apart = judged(claimed, pipeline=pipeline.replace("as: text, ", ""))

    assert output.findings == ()
    assert [finding.differences[0].at for finding in apart.findings] == ["user"]


RECALLING = """
channels: {items: {reducer: append}, facts: {scope: session}}
agents:
  a:
    context:
      - instructions
      - recall: {tags: [x], max: 1}
      - shared: {from: facts, tokens: 6}
      - current_message
flow: {handoffs: {start: a}}
"""
RECALLED = """
given:
  state:
    items: [{text: Untagged, kind: odd}, {text: Old, tags: [x]}, {text: New, tags: [x]}]
    facts: {rows: [1000, 2000, 3000, 4000]}
turns:
  - user: Hi
    replies: {a: Hello}
    expect:
"""


def recalled(claims: str) -> str:
    """What is found when these claims are made on what a section of items leaves out."""
    ran = run_yaml(RECALLING, f"{RECALLED}      context: {{a: {{{claims}}}}}")
    return "\n".join(
        line for finding in ran.judgement.findings for line in (finding.what, *finding.context)
    )


@pytest.mark.parametrize(
    "claim",
    [
        """left_out: [
            {section: recall, channel: items, text: Untagged, kind: odd, by: tags},
            {section: recall, channel: items, text: Old, by: max},
            {section: shared, channel: facts, path: rows, by: tokens, items: 2},
        ]""",
        "left_out: {$len: 3}",
        "left_out: {$has: [{text: Old}]}",
        "left_out: {$each: {section: {$in: [recall, shared]}}}",
    ],
)
def test_what_sections_left_out_is_claimed_as_a_whole_list(claim: str) -> None:
    assert recalled(claim) == ""


@pytest.mark.parametrize(
    ("agent", "says"),
    [("router", "nothing was left out"), ("nutrition", "4 were left out:")],
)
def test_how_many_messages_were_left_out_is_said(agent: str, says: str) -> None:
    result = describe_findings(MEALS, f"context: {{{agent}: {{dropped: {{$len: 3}}}}}}")

    assert f"| {says}" in result.splitlines()


def test_another_list_of_what_was_left_out_is_told_with_all_that_was() -> None:
    assert (
        recalled("left_out: [{text: Untagged, by: max}]")
        == """\
context.a.left_out does not match
3 were left out:
  [0] recall of channel items, by tags: Untagged
  [1] recall of channel items, by max: Old
  [2] shared of channel facts, by tokens: 2 items at the end of rows"""
    )


def test_a_section_of_items_that_differs_says_how_many_were_left_out() -> None:
    assert (
        recalled("recall: [{$contains: Old}]")
        == """\
context.a.recall does not match
section recall holds 1 message:
  [0] system: - New
left out by tags: 1 of items (session)
left out by max: 1 of items (session)"""
    )


def test_a_text_that_was_left_out_is_told_where_it_is_missed() -> None:
    assert (
        recalled("includes: [{$contains: Untagged}]")
        == """\
context.a.includes[0] matches no message
what it wants is not shown: recall of channel items, by tags: Untagged
the context holds 3 messages:
  [0] system: - New
  [1] system: {"rows":[1000,2000]}
  [2] user (turn 1): Hi"""
    )
