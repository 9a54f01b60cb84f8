"""Replies in the bytes of every provider, whole and streamed: `golden/<protocol>-replies.txt`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from simkit.core.messages import Message, ToolCall
from simkit.providers.http import HttpRequest
from simkit.providers.protocols import PROTOCOLS
from simkit.providers.streams import frames_of
from simkit.providers.values import Protocol
from tests.golden import assert_file_is
from tests.providers.replies import make_reply

GOLDEN = Path(__file__).parent / "golden"
CALLS = (ToolCall("call_1", "book", {"city": "Zürich"}), ToolCall("call_2", "book", {}))
GEMINI = "https://h/v1beta/models/gemini-x"
BEDROCK = "https://h/model/us.anthropic.claude-x"
TALK: Any = {"messages": [{"role": "user", "content": [{"text": "Hello"}]}]}
USER: Any = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}
REQUESTS: dict[str, tuple[tuple[str, Any], ...]] = {
    "openai-chat": (
        ("https://h/v1/chat/completions", USER),
        (
            "https://h/v1/chat/completions",
            {**USER, "stream": True, "stream_options": {"include_usage": True}},
        ),
    ),
    "openai-responses": (
        ("https://h/v1/responses", {"model": "m", "input": "Hello"}),
        ("https://h/v1/responses", {"model": "m", "input": "Hello", "stream": True}),
    ),
    "anthropic": (
        ("https://h/v1/messages", {**USER, "max_tokens": 64}),
        ("https://h/v1/messages", {**USER, "max_tokens": 64, "stream": True}),
    ),
    "gemini": (
        (f"{GEMINI}:generateContent", {"contents": []}),
        (f"{GEMINI}:streamGenerateContent?alt=sse", {"contents": []}),
    ),
    "bedrock": tuple((f"{BEDROCK}/{verb}", TALK) for verb in ("converse", "converse-stream")),
    "anthropic-bedrock": tuple(
        (f"{BEDROCK}/{verb}", {"messages": USER["messages"], "max_tokens": 64})
        for verb in ("invoke", "invoke-with-response-stream")
    ),
    "cohere": tuple(("https://h/v2/chat", {**USER, "stream": each}) for each in (False, True)),
    "ollama": tuple(("http://h/api/chat", {**USER, "stream": each}) for each in (False, True)),
}
"""A request of each protocol, and one that asks for a stream."""
REASONING: dict[str, Any] = {
    "openai-chat": [{"type": "reasoning_text", "text": "They said two nights."}],
    "openai-responses": [
        {
            "id": "rs_1",
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": "They said two nights."}],
            "encrypted_content": "gAAAA",
        }
    ],
    "anthropic": [
        {"type": "thinking", "thinking": "They said two nights.", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "ZW5j"},
    ],
    "gemini": [
        {"text": "They said two nights.", "thought": True},
        {"thoughtSignature": "c2ln"},
        {"thoughtSignature": "b24=", "call": 0},
    ],
}
REASONING["anthropic-bedrock"] = REASONING["bedrock"] = REASONING["anthropic"]
REASONING["cohere"] = REASONING["ollama"] = REASONING["openai-chat"]


def rendered(protocol: Protocol, message: Message) -> Iterator[str]:
    """Yield the headers and the body of a reply, and each chunk of it as a stream."""
    for url, body in REQUESTS[protocol.name]:
        request = protocol.parse_request(HttpRequest("POST", url, body=json.dumps(body).encode()))
        response = protocol.served(make_reply(message, chunks=2), request)
        yield f"# {'streamed' if request.is_streamed else 'whole'}: {response.status}"
        yield from (f"{name}: {value}" for name, value in response.headers)
        if request.is_streamed:
            frames = [f"{frame.name} {frame.content.decode()}" for frame in frames_of(response)]
            yield from frames or (chunk.decode().rstrip("\n") for chunk in response.chunks)
        else:
            yield json.dumps(json.loads(response.body), indent=2, ensure_ascii=False)


@pytest.mark.golden
@pytest.mark.parametrize("name", PROTOCOLS)
def test_replies_are_rendered_as_the_provider_sends_them(name: str) -> None:
    messages = (
        Message("assistant", "One moment.", calls=CALLS),
        Message("assistant", "Done.", calls=CALLS[:1], data={"reasoning": REASONING[name]}),
        Message("assistant", "I must not.", data={"refusal": "I must not."}),
    )

    lines = [line for message in messages for line in rendered(PROTOCOLS[name], message)]

    assert_file_is(GOLDEN / f"{name}-replies.txt", "\n".join(lines) + "\n")
