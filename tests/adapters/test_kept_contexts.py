"""Contexts that a provider keeps, counts or hides, asked for by the providers' own clients."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from simkit.core.errors import SimkitError, SourceError
from tests.adapters.running import run_app
from tests.building import Ran

CODE = """
import os
import anthropic
import httpx
import openai
from google import genai

LAST = {}


def claude(text, **more):
    made = anthropic.Anthropic().beta.messages.create(
        model="claude", max_tokens=9, system="Be brief.",
        messages=[{"role": "user", "content": text}], **more)
    return made


def thread(text):
    kind = {"type": "continue", "previous_message_id": LAST["id"]} if LAST else {"type": "create"}
    made = claude(text, thread=kind)
    LAST["id"] = made.id
    return made.content[0].text


def lost(text):
    return claude(text, thread={"type": "continue", "previous_message_id": "msg_x"}).id


def chain(text):
    return openai.OpenAI().responses.create(
        model="m", input=text, previous_response_id="resp_x").output_text


def cached(text):
    client = genai.Client()
    made = client.models.generate_content(
        model="g", contents=text, config={"cached_content": "cachedContents/abc"})
    return made.text


def stored(text):
    made = openai.OpenAI().responses.create(prompt={"id": "pmpt_1"}, input=text)
    return made.output_text


def count(text):
    message = [{"role": "user", "content": text}]
    one = anthropic.Anthropic().messages.count_tokens(model="c", messages=message).input_tokens
    two = openai.OpenAI().responses.input_tokens.count(model="m", input=text).input_tokens
    client = genai.Client()
    three = client.models.count_tokens(model="g", contents=text).total_tokens
    return f"{one} {two} {three}"


def fragment(text):
    made = httpx.post("https://api.openai.com/v1/chat/completions#stream", json={
        "model": "m", "messages": [{"role": "user", "content": text}]})
    return made.json()["choices"][0]["message"]["content"]


def bedrock(text):
    url = "https://bedrock-runtime.eu-west-1.amazonaws.com/model/amazon.nova/invoke"
    return httpx.post(url, json={"messages": [{"role": "user", "content": [{"text": text}]}]}).text
"""


def run(folder: Path, name: str, turns: str) -> Ran:
    (folder / "kept_desk.py").write_text(CODE, encoding="utf-8")
    head = "app: {path: [.], fresh: true}\nagents: {desk: {messages: {$len: {$gt: 0}}}}\n"
    return run_app(f"kept_desk:{name}", head + dedent(turns), folder)


def test_a_thread_of_anthropics_is_followed(tmp_path: Path) -> None:
    ran = run(tmp_path, "thread", """
        turns:
          - {user: Card 4711, replies: {desk: Noted.}}
          - user: Pay it
            replies: {desk: Paid.}
            expect:
              context:
                desk:
                  messages: [system: Be brief., user: Card 4711, assistant: Noted., user: Pay it]
    """)  # fmt: skip

    assert [finding.what for finding in ran.judgement.findings] == []
    denied = run(tmp_path, "thread", """
        turns:
          - {user: Card 4711, replies: {desk: Noted.}}
          - user: Pay it
            replies: {desk: Paid.}
            expect: {context: {desk: {excludes: [{$contains: "4711"}]}}}
    """)  # fmt: skip
    assert [finding.id for finding in denied.judgement.findings] == ["claim"]


@pytest.mark.parametrize(
    ("name", "field"), [("lost", "thread.previous_message_id"), ("chain", "previous_response_id")]
)
def test_what_was_never_served_is_an_error(name: str, field: str, tmp_path: Path) -> None:
    with pytest.raises((SimkitError, SourceError), match=f"{field}: no response"):
        run(tmp_path, name, "turns: [{user: Hello, replies: {desk: Hi}}]")


@pytest.mark.parametrize("name", ["cached", "stored"])
@pytest.mark.parametrize(
    ("claim", "is_known"),
    [
        ("includes: [{user: Hello}]", True),
        ("settings: {}", True),
        ("excludes: [{$contains: secret}]", False),
        ("messages: [{user: Hello}]", False),
        ("tokens: {$lt: 99}", False),
    ],
)
def test_of_half_a_context_only_what_is_there_is_claimed(
    name: str, claim: str, is_known: bool, tmp_path: Path
) -> None:
    claim = claim.replace("settings: {}", "tools: []")
    expect = f"{{context: {{desk: {{{claim}}}}}}}"
    ran = run(tmp_path, name, f"turns: [{{user: Hello, replies: {{desk: Hi}}, expect: {expect}}}]")
    problems = [finding.what for finding in ran.judgement.findings]

    assert ("is not observable: the provider adds" in "".join(problems)) is not is_known
    assert len(problems) == (not is_known)


def test_tokens_are_counted_and_no_model_is_called(tmp_path: Path) -> None:
    ran = run(tmp_path, "count", "turns: [{user: Hello you, expect: {reply: 3 3 3}}]")

    assert [finding.what for finding in ran.judgement.findings] == []
    assert ran.view.calls == {}


def test_a_path_with_a_fragment_is_a_model_call(tmp_path: Path) -> None:
    expect = "{context: {desk: {messages: [{user: Hello}]}}, reply: Hi}"
    scenario = f"turns: [{{user: Hello, replies: {{desk: Hi}}, expect: {expect}}}]"

    assert [
        finding.what for finding in run(tmp_path, "fragment", scenario).judgement.findings
    ] == []


def test_a_provider_that_is_not_spoken_is_refused_with_those_that_are(tmp_path: Path) -> None:
    ran = run(tmp_path, "bedrock", "turns: [{user: Hello}]")

    assert ran.view.error is not None
    assert (
        "that is Bedrock's InvokeModel of another model, which simkit does not"
        in ran.view.error.message
    )
    assert "openai-chat, openai-responses, anthropic, gemini" in ran.view.error.message
    assert "`cassette`" in ran.view.error.message
