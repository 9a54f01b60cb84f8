"""One tool that passes control to several agents is declared by the argument that names them."""

from __future__ import annotations

from pathlib import Path

import pytest

from simkit.core.errors import SourceError
from tests.adapters.running import run_app

CODE = """
import json
import urllib.request

AGENTS = ("triage", "billing", "refunds")

def handoff(to, why=""):
    properties = {"to": {"type": "string"}, "why": {"type": "string"}}
    return {"name": "handoff", "parameters": {"type": "object", "properties": properties}}

def main(text):
    agent, messages = "triage", [{"role": "user", "content": text}]
    while True:
        system = {"role": "system", "content": f"You are {agent}."}
        tools = [{"type": "function", "function": handoff("")}]
        body = {"model": "m", "messages": [system, *messages], "tools": tools}
        headers = {"content-type": "application/json"}
        url = "https://llm.example.test/v1/chat/completions"
        request = urllib.request.Request(url, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request) as response:
            said = json.load(response)["choices"][0]["message"]
        if not said.get("tool_calls"):
            return said["content"]
        call = said["tool_calls"][0]
        agent = json.loads(call["function"]["arguments"])["to"]
        messages += [said, {"role": "tool", "tool_call_id": call["id"], "content": "Passed."}]
"""
SCENARIO = """
    agents:
      triage: You are triage.
      billing: {{system: You are billing., handoff: {billing}}}
      refunds: {{system: You are refunds., handoff: {refunds}}}
    turns:
      - user: Money back
        replies:
          triage: {{handoff: {{to: billing, payload: {{why: money}}}}}}
          billing: {{handoff: {{to: refunds}}}}
          refunds: Done.
        expect:
          agents: [triage, billing, refunds]
          handoffs:
            - {{from: triage, to: billing, payload: {{$exact: {{why: money}}}}}}
            - {{from: billing, to: refunds}}
          reply: Done.
"""
SHARED = "{tool: handoff, target: to}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shared_handoff_app.py").write_text(CODE, encoding="utf-8")
    return tmp_path


def test_one_tool_passes_control_to_the_agent_that_its_argument_names(folder: Path) -> None:
    scenario = SCENARIO.format(billing=SHARED, refunds=f"[{SHARED}]")

    ran = run_app("shared_handoff_app:main", scenario, folder)

    assert ran.judgement.findings == ()


@pytest.mark.parametrize(
    ("billing", "refunds"),
    [
        ("handoff", "handoff"),
        ("handoff", SHARED),
        (SHARED, "handoff"),
        (SHARED, "{tool: handoff, target: agent}"),
        ("[other, handoff]", "[handoff]"),
    ],
)
def test_rules_that_do_not_agree_on_a_shared_tool_are_refused(
    billing: str, refunds: str, folder: Path
) -> None:
    with pytest.raises(SourceError) as refused:
        run_app(
            "shared_handoff_app:main", SCENARIO.format(billing=billing, refunds=refunds), folder
        )

    assert "tool `handoff` passes control to 'billing' and to 'refunds'" in str(refused.value)
    assert "`handoff: {tool: handoff, target: ARGUMENT}`" in str(refused.value)


def test_an_unknown_key_of_a_handoff_tool_is_refused_where_it_stands(folder: Path) -> None:
    wrong = SCENARIO.format(billing="{tool: handoff, targt: to}", refunds=SHARED)

    with pytest.raises(SourceError, match="did you mean `target`"):
        run_app("shared_handoff_app:main", wrong, folder)
