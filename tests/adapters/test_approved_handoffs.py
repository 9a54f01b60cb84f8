"""A person decides on a handoff, or on a call beside it: pending, then made or rejected."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from simkit.report.table import rows_of
from tests.adapters.running import run_app
from tests.building import Ran, run_yaml

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

TO_DESK = "{triage: {handoff: {to: desk}}}"
QUERY = "{triage: {handoff: {to: desk, query: Help}}}"
TWO_CALLS = "{triage: {calls: [{TOOL: {order: A-1}}, {transfer_to_desk: {}}]}}"
TWO_TOOLS = (
    "{triage: {calls: [{pay: {order: A-1}}, {transfer_to_desk: {query: Help}}]}, desk: Yes.}"
)
APPROVE = "{decisions: [{type: approve}]}"
REJECT = "{decisions: [{type: reject, message: No.}]}"
EDIT = "{decisions: [{type: edit, edited_action: {name: NAME, args: ARGS}}]}"
TO_BILLING = EDIT.replace("NAME", "transfer_to_billing").replace("ARGS", "{}")
ANOTHER = EDIT.replace("NAME", "refund").replace("ARGS", "{order: B-2}")
TO_TRIAGE = "{desk: {handoff: {to: triage}}}"
BETTER = "{transfer_to_desk: {override_args: {query: Better}}}"
WAITS, YES, DENY = (
    "to: desk, outcome: pending",
    "to: desk, outcome: made",
    "to: desk, outcome: rejected",
)

Turns = list[tuple[str, str, list[str]]]
"""An answer, the replies after it, and the handoffs of its turn."""

WAYS: dict[str, tuple[str, str, list[str], Turns]] = {
    "langgraph, on it, approve": (
        "watched_handoff", TO_DESK, [WAITS], [(APPROVE, "{desk: Bye.}", [YES])]
    ),
    "langgraph, on it, reject": (
        "watched_handoff", TO_DESK, [WAITS], [(REJECT, "{triage: Bye.}", [DENY])]
    ),
    "langgraph, on it, edit": (
        "watched_handoff", TO_DESK, [WAITS],
        [(TO_BILLING, "{billing: Bye.}", [DENY, "to: billing, outcome: made"])],
    ),
    "langgraph, on it, twice": (
        "watched_handoff", TO_DESK, [WAITS],
        [
            (APPROVE, TO_TRIAGE, [YES, "from: desk, to: triage, outcome: pending"]),
            (APPROVE, "{triage: Bye.}", ["from: desk, to: triage, outcome: made"]),
        ],
    ),
    "langgraph, on it, reject and approve": (
        "watched_handoff", TO_DESK, [WAITS],
        [(REJECT, TO_DESK, [DENY, WAITS]), (APPROVE, "{desk: Bye.}", [YES])],
    ),
    "langgraph, on it, another message": (
        "watched_handoff", TO_DESK, [WAITS], [("", "{triage: Bye.}", [])]
    ),
    "langgraph, beside, reject": (
        "watched_call", TWO_CALLS, [WAITS], [(REJECT, "{desk: Bye.}", [YES])]
    ),
    "langgraph, inside, approve": ("inside", TO_DESK, [WAITS], [("'yes'", "{desk: Bye.}", [YES])]),
    "langgraph, inside, reject": ("inside", TO_DESK, [WAITS], [("'no'", "{triage: Bye.}", [DENY])]),
    "openai agents, beside, approve": (
        "openai_team", TWO_CALLS, [WAITS], [("true", "{desk: Bye.}", [YES])]
    ),
    "openai agents, beside, reject": (
        "openai_team", TWO_CALLS, [WAITS], [("false", "{desk: Bye.}", [YES])]
    ),
    "pydantic ai, on it, approve": (
        "pydantic_team", QUERY, [WAITS], [("true", "{desk: Yes., triage: Bye.}", [YES])]
    ),
    "pydantic ai, on it, reject": (
        "pydantic_team", QUERY, [WAITS], [("false", "{triage: Bye.}", [DENY])]
    ),
    "pydantic ai, on it, edit": (
        "pydantic_team", QUERY, [WAITS], [(BETTER, "{desk: Yes., triage: Bye.}", [DENY, YES])]
    ),
    "pydantic ai, on it, reject and approve": (
        "pydantic_team", QUERY, [WAITS],
        [("false", QUERY, [DENY, WAITS]), ("true", "{desk: Yes., triage: Bye.}", [YES])],
    ),
    "pydantic ai, beside, approve": (
        "pydantic_beside", TWO_TOOLS, [YES], [("true", "{triage: Bye.}", [])]
    ),
    "pydantic ai, beside, reject": (
        "pydantic_beside", TWO_TOOLS, [YES], [("false", "{triage: Bye.}", [])]
    ),
    "declared, on it, approve": ("declared", QUERY, [WAITS], [("true", "{desk: Bye.}", [YES])]),
    "declared, on it, reject": (
        "declared", QUERY, [WAITS], [("{message: No.}", "{triage: Bye.}", [DENY])]
    ),
    "declared, on it, edit": (
        "declared", QUERY, [WAITS],
        [(BETTER, "{desk: Bye.}", [f"{DENY}, query: Help", f"{YES}, query: Better"])],
    ),
    "declared, on it, edit against the contract": (
        "declared", QUERY, [WAITS],
        [("{override_args: {query: Far too long}}", "{triage: Bye.}", [DENY, DENY])],
    ),
    "declared, on it, twice": (
        "declared", QUERY, [WAITS],
        [
            ("true", TO_TRIAGE, [YES, "from: desk, to: triage, outcome: pending"]),
            ("[true]", "{triage: Bye.}", ["from: desk, to: triage, outcome: made"]),
        ],
    ),
    "declared, on it, reject and approve": (
        "declared", QUERY, [WAITS],
        [("false", QUERY, [DENY, WAITS]), ("true", "{desk: Bye.}", [YES])],
    ),
    "declared, on it, another message": (
        "declared", QUERY, [WAITS], [("", "{triage: Bye.}", [])]
    ),
    "declared, before it, reject": (
        "declared", "{triage: {calls: [refund: {order: A-1}]}}", [],
        [("false", QUERY, [WAITS]), ("true", "{desk: Bye.}", [YES])],
    ),
}  # fmt: skip

DECLARED = """
agents:
  triage: {tools: [refund, look]}
  desk: {}
tools:
  refund: {args: {type: object, required: [order]}, approval: true}
  look: {}
contracts:
  - {from: triage, to: desk, type: help, query: {max_chars: 8}, approval: true}
  - {from: desk, to: triage, type: back, approval: true}
flow: {handoffs: {start: triage}}
"""


def conversation(way: str, wrong_in: int = 0, lines_before: tuple[Any, ...] = ()) -> Ran:
    """Run a conversation in which a person decides; the claim on one of its turns may be wrong.

    ``lines_before`` stand before each agent's reply lines in each turn.
    """
    app, line, first, turns = WAYS[way]
    line = line.replace("TOOL", "refund" if app == "watched_call" else "pay")
    text = ""
    for number, (answer, replies, handoffs) in enumerate([("", line, first), *turns], 1):
        message = f"resume: {answer}" if answer else f"user: Hello {number}"
        if lines_before:
            by_agent = yaml.safe_load(replies)
            replies = json.dumps({name: [*lines_before, each] for name, each in by_agent.items()})
        claim = [opposite(each) for each in handoffs] if number == wrong_in else handoffs
        if number == wrong_in and not handoffs:
            claim = [YES]
        expected = ", ".join(f"{{{each}}}" for each in claim)
        text += f"- {message}\n  replies: {replies}\n  expect: {{handoffs: [{expected}]}}\n"
    if app == "declared":
        return run_yaml(DECLARED, "turns:\n" + text)
    return run_app(f"approved_handoffs:{app}", "app: {path: [.]}\nturns:\n" + text)


def opposite(handoff: str) -> str:
    """Return a claim on a handoff with another outcome."""
    return (
        handoff.replace("rejected", "M")
        .replace("made", "rejected")
        .replace("pending", "made")
        .replace("M", "made")
    )


@pytest.mark.parametrize("way", WAYS)
def test_a_handoff_that_a_person_decides_is_pending_and_then_settled(way: str) -> None:
    ran = conversation(way)

    assert [finding.what for finding in ran.judgement.findings] == []
    assert [warning.what for warning in ran.judgement.warnings] == []


@pytest.mark.parametrize("way", [way for way in WAYS if WAYS[way][0] != "declared"])
def test_an_approval_between_retried_model_calls_is_no_error(way: str) -> None:
    ran = conversation(
        way,
        lines_before=({"error": "connection"}, {"error": {"type": "overloaded", "retry_after": 2}}),
    )

    assert [finding.what for finding in ran.judgement.findings] == []
    assert [warning.what for warning in ran.judgement.warnings] == []


@pytest.mark.parametrize(
    ("way", "turn"), [(way, turn) for way in WAYS for turn in range(1, len(WAYS[way][3]) + 2)]
)
def test_a_wrong_claim_about_such_a_handoff_fails(way: str, turn: int) -> None:
    ran = conversation(way, turn)

    assert [(finding.id, finding.turn) for finding in ran.judgement.findings] == [("claim", turn)]


@pytest.mark.parametrize("answer", [APPROVE, ANOTHER])
def test_a_call_beside_the_handoff_that_the_swarm_loses_is_found(
    answer: str, monkeypatch: Any
) -> None:
    case = ("watched_call", TWO_CALLS, [WAITS], [(answer, "{desk: Bye.}", [YES])])
    monkeypatch.setitem(WAYS, "lost", case)

    problems = [finding.what for finding in conversation("lost").judgement.findings]

    assert "agent 'desk' is sent 1 tool call without an answer" in problems[0]
    assert not any("handoff h1" in problem for problem in problems)


def test_the_timeline_shows_a_handoff_in_the_turn_that_makes_it() -> None:
    rows = rows_of(conversation("langgraph, on it, edit").view)

    assert [(row.turn, row.handoff) for row in rows if row.handoff] == [
        (2, "rejected → desk, transfer → billing")
    ]
    assert "edits transfer_to_desk() → transfer_to_billing()" in [row.answered for row in rows]
