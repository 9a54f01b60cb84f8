"""Claims on sections of contexts that code built: its file says which message is of which."""

from __future__ import annotations

from textwrap import indent

import pytest

from simkit.core.messages import Message
from simkit.trace.views.contexts import Naming
from tests.adapters.running import run_app
from tests.building import Ran

TURNS = """
turns:
  - user: I want my money back
    replies:
      triage:
        - calls: [find_order: {customer: Ada}]
        - I have found it.
    tool_results: {find_order: {order_id: A-1042}}
  - user: Thank you
    replies: {triage: You are welcome.}
    expect:
      context:
        triage:
"""
FIRST = """
turns:
  - user: I want my money back
    replies:
      triage:
        - calls: [find_order: {customer: Ada}]
        - I have found it.
    tool_results: {find_order: {order_id: A-1042}}
    expect:
      context:
        triage[1]:
"""


def judged(sections: str, claims: str, turns: str = TURNS) -> Ran:
    head = (
        "app: {path: [.], tools: {find_order: money_desk:find_order}}\n"
        f"agents: {{triage: {{system: {{$starts: You are the triage}}{sections}}}}}\n"
    )
    return run_app("money_desk:Desk", f"{head}{turns}{indent(claims, ' ' * 10)}\n")


def whats(ran: Ran) -> list[str]:
    return [finding.what for finding in ran.judgement.findings]


@pytest.mark.parametrize(
    ("sections", "claims"),
    [
        ("{}", "sections: [instructions, history, current_message]"),
        ("{}", "current_message: [user: Thank you]"),
        ("{}", "instructions: [{system: {$contains: triage}}]"),
        ("{}", "history: [user: I want my money back, assistant: I have found it.]"),
        ("{current_message: {role: user}}", "current_message: [user: Thank you]"),
        (
            "{current_message: {role: user}}",
            "history: [user: I want my money back, assistant: I have found it.]",
        ),
        ("{said: {role: assistant}}", "sections: [instructions, history, said, current_message]"),
        ("{prompt: {role: system}}", "prompt: {$len: 1}"),
        ("{}", "messages: {$has: [{user: Thank you, section: current_message}]}"),
        ("{}", "includes: [{section: history, user: I want my money back}]"),
        ("{}", "excludes: [{section: history, user: Thank you}]"),
    ],
)
def test_a_message_is_of_the_first_section_that_fits(sections: str, claims: str) -> None:
    assert whats(judged(f", sections: {sections}", claims)) == []


def test_what_a_run_heard_after_the_message_leaves_it_the_current_one() -> None:
    for claims in ("current_message: [user: I want my money back]", "history: []"):
        assert whats(judged(", sections: {}", claims, FIRST)) == []


def test_a_user_message_that_the_turn_did_not_bring_is_history() -> None:
    naming = Naming({})
    messages = [
        Message("user", "Hello", id="m1", turn=1),
        Message("user", "Go on", id="m2", turn=1),
    ]

    assert [item.section for item in naming.named(messages, (), 3)] == ["history", "history"]
    assert [item.section for item in naming.named(messages, (), 2)] == [
        "history",
        "current_message",
    ]


def test_what_a_run_says_and_hears_is_of_the_run() -> None:
    claims = "run: [{role: assistant}, {role: tool}]"

    assert whats(judged(", sections: {}", claims, FIRST)) == []


@pytest.mark.parametrize(
    "claims",
    [
        "history: [user: Thank you]",
        "sections: [history]",
        "messages: {$has: [{section: run}]}",
        "messages: {$has: [{user: Thank you, section: history}]}",
    ],
)
def test_a_claim_on_a_named_section_can_fail(claims: str) -> None:
    (subject,) = whats(judged(", sections: {}", claims))

    assert subject == f"context.triage.{claims.partition(':')[0]} does not match"


@pytest.mark.parametrize(
    ("claims", "problem"),
    [
        (
            "includes: [{user: Thank you, section: history}]",
            "context.triage.includes matches no message",
        ),
        ("excludes: [{section: current_message}]", "context.triage.excludes matches a message"),
    ],
)
def test_what_is_included_or_excluded_can_be_of_the_wrong_section(
    claims: str, problem: str
) -> None:
    assert whats(judged(", sections: {}", claims)) == [problem]


@pytest.mark.parametrize(
    ("sections", "claims"),
    [
        ("", "history: {$len: 3}"),
        (", sections: {}", "left_out: []"),
        (", sections: {}", "share: {user: 0.5}"),
    ],
)
def test_what_nobody_has_named_stays_unseen(sections: str, claims: str) -> None:
    (subject,) = whats(judged(sections, claims))

    assert "is not observable by driver 'python'" in subject


@pytest.mark.parametrize(
    ("unwanted", "fix"),
    [
        ("You are the", "Remove it from the instructions of 'triage', or correct the claim."),
        ("money back", "Filter it out of the history of 'triage', or correct the claim."),
    ],
)
def test_where_no_section_is_known_what_must_not_be_there_is_told_by_its_role(
    unwanted: str, fix: str
) -> None:
    (finding,) = judged("", f"excludes: [{{$contains: {unwanted}}}]").judgement.findings

    assert finding.fix == fix
