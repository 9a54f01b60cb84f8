"""A model's tool calls have ids as its provider makes them, and are known again by those."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.adapters.running import run_app

CODE = """
import json
import urllib.request

LOOK = {"name": "look", "parameters": {"type": "object", "properties": {}}}

def sent(path, **body):
    url = f"https://llm.example.test/{path}"
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request) as response:
        return json.load(response)

def completed(messages):
    tools = [{"type": "function", "function": LOOK}]
    answer = sent("v1/chat/completions", model="m", messages=messages, tools=tools)
    return answer["choices"][0]["message"]

def openai_chat(text):
    return completed([{"role": "user", "content": text}])["tool_calls"][0]["id"]

def openai_responses(text):
    tools = [{"type": "function", **LOOK}]
    return sent("v1/responses", model="m", input=text, tools=tools)["output"][-1]["call_id"]

def anthropic(text):
    messages = [{"role": "user", "content": text}]
    tools = [{"name": "look", "input_schema": LOOK["parameters"]}]
    found = sent("v1/messages", model="m", max_tokens=9, messages=messages, tools=tools)
    return found["content"][-1]["id"]

def gemini(text):
    contents = [{"role": "user", "parts": [{"text": text}]}]
    tools = [{"functionDeclarations": [LOOK]}]
    found = sent("v1beta/models/m:generateContent", contents=contents, tools=tools)
    return found["candidates"][0]["content"]["parts"][-1]["functionCall"]["id"]

def particular(text):
    messages = [{"role": "user", "content": text}]
    said = completed(messages)
    call = said["tool_calls"][0]
    if not call["id"].startswith("call_"):
        # As some frameworks do with the ids of another provider.
        call["id"] = "call_0"
    answer = {"role": "tool", "tool_call_id": call["id"], "content": "grey"}
    return completed([*messages, said, answer])["content"]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "call_ids_app.py").write_text(CODE, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("provider", "made"),
    [
        ("openai_chat", "call_000000000000000000000001"),
        ("openai_responses", "call_000000000000000000000001"),
        ("anthropic", "toolu_000000000000000000000001"),
        ("gemini", "call1"),
    ],
)
def test_a_call_has_an_id_as_its_provider_makes_it(provider: str, made: str, folder: Path) -> None:
    scenario = f"""
        agents: {{desk: {{tools: [look]}}}}
        lints: {{FLW-07: the call is not what is tested}}
        turns:
          - user: Look
            replies: {{desk: {{calls: [look: {{}}]}}}}
            expect: {{reply: {made}}}
    """

    ran = run_app(f"call_ids_app:{provider}", scenario, folder)

    assert ran.judgement.findings == ()


def test_a_program_that_takes_only_its_providers_ids_sends_the_calls_back_under_them(
    folder: Path,
) -> None:
    scenario = """
        agents: {desk: {tools: [look]}}
        turns:
          - user: Look
            replies: {desk: [{calls: [look: {}]}, It is grey.]}
            expect: {reply: It is grey., tool_calls: [{agent: desk, tool: look, result: grey}]}
    """

    ran = run_app("call_ids_app:particular", scenario, folder)

    assert ran.judgement.findings == ()
