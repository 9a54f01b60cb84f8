"""A person approves or rejects a handoff, or a call beside it: pending, then made or rejected."""

from __future__ import annotations

import pytest

from tests.adapters.running import run_app
from tests.building import Ran

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

TO_DESK = "{handoff: {to: desk}}"
TWO_CALLS = "{calls: [{TOOL: {order: A-1}}, {transfer_to_desk: {}}]}"


def conversation(app: str, line: str, answers: list[str], replies: str, outcome: str) -> Ran:
    """Run a conversation in which the user answers; the last answer settles the handoff."""
    pending, settled = "[{to: desk, outcome: pending}]", f"[{{to: desk, outcome: {outcome}}}]"
    turns = f"- user: Hello\n  replies: {{triage: {line}}}\n  expect: {{handoffs: {pending}}}\n"
    for answer in answers:
        is_last = answer is answers[-1]
        lines = f"  replies: {replies}\n" if is_last else ""
        expected = settled if is_last else pending
        turns += f"- resume: {answer}\n{lines}  expect: {{handoffs: {expected}}}\n"
    text = "app: {path: [.]}\nturns:\n" + turns
    return run_app(f"approved_handoffs:{app}", text)


APPROVE = "{decisions: [{type: approve}]}"
REJECT = "{decisions: [{type: reject, message: No.}]}"
EDIT = "{decisions: [{type: edit, edited_action: {name: refund, args: {order: B-2}}}]}"
WAYS = {
    "langgraph, on the handoff, approve": ("watched_handoff", TO_DESK, [APPROVE], "desk", "made"),
    "langgraph, on the handoff, reject": (
        "watched_handoff",
        TO_DESK,
        [REJECT],
        "triage",
        "rejected",
    ),
    "langgraph, beside, reject": ("watched_call", TWO_CALLS, [REJECT], "desk", "made"),
    "langgraph, inside, approve": ("inside", TO_DESK, ["'yes'"], "desk", "made"),
    "langgraph, inside, reject": ("inside", TO_DESK, ["'no'"], "triage", "rejected"),
    "openai agents, beside, approve": ("openai_team", TWO_CALLS, ["true"], "desk", "made"),
    "openai agents, beside, reject": ("openai_team", TWO_CALLS, ["false"], "desk", "made"),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_handoff_that_a_person_decides_is_pending_and_then_settled(way: str) -> None:
    app, line, answers, speaker, outcome = WAYS[way]
    line = line.replace("TOOL", "pay" if app == "openai_team" else "refund")

    ran = conversation(app, line, answers, f"{{{speaker}: Bye.}}", outcome)

    assert [finding.what for finding in ran.judgement.findings] == []


@pytest.mark.parametrize("way", WAYS)
def test_a_wrong_claim_about_such_a_handoff_fails(way: str) -> None:
    app, line, answers, speaker, outcome = WAYS[way]
    line = line.replace("TOOL", "pay" if app == "openai_team" else "refund")
    wrong = {"made": "rejected", "rejected": "made"}[outcome]

    ran = conversation(app, line, answers, f"{{{speaker}: Bye.}}", wrong)

    assert "handoffs" in " ".join(finding.what for finding in ran.judgement.findings)


@pytest.mark.parametrize("answer", [APPROVE, EDIT])
def test_a_call_beside_the_handoff_that_the_swarm_loses_is_found(answer: str) -> None:
    line = TWO_CALLS.replace("TOOL", "refund")

    ran = conversation("watched_call", line, [answer], "{desk: Bye.}", "made")

    problems = [finding.what for finding in ran.judgement.findings]
    assert "agent 'desk' is sent 1 tool call without an answer" in problems[0]
    assert not any("handoff h1" in problem for problem in problems)
