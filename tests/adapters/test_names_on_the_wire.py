"""What is shown of a model call of code bears the names that the model was sent."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from simkit.trace.diff.traces import trace_diff
from tests.adapters.running import run_app
from tests.building import Ran

DESK = """
import openai

client = openai.OpenAI()
TOOLS = {tools}


def tool(name):
    return {{"type": "function", "function": {{"name": name, "parameters": {{"type": "object"}}}}}}


def ask(agent, messages, tools=()):
    system = {{"role": "system", "content": f"You are {{agent}}."}}
    more = {{"tools": [tool(name) for name in tools]}} if tools else {{}}
    made = client.chat.completions.create(model="m", messages=[system, *messages], **more)
    return made.choices[0].message


def chat(text):
    messages = [{{"role": "user", "content": text}}]
    said = ask("triage", messages, TOOLS)
    if not said.tool_calls:
        return said.content
    call = said.tool_calls[0]
    messages += [
        said.model_dump(exclude_none=True),
        {{"role": "tool", "tool_call_id": call.id, "content": "Passed on."}},
    ]
    return ask("billing", messages).content
"""
SCENARIO = """
app: {{path: [.]}}
agents:
  triage: You are triage.
  billing: {{system: You are billing., handoff: to_billing}}
  refunds: {{system: You are refunds., handoff: give_refund}}
turns:
  - user: Hello
    replies: {replies}
    expect: {expect}
"""


def run(folder: Path, tools: list[str], expect: str, replies: str) -> Ran:
    folder.mkdir(exist_ok=True)
    name = f"desk_of_{len(tools)}"
    (folder / f"{name}.py").write_text(dedent(DESK.format(tools=tools)), encoding="utf-8")
    scenario = SCENARIO.format(expect=expect, replies=replies)
    return run_app(f"{name}:chat", scenario, folder)


PASSES = "{triage: {handoff: {to: billing, payload: {order: 7}}}, billing: Paid}"
ALL = ["find_order", "to_billing", "give_refund"]


def test_handoff_tools_are_among_the_tools_and_their_agents_beside_them(tmp_path: Path) -> None:
    claims = """{context: {
      triage: {tools: [find_order, to_billing, give_refund], handoffs: [billing, refunds]},
      billing: {tools: [], handoffs: [], includes: [
        {role: assistant, calls: [{tool: to_billing, to: billing, args: {order: 7}}]},
        {role: tool, tool: to_billing}]}}}"""

    ran = run(tmp_path, ALL, claims, PASSES)

    assert [finding.what for finding in ran.judgement.findings] == []


@pytest.mark.parametrize(
    "claims",
    ["{tools: [find_order]}", "{tools: [find_order, to_billing]}", "{handoffs: [billing]}"],
)
def test_claims_that_leave_a_handoff_out_do_not_hold(claims: str, tmp_path: Path) -> None:
    ran = run(tmp_path, ALL, f"{{context: {{triage: {claims}}}}}", PASSES)

    assert [finding.id for finding in ran.judgement.findings] == ["claim"]


def test_a_run_that_lost_a_handoff_tool_is_another_run(tmp_path: Path) -> None:
    item, other = (run(tmp_path, tools, "{reply: Hi}", "{triage: Hi}") for tools in (ALL, ALL[:2]))

    (call,) = trace_diff(item.view, other.view).calls

    assert [str(edit.at) for edit in call.edits] == ["tools[2]", "handoffs[1]"]


CHAT = """
import openai

client = openai.OpenAI()
HISTORY = [{"role": "system", "content": "Be kind.", "name": "rules"}]


def chat(text):
    name, _, text = text.partition(": ")
    HISTORY.append({"role": "user", "content": text} | ({"name": name} if name else {}))
    made = client.chat.completions.create(model="m", messages=HISTORY)
    answer = made.choices[0].message.content
    HISTORY.append({"role": "assistant", "content": answer, "name": "bot"})
    return answer
"""
LAST_CONTEXT = [
    {"role": "system", "content": "Be kind.", "name": "rules"},
    {"role": "user", "content": "Hello", "name": "Ada"},
    {"role": "assistant", "content": "Hi.", "name": "bot", "agent": "desk"},
    {"role": "user", "content": "Hello", "name": "Bob"},
    {"role": "assistant", "content": "Hi again.", "name": "bot"},
    {"role": "user", "content": "Hello", "name": {"$absent": True}},
]


@pytest.mark.parametrize("lost", [None, *range(len(LAST_CONTEXT))])
def test_a_message_has_the_name_with_which_it_was_sent(lost: int | None, tmp_path: Path) -> None:
    claimed: list[dict[str, Any]] = json.loads(json.dumps(LAST_CONTEXT))
    if lost is not None:
        claimed[lost]["name"] = "Eve"
    (tmp_path / f"named_{lost}.py").write_text(CHAT, encoding="utf-8")
    scenario = f"""
        app: {{path: [.]}}
        agents: {{desk: {{messages: {{$any: true}}}}}}
        turns:
          - {{user: "Ada: Hello", replies: {{desk: Hi.}}}}
          - {{user: "Bob: Hello", replies: {{desk: Hi again.}}}}
          - user: ": Hello"
            replies: {{desk: Bye.}}
            expect: {{context: {{desk: {{messages: {json.dumps(claimed)}}}}}}}
    """

    ran = run_app(f"named_{lost}:chat", scenario, tmp_path)

    places = [each.at for finding in ran.judgement.findings for each in finding.differences]
    assert places == ([] if lost is None else [f"[{lost}].name"])
