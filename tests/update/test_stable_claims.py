"""Claims on what code sent: redacted, and of what will be the same tomorrow and elsewhere."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from simkit.core.messages import Message
from simkit.core.redact import Redactor
from simkit.update.observed_values import StableClaims
from tests.golden import assert_file_is
from tests.update.running import accepted, failing_claims, propose_claims

GOLDEN = Path(__file__).with_name("golden")

KEY = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGH"
APP = f"""
import json
import urllib.request

def ask(messages):
    system = {{"role": "system", "content": "You are triage. Today is 2026-01-05.\\nBe kind."}}
    tools = [{{"type": "function", "function": {{"name": "find_order"}}}}]
    body = {{"model": "m", "messages": [system, *messages], "tools": tools}}
    headers = {{"content-type": "application/json"}}
    url = "https://llm.example.test/v1/chat/completions"
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request) as response:
        return json.load(response)["choices"][0]["message"]

def main(text):
    messages = [{{"role": "user", "content": text}}]
    while True:
        said = ask(messages)
        if not said.get("tool_calls"):
            return said["content"]
        content = json.dumps({{"order": "A-1", "note": "the key is {KEY}", "at": "/tmp/x1"}})
        call = said["tool_calls"][0]["id"]
        messages += [said, {{"role": "tool", "tool_call_id": call, "content": content}}]
"""
SCENARIO = """\
version: 1
scenario: s
pipeline: stable_claims_app:main
app: {path: [.]}
agents: {triage: You are triage}
turns:
  - user: Where is it?
    replies: {triage: [{calls: [find_order: {customer: Ada}]}, On its way.]}
"""


@pytest.mark.golden
def test_what_code_sent_is_claimed_without_secrets_and_what_passes(tmp_path: Path) -> None:
    (tmp_path / "stable_claims_app.py").write_text(APP, encoding="utf-8")
    text = SCENARIO.replace("You are triage}", '{system: {$starts: "You are triage"}}}')

    new = accepted(text, tmp_path, propose_claims).text

    assert_file_is(GOLDEN / "what-code-sent-is-claimed-without.txt", new.removeprefix(text))
    assert failing_claims(str(tmp_path / "a.scenario.yaml"), new) == []


@pytest.mark.parametrize(
    ("claim", "lasts"),
    [
        ("Order A-1042 is on its way to 12 Main Street", "same"),
        ("You may say 10 things, at most 250 words", "same"),
        ("It is Monday", {"$starts": "It is"}),
        ("Today is 5.1.2026, be kind", {"$starts": "Today is"}),
        ("09:00 it is", {"$any": True}),
        ("see <A object at 0x7f1c2b3d4e5f>", {"$starts": "see <A object at"}),
        ("id 1b4e28ba-2fa1-11d2-883f-0016d3cca427", {"$any": True}),
        ("written to /tmp/xy/out.txt", {"$starts": "written to"}),
        ({"at": 1767603600, "n": ["12:30", 1]}, {"at": 1767603600, "n": [{"$any": True}, 1]}),
        ({"$starts": "Since 2026-01-05 we"}, {"$starts": "Since"}),
        ({"$starts": "We are"}, "same"),
    ],
)
def test_dates_ids_and_places_of_a_machine_pass(claim: Any, lasts: Any) -> None:
    assert StableClaims(Redactor({})).lasting(claim) == (claim if lasts == "same" else lasts)


@pytest.mark.parametrize(
    ("instructions", "claim"),
    [
        ("Be kind.", "Be kind."),
        ("Be kind.\nBe quick.", {"$starts": "Be kind."}),
        ("\n    Be kind.\n    Be quick.\n", {"$starts": "\n    Be kind."}),
        ("\n" + "kind " * 20, {"$starts": "\n" + ("kind " * 12).rstrip()}),
        ("Today is Monday.", {"$starts": "Today is"}),
    ],
)
def test_the_first_line_of_instructions_that_says_anything_is_claimed(
    instructions: str, claim: Any
) -> None:
    context = SimpleNamespace(messages=(Message("system", instructions),), tools=())
    call: Any = SimpleNamespace(context=context)

    claims = StableClaims(Redactor({})).on_messages(call, None)

    assert claims == {"messages": [{"system": claim}]}


def test_a_date_that_the_scenario_says_itself_stays() -> None:
    stable = StableClaims(Redactor({}), "I must be there on Friday at 9:40")

    assert stable.lasting({"day": "Friday", "at": "9:40", "was": "Monday"}) == {
        "day": "Friday", "at": "9:40", "was": {"$any": True},
    }  # fmt: skip


def test_a_long_text_is_claimed_by_its_beginning() -> None:
    assert StableClaims(Redactor({})).lasting("word " * 20, 50) == {
        "$starts": ("word " * 12).rstrip()
    }


def test_what_is_secret_stands_in_no_claim() -> None:
    claim = {"api_key": "hunter22", "all": [f"use it: {KEY} now"], "n": 1}

    clean = StableClaims(Redactor({})).without_secrets(claim)

    assert clean == {"api_key": {"$any": True}, "all": [{"$starts": "use it:"}], "n": 1}
