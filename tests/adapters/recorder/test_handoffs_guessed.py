"""A tool's name makes a handoff where exactly one agent fits it, and nobody says otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from simkit.adapters.recorder.handoffs import HandoffTools
from simkit.trace.events import MessageAdded
from tests.adapters.running import run_app
from tests.building import Ran

CODE = """
import json
import urllib.request

TOOLS = {tools}
NEXT = {following}

def main(text):
    agent, messages = "triage", [{{"role": "user", "content": text}}]
    while True:
        system = {{"role": "system", "content": f"You are {{agent}}."}}
        tools = [{{"type": "function", "function": {{"name": name}}}} for name in TOOLS]
        body = {{"model": "m", "messages": [system, *messages], "tools": tools}}
        headers = {{"content-type": "application/json"}}
        url = "https://llm.example.test/v1/chat/completions"
        request = urllib.request.Request(url, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request) as response:
            said = json.load(response)["choices"][0]["message"]
        if not said.get("tool_calls"):
            return said["content"]
        call = said["tool_calls"][0]
        agent = NEXT.get(call["function"]["name"], agent)
        messages += [said, {{"role": "tool", "tool_call_id": call["id"], "content": "Done."}}]
"""


def ran(folder: Path, tools: list[str], scenario: str, **following: str) -> Ran:
    """Run an application that offers tools; ``following`` says who works after which."""
    name = f"guessed_{abs(hash((*tools, scenario)))}"
    code = CODE.format(tools=tools, following=following)
    (folder / f"{name}.py").write_text(code, encoding="utf-8")
    return run_app(f"{name}:main", scenario, folder)


@pytest.mark.parametrize("tool", ["to_billing", "handoff_to_billing", "transfer_to_billing"])
def test_a_tool_named_after_one_agent_passes_control_to_it(tool: str, tmp_path: Path) -> None:
    scenario = """
        agents: {triage: You are triage., billing: You are billing.}
        turns:
          - user: Money back
            replies:
              triage: {handoff: {to: billing, payload: {order: A-1}}}
              billing: Done.
            expect:
              handoffs: [{from: triage, to: billing, payload: {order: A-1}}]
              context: {triage: {handoffs: [billing]}}
    """

    assert ran(tmp_path, [tool], scenario, **{tool: "billing"}).judgement.findings == ()


SAVINGS = """
    agents: {{triage: You are triage.{rules}}}
    app: {{path: [.]{tools}}}
    turns:
      - user: Move 5 to my savings
        replies:
          triage: [{{calls: [transfer_to_savings: {{amount: 5}}]}}, Done.]{lines}
        expect:
          agents: [triage]
          handoffs: []
          tool_calls: [{{tool: transfer_to_savings, result: Done.}}]
          context:
            triage[0]: {{tools: [transfer_to_savings], handoffs: []}}
            triage[1]:
              includes: [{{calls: [{{tool: transfer_to_savings, to: {{$absent: true}}}}]}}]
"""


def test_a_tool_that_fits_no_agent_is_an_ordinary_one(tmp_path: Path) -> None:
    scenario = SAVINGS.format(rules="", tools="", lines="")

    assert ran(tmp_path, ["transfer_to_savings"], scenario).judgement.findings == ()


def test_a_rule_says_that_no_tool_passes_control_to_its_agent(tmp_path: Path) -> None:
    rules = ", savings: {system: You are savings., handoff: []}"
    scenario = SAVINGS.format(rules=rules, tools="", lines="")

    assert ran(tmp_path, ["transfer_to_savings"], scenario).judgement.findings == ()


BEGINS = """
import json
import urllib.request

import simkit

def ask(messages):
    tools = [{{"type": "function", "function": {{"name": "{tool}"}}}}]
    body = {{"model": "m", "messages": messages, "tools": tools}}
    headers = {{"content-type": "application/json"}}
    url = "https://llm.example.test/v1/chat/completions"
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request) as response:
        return json.load(response)["choices"][0]["message"]

def main(text):
    messages = [{{"role": "user", "content": text}}]
    with simkit.agent("triage"):
        said = ask(messages)
    if not said.get("tool_calls"):
        return said["content"]
    with simkit.agent("billing"):
        identity = said["tool_calls"][0]["id"]
        messages += [said, {{"role": "tool", "tool_call_id": identity, "content": "Done."}}]
    with simkit.agent("triage"):
        return ask(messages)["content"]
"""


@pytest.mark.parametrize("tool", ["to_billing", "handoff_to_billing", "transfer_to_billing"])
def test_a_call_says_what_its_handoff_says_where_the_agent_is_known_only_when_it_begins(
    tool: str, tmp_path: Path
) -> None:
    name = f"begins_{tool}"
    (tmp_path / f"{name}.py").write_text(BEGINS.format(tool=tool), encoding="utf-8")
    scenario = f"""
        turns:
          - {{user: Hello, replies: {{triage: Hi.}}}}
          - user: Money back
            replies: {{triage: [{{calls: [{tool}: {{order: A-1}}]}}, Refunded.]}}
            expect:
              handoffs: [{{from: triage, to: billing, payload: {{order: A-1}}}}]
              tool_calls: []
              context:
                triage[0]: {{tools: [{tool}], handoffs: [billing]}}
                triage[1]: {{includes: [{{calls: [{{tool: {tool}, to: billing}}]}}]}}
    """

    outcome = run_app(f"{name}:main", scenario, tmp_path)

    assert outcome.judgement.findings == ()
    messages = [event.message for event in outcome.events(MessageAdded)]
    assert [call.target for message in messages for call in message.calls] == ["billing"]


def names(*agents: str) -> HandoffTools:
    tools = HandoffTools()
    tools.know(agents)
    return tools


@pytest.mark.parametrize(
    ("agents", "tool", "target"),
    [
        (["Refund Agent", "triage"], "transfer_to_refund_agent", "Refund Agent"),
        (["Refund Agent", "triage"], "to_refund", "Refund Agent"),
        (["refunds"], "handoff_to_refunds_agent", "refunds"),
        (["refund", "refund_agent"], "to_refund", "refund"),
        (["Refund", "Refund Agent"], "to_refund", None),
        (["refund"], "to_refunds", None),
        (["refund"], "refund", None),
        (["refund"], "transfer_refund", None),
        (["to"], "to_to", "to"),
        ([], "transfer_to_refund", None),
    ],
)
def test_exactly_one_agent_must_fit(agents: list[str], tool: str, target: str | None) -> None:
    assert names(*agents).target_of(tool) == target


def test_what_a_framework_carries_out_itself_shows_whether_it_passes_control() -> None:
    tools = names("billing")
    tools.see(["to_billing", "transfer_to_billing"])

    assert tools.target_of("to_billing") is None
    assert tools.target_of("transfer_to_billing") == "billing"


def test_a_tool_whose_function_is_named_is_an_ordinary_one() -> None:
    tools = names("savings")
    tools.keep_ordinary(["transfer_to_savings"])

    assert tools.target_of("transfer_to_savings") is None


def test_a_rule_that_names_tools_adds_them_to_the_one_usual_name() -> None:
    tools = HandoffTools({"pass_on": "savings"})
    tools.know(["savings"])
    tools.guess_only("savings", ["transfer_to_"])

    targets = [tools.target_of(f"{text}savings") for text in ("to_", "handoff_to_", "transfer_to_")]
    assert (tools.target_of("pass_on"), targets) == ("savings", [None, None, "savings"])
