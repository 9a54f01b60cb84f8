"""First claims on long prompts name what flows into them, and what distinguishes instructions."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.update.running import accepted, failing_claims, propose_claims

APP = """
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
SCENARIO = """\
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
    (tmp_path / "prompts_app.py").write_text(APP, encoding="utf-8")
    return accepted(SCENARIO, tmp_path, propose_claims).text


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

    changed = APP.replace(old, new)
    assert changed != APP
    (tmp_path / "prompts_app.py").write_text(changed, encoding="utf-8")

    assert [finding for finding in failing_claims(file, claims) if "writer" in finding.what] != []
