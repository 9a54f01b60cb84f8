"""The agents of code that names none are found in conversations, and scenarios hold their rules."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import pytest

import simkit as simkit_package
from simkit.explore import api
from simkit.language.yaml import load_text
from tests.cli.projects import Call, write

ASK: Final = """
from openai import OpenAI

def ask(system, text, **more):
    sent = [{"role": "system", "content": system}, {"role": "user", "content": text}]
    client = OpenAI(api_key="none")
    return client.chat.completions.create(model="m", messages=sent, **more).choices[0].message
"""
TWO: Final = f"""{ASK}
ORDER = {{"type": "object", "properties": {{"order": {{"type": "string"}}}}, "required": ["order"]}}
LOOK = {{"type": "function", "function": {{"name": "look", "parameters": ORDER}}}}

def answer(text):
    ask("You are the router. Answer in one word, not ${{user}}.", text)
    said = ask("You are the billing agent. You refund.", text, tools=[LOOK])
    if said.tool_calls:
        raise KeyError("order")
    return said.content
"""
TWO_RULES: Final = {
    "router": {"system": {"$starts": "You are the router"}},
    "billing_agent": {"system": {"$starts": "You are the billing agent"}},
}
THREE: Final = """
import anthropic

PASS = {"name": "transfer_to_billing", "input_schema": {"type": "object", "properties": {}}}

class Desk:
    def __init__(self):
        self.count = 0

    def _ask(self, system, text, **more):
        sent = [{"role": "user", "content": text}]
        client = anthropic.Anthropic(api_key="none")
        said = client.messages.create(
            model="m", max_tokens=99, system=system, messages=sent, **more
        )
        return said.content

    def answer(self, text):
        self.count += 1
        said = self._ask("You are the triage agent. Route.", text, tools=[PASS])
        if any(block.type == "tool_use" for block in said):
            said = self._ask("Refund what the user paid.", text)
        if self.count == 2:
            said = self._ask("Summarize the conversation.", text)
        return "".join(block.text for block in said if block.type == "text")
"""
AT_ONCE: Final = """
import asyncio
from openai import AsyncOpenAI

class Desk:
    def __init__(self):
        self.client, self.count = AsyncOpenAI(api_key="none"), 0

    async def _ask(self, system, text):
        sent = [{"role": "system", "content": system}, {"role": "user", "content": text}]
        done = await self.client.chat.completions.create(model="m", messages=sent)
        return done.choices[0].message.content

    async def answer(self, text):
        self.count += 1
        said = await asyncio.gather(
            self._ask("You are the critic. Judge it.", text),
            self._ask("You are the poet. Rhyme.", text),
        )
        if self.count == 3:
            said.append(await self._ask("You are the host. Close it.", text))
        return " ".join(said)
"""


def rules_said(err: str) -> list[Any]:
    """Return the rules in each sentence that says what was found."""
    texts = re.findall(r"`(agents: \{.*?\})`\. To name", err)
    return [load_text(text, "said")[0].data["agents"] for text in texts]


def rules_in(text: str) -> Any:
    """Return the rules that a written scenario holds."""
    return load_text(text, "written")[0].data["agents"]


@pytest.mark.slow
def test_two_agents_are_found_and_their_scenario_replays_in_a_new_process(
    simkit: Call, process: Call
) -> None:
    write("two_desks.py", TWO)

    done = simkit("explore", "two_desks:answer", "--runs", "8")

    assert done.code == 1, done.err
    assert rules_said(done.err) == [TWO_RULES]
    assert "simkit init --app two_desks:answer" in done.err
    assert "reached 2 of 2 agents" in done.out
    (file,) = Path("found").iterdir()
    assert rules_in(file.read_text()) == TWO_RULES
    again = process("replay", str(file))
    assert again.code == 1
    assert "KeyError: 'order'" in again.out


@pytest.mark.slow
def test_the_same_seed_finds_the_same_in_two_processes(simkit: Call, process: Call) -> None:
    write("spread_desks.py", TWO)

    alone = simkit("explore", "spread_desks:answer", "--runs", "8", "--seed", "3", "--to", "a")
    spread = simkit(
        "explore", "spread_desks:answer", "--runs", "8", "--seed", "3", "--to", "b", "-j", "2"
    )

    assert (alone.code, spread.code) == (1, 1), spread.err
    assert alone.err == spread.err
    (first,), (second,) = Path("a").iterdir(), Path("b").iterdir()
    assert first.read_text() == second.read_text()


@pytest.mark.slow
def test_python_gets_scenarios_with_rules(project: Path) -> None:
    write("called_desks.py", TWO)

    (finding,) = simkit_package.explore("called_desks:answer", runs=6).findings

    assert rules_in(finding.scenario) == TWO_RULES


@pytest.mark.slow
def test_agents_behind_a_handoff_and_in_a_second_turn_are_found(simkit: Call) -> None:
    write("three_desks.py", THREE)

    done = simkit("explore", "three_desks:Desk", "--runs", "12")

    (rules,) = rules_said(done.err)
    # The tool's name names the agent that speaks after it.
    assert {*rules} == {"triage_agent", "billing", "summarize_the_conversation"}
    assert rules["billing"] == {"system": {"$starts": "Refund what the user paid."}}
    assert "reached 3 of 3 agents" in done.out
    assert done.code in (0, 1)


@pytest.mark.slow
def test_an_agent_that_only_a_later_conversation_meets_is_added(
    simkit: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "SCOUTS", 1)
    write("desks_at_once.py", AT_ONCE)

    done = simkit("explore", "desks_at_once:Desk", "--runs", "12")

    assert done.code == 0, done.err
    names = [{*rules} for rules in rules_said(done.err)]
    assert names[0] == {"critic", "poet"}
    assert names[-1] == {"critic", "poet", "host"}
    assert "reached 3 of 3 agents" in done.out


@pytest.mark.slow
def test_agents_that_begin_alike_are_one_and_that_is_said(simkit: Call) -> None:
    write(
        "alike_desks.py",
        f'{ASK}\ndef answer(text):\n    ask("You are a clerk. Route.", text)\n'
        '    return ask("You are a clerk. Refund.", text).content\n',
    )

    done = simkit("explore", "alike_desks:answer", "--runs", "4")

    assert done.code == 0, done.err
    assert rules_said(done.err) == [{"clerk": {"system": {"$starts": "You are a clerk"}}}]
    assert "`clerk` has 2 texts of instructions that begin alike" in done.err


@pytest.mark.slow
def test_instructions_that_begin_differently_are_an_error_with_the_rule_to_add(
    simkit: Call,
) -> None:
    write(
        "ticket_desks.py",
        f"{ASK}\nimport itertools\nTICKETS = itertools.count(1000)\n\ndef answer(text):\n"
        '    return ask(f"Ticket {next(TICKETS)} is open. Help.", text).content\n',
    )

    done = simkit("explore", "ticket_desks:answer", "--runs", "4")

    assert (done.code, done.out) == (2, "")
    assert rules_said(done.err) == []
    assert 'name: {system: {$starts: "Ticket"}}' in done.err
    assert "simkit init --app ticket_desks:answer" in done.err


@pytest.mark.slow
def test_code_that_names_its_agents_needs_no_rules(simkit: Call) -> None:
    write(
        "named_desks.py",
        f'import simkit\n{ASK}\ndef answer(text):\n    with simkit.agent("desk"):\n'
        '        return ask("Help.", text).content\n',
    )

    done = simkit("explore", "named_desks:answer", "--runs", "4")

    assert (done.code, done.err) == (0, "")
