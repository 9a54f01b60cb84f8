"""Names of arguments and keys in claims on code, whose tools no file declares."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from simkit.core.errors import SourceError
from tests.adapters.running import run_app

APP: Final = """
from openai import OpenAI


def tool(name, argument):
    properties = {argument: {"type": "integer"}}
    parameters = {"type": "object", "properties": properties}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


TOOLS = [tool("look", "q"), tool("refund", "amount")]


def answer(text):
    client = OpenAI(api_key="k")
    system = {"role": "system", "content": "You are the desk."}
    messages = [system, {"role": "user", "content": text}]
    while True:
        replies = client.chat.completions.create(model="m", messages=messages, tools=TOOLS)
        message = replies.choices[0].message
        if not message.tool_calls:
            return message.content
        messages.append(message)
        for call in message.tool_calls:
            found = '{"found": [{"no": 1}]}'
            messages.append({"role": "tool", "tool_call_id": call.id, "content": found})
"""
TURN: Final = """
app: {path: [.]}
agents: {desk: {system: You are the desk.}}
turns:
  - user: "Order 1, please"
    replies: {desk: [{calls: [look: {q: 1}]}, {json: {state: done}}]}
    expect: {<CLAIM>}
"""


def warnings_of(folder: Path, claim: str) -> list[str]:
    (folder / "offers.py").write_text(APP, encoding="utf-8")
    ran = run_app("offers:answer", TURN.replace("<CLAIM>", claim), folder)
    assert ran.judgement.findings == ()
    return [finding.what for finding in ran.judgement.warnings]


@pytest.mark.parametrize(
    ("claim", "key"),
    [
        ("tool_calls: {$not: {$has: [{tool: look, result: {oder: 1}}]}}", "oder"),
        ("tool_calls: {$not: {$has: [{tool: look, 'result.found[0].nr': 1}]}}", "nr"),
        ("tool_calls: {$not: {$has: [{tool: refund, args: {amuont: 1}}]}}", "amuont"),
        ("tool_calls: {$each: {result: {$not: {oder: 1}}}}", "oder"),
        ("handoffs: {$not: {$has: [{payload: {oder: 1}}]}}", "oder"),
        ("events: {$not: {$has: [{kind: ToolReturned, result: {oder: 1}}]}}", "oder"),
        ("reply: {$not: {oder: 1}}", "oder"),
        ("reply: {$not: {state: 1}}", ""),
        ("tool_calls: {$not: {$has: [{tool: refund, args: {amount: 1}}]}}", ""),
        ("tool_calls: {$not: {$has: [{tool: look, args: {q: 2, no: {$absent: true}}}]}}", ""),
        ("tool_calls: {$not: {$has: [{$either: [{args: {oder: 1}}, {args: {q: 2}}]}]}}", ""),
    ],
)
def test_a_key_that_nothing_in_the_run_has_proves_nothing(
    tmp_path: Path, claim: str, key: str
) -> None:
    warnings = warnings_of(tmp_path, claim)

    expected = f"no value in the trace has a key `{key}`"
    assert any(expected in warning for warning in warnings) is bool(key)


@pytest.mark.parametrize("args", ["{oder: 1}", "{q: {$not: {oder: 1}}, oder: 1}"])
def test_arguments_are_those_of_the_schemas_that_requests_offer(tmp_path: Path, args: str) -> None:
    claim = f"tool_calls: {{$not: {{$has: [{{tool: look, args: {args}}}]}}}}"

    with pytest.raises(SourceError) as caught:
        warnings_of(tmp_path, claim)

    assert caught.value.what == "tool `look` has no argument `oder`, so this could never match"


NAMED: Final = """
import simkit
from openai import OpenAI


def answer(text):
    with simkit.agent("desk"):
        messages = [{"role": "system", "content": "You plan."}, {"role": "user", "content": text}]
        replies = OpenAI(api_key="k").chat.completions.create(model="m", messages=messages)
    return replies.choices[0].message.content
"""


@pytest.mark.parametrize(
    ("rules", "count"),
    [
        ("planner: {system: You paln.}", 1),
        ("planner: {system: You paln.}, desk: {system: You plan.}", 0),
    ],
)
def test_a_rule_beside_which_a_call_is_anothers_is_warned_of(
    tmp_path: Path, rules: str, count: int
) -> None:
    (tmp_path / "named.py").write_text(NAMED, encoding="utf-8")
    scenario = f"""
agents: {{{rules}}}
turns: [{{user: Hi, replies: {{desk: Hello.}}, expect: {{agents: {{$not: {{$has: planner}}}}}}}}]
"""

    warnings = run_app("named:answer", scenario, tmp_path).judgement.warnings

    says = (
        "no model call fits the rule of agent 'planner'; calls that fit no rule are those of 'desk'"
    )
    assert [warning.what for warning in warnings] == [says] * count
