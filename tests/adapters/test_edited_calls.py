"""A call that a person, or code, changes: who did it, from what, to what; and no false lint."""

from __future__ import annotations

from typing import Any

import pytest

from simkit.adapters.recorder.calls import is_said_by
from simkit.core.messages import ToolCall
from simkit.trace.events import CallEdited
from tests.adapters.running import run_app
from tests.building import Ran

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

DRAFT = "{calls: [send: {text: draft}]}"
DECISION = "{decisions: [{type: edit, edited_action: {name: NAME, args: {text: better}}}]}"
WAYS = {
    "a node executes it": ("reviewer", "", "send", "review"),
    "a node answers it": ("answerer", "", "send", "review"),
    "a node asks a person": ("asker", "resume: better", "send", "user"),
    "a middleware asks": ("watched", f"resume: {DECISION}", "send", "user"),
    "another tool": ("watched", f"resume: {DECISION}", "keep", "user"),
    "the state is changed": ("Inbox", "user: better", "send", "code"),
    "pydantic ai": ("desk", "resume: {send: {override_args: {text: better}}}", "send", "user"),
}


def conversation(way: str, by: str) -> Ran:
    """Run an application with an edited call, and claim who edited it."""
    app, answer, tool, _ = WAYS[way]
    call = f"{{tool: {tool}, asked: {{text: draft}}, args: {{text: better}}, edited_by: {by}}}"
    claim = f"  expect: {{tool_calls: [{call}], reply: Done.}}\n"
    if not answer:
        text = f"- user: Write\n  replies: {{writer: [{DRAFT}, Done.]}}\n{claim}"
    else:
        text = f"- user: Write\n  replies: {{writer: {DRAFT}}}\n  expect: {{tool_calls: []}}\n"
        text += f"- {answer.replace('NAME', tool)}\n  replies: {{writer: Done.}}\n{claim}"
    return run_app(f"edited_calls:{app}", f"app: {{path: [.]}}\nturns:\n{text}")


@pytest.mark.parametrize("way", WAYS)
def test_an_edited_call_shows_who_made_what_of_it(way: str) -> None:
    ran = conversation(way, WAYS[way][3])

    (edit,) = [event for event in ran.trace.events if isinstance(event, CallEdited)]
    assert (edit.before.args, edit.after.args) == ({"text": "draft"}, {"text": "better"})
    assert (edit.before.tool, edit.after.tool) == ("send", WAYS[way][2])
    assert [finding.what for finding in ran.judgement.findings] == []
    assert [warning.what for warning in ran.judgement.warnings] == []


@pytest.mark.parametrize("way", WAYS)
def test_a_wrong_claim_on_the_editor_fails(way: str) -> None:
    wrong = "user" if WAYS[way][3] != "user" else "null"

    findings = conversation(way, wrong).judgement.findings

    assert "tool_calls" in " ".join(finding.what for finding in findings)


@pytest.mark.parametrize(
    ("answer", "tool", "args", "is_said"),
    [
        ({"text": "b"}, "t", {"text": "b"}, True),
        ("write b instead", "t", {"text": "b"}, True),
        ("yes", "t", {"text": "b"}, False),
        ("better", "t", {"text": "be"}, False),
        (True, "t", {"text": True}, False),
        ([5], "t", {"text": 5}, True),
        ({"text": "b"}, "t", {"text": "b", "limit": 10}, True),
        ("c", "t", {"text": "a", "copy": "c"}, True),
        ("yes", "t", {"text": "a", "copy": "c"}, False),
        ({"name": "u"}, "u", {"text": "a"}, True),
        ("yes", "u", {"text": "a"}, False),
        ({"text": "b"}, "t", {}, False),
    ],
)
def test_the_user_edits_what_the_answer_says(
    answer: Any, tool: str, args: dict[str, Any], is_said: bool
) -> None:
    before = ToolCall("call1", "t", {"text": "a"})

    assert is_said_by(answer, before, ToolCall("call1", tool, args)) is is_said
