"""First claims: what stays the same tomorrow and elsewhere, without secrets; long prompts."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from simkit.core.messages import Message
from simkit.core.redact import Redactor
from simkit.language.matching import holds
from simkit.update.observed_values import MESSAGES_MAX, StableClaims, common, shape_of
from tests.golden import assert_file_is
from tests.update.running import accepted, failing_claims, propose_claims
from tests.update.test_fixes import HEAD, ROWS, TURN

GOLDEN = Path(__file__).with_name("golden")


@pytest.mark.golden
def test_a_turn_without_claims_gets_a_full_set(tmp_path: Path) -> None:
    text = HEAD + TURN.replace("    expect:\n", "")

    new = accepted(text, tmp_path, propose_claims)

    assert_file_is(GOLDEN / "first-claims.txt", new.text)
    assert failing_claims(str(tmp_path / "a.scenario.yaml"), new.text) == []


def test_turns_with_claims_are_left_alone(tmp_path: Path) -> None:
    text = HEAD + TURN + "      reply: wrong\n"

    assert accepted(text, tmp_path, propose_claims).text == text


def test_turns_in_brackets_are_written_in_lines(tmp_path: Path) -> None:
    text = HEAD + "turns: [{user: 'Hi',  replies: {clerk: Yes}}]  \n"

    new = accepted(text, tmp_path, propose_claims)

    assert new.text.startswith(
        HEAD + "turns:\n"
        "  - user: 'Hi'\n"
        "    replies: {clerk: Yes}  \n"
        "    expect:\n"
        "      agents: [clerk]\n"
    )


def test_an_error_is_claimed_by_its_type(tmp_path: Path) -> None:
    text = HEAD + "turns:\n  - user: Hi\n    replies: {clerk: {error: rate_limit}}\n"

    new = accepted(text, tmp_path, propose_claims)

    assert "      agents: [clerk]\n      error: rate_limit\n      context:\n" in new.text
    assert failing_claims(str(tmp_path / "a.scenario.yaml"), new.text) == []


def test_an_error_that_says_what_the_scenario_lacks_is_not_claimed(tmp_path: Path) -> None:
    text = HEAD + "turns:\n  - user: Hi\n    replies: {boss: Yes}\n"

    assert accepted(text, tmp_path, propose_claims).text == text


def test_rows_of_a_table_get_what_they_have_in_common(tmp_path: Path) -> None:
    text = ROWS.replace("    expect:\n", "")

    new = accepted(text, tmp_path, propose_claims)

    assert (
        new.text
        == text
        + """\
    expect:
      agents: [clerk]
      context:
        clerk:
          sections: [instructions, current_message]
          current_message:
            - user: Hello
      handoffs: []
      tool_calls: []
"""
    )


def test_a_long_section_is_claimed_by_its_size(tmp_path: Path) -> None:
    turn = "  - user: Hi\n    replies: {clerk: Yes}\n    expect: {}\n"
    text = HEAD + "turns:\n" + turn * (MESSAGES_MAX // 2 + 1)
    text += "  - user: Hi\n    replies: {clerk: Yes}\n"

    new = accepted(text, tmp_path, propose_claims)

    assert f"          history: {{$len: {MESSAGES_MAX + 2}}}\n" in new.text


def test_a_large_value_is_claimed_by_its_shape() -> None:
    value = {"text": "word " * 40, "list": [{"a": "x" * 200}, 2], "one": [1], "n": 3, "empty": {}}

    claim = shape_of(value)

    assert claim == {
        "text": {"$starts": ("word " * 12).rstrip()},
        "list": {"$len": 2},
        "one": [1],
        "n": 3,
        "empty": {"$exact": {}},
    }
    assert holds(claim, value)


def test_what_claims_have_in_common_is_found_below_their_keys() -> None:
    data = {"a": {"b": 1, "c": [2]}, "d": {"$len": 1}, "e": [1], "f": {"g": 1}}
    other = {"a": {"b": 1, "c": [3]}, "d": {"$len": 2}, "e": [1], "f": 2}

    assert common([data, other]) == {"a": {"b": 1}, "e": [1]}


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


PROMPTS_APP = """
import json
import urllib.request

HEAD = "# SYSTEM\\nYou are part of a team of agents at work for one customer.\\n"
CRITIC = HEAD + "You are the critic."
WRITER = HEAD + "You are the writer."
LONG = "Below is all that the team knows so far. " * 9

def ask(system, text):
    messages = [{"role": "system", "content": system}, {"role": "user", "content": text}]
    headers = {"content-type": "application/json"}
    url = "https://llm.example.test/v1/chat/completions"
    body = json.dumps({"model": "m", "messages": messages}).encode()
    with urllib.request.urlopen(urllib.request.Request(url, body, headers)) as response:
        return json.load(response)["choices"][0]["message"]["content"]

def main(text):
    found = ask(CRITIC, f"{LONG}\\nQuestion: {text}")
    return ask(WRITER, f"{LONG}\\nQuestion: {text}\\nFindings: {found}")
"""
PROMPTS_SCENARIO = """\
version: 1
scenario: s
pipeline: prompts_app:main
app: {path: [.], fresh: true}
agents:
  critic: {system: {$contains: the critic}}
  writer: {system: {$not: {$contains: the critic}}}
turns:
  - user: Who wrote Faust?
    replies: {critic: "It was Goethe.\\nSure.", writer: Goethe did.}
"""
MUTATIONS = {
    "the question is lost": ("Question: {text}\\nFindings", "Findings"),
    "what the critic found is lost": ("{found}", ""),
    "the instructions are others": ("You are the writer.", "You are the second editor."),
}


@pytest.fixture
def claims(tmp_path: Path) -> str:
    (tmp_path / "prompts_app.py").write_text(PROMPTS_APP, encoding="utf-8")
    return accepted(PROMPTS_SCENARIO, tmp_path, propose_claims).text


def test_a_claim_on_a_long_prompt_names_what_flows_into_it(claims: str) -> None:
    assert (
        """
        writer:
          messages:
            - system: {$starts: "# SYSTEM", $contains: You are the writer.}
            - user:
                $starts: Below is all that the team knows so far. Below is all that t
                $contains: [Who wrote Faust?, It was Goethe.]
"""
        in claims
    )


@pytest.mark.parametrize("mutation", MUTATIONS.values(), ids=MUTATIONS)
def test_a_first_claim_notices(tmp_path: Path, claims: str, mutation: tuple[str, str]) -> None:
    old, new = mutation
    file = str(tmp_path / "a.scenario.yaml")
    assert failing_claims(file, claims) == []

    changed = PROMPTS_APP.replace(old, new)
    assert changed != PROMPTS_APP
    (tmp_path / "prompts_app.py").write_text(changed, encoding="utf-8")

    assert [finding for finding in failing_claims(file, claims) if "writer" in finding.what] != []
