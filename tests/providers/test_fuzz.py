"""Bodies that are damaged: every protocol reads them, or says which field is wrong."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.core.errors import WireInvalid
from simkit.core.messages import Message, ToolCall, Usage
from simkit.providers import eventstream, sse, streams
from simkit.providers.http import HttpRequest, HttpResponse
from simkit.providers.protocols import PROTOCOLS
from simkit.providers.values import OutgoingReply, ParsedRequest, ParsedResponse, Protocol
from tests.providers import mutants
from tests.providers.anthropic import test_messages as anthropic
from tests.providers.gemini import test_generate as gemini

IMAGE = "data:image/png;base64,iVBORw0KGgo="
CHAT_BODY = {
    "model": "m",
    "messages": [
        {"role": "system", "content": [{"type": "text", "text": "Book rooms."}]},
        {"role": "user", "name": "ann", "content": [
            {"type": "text", "text": "Zürich?"},
            {"type": "image_url", "image_url": {"url": IMAGE, "detail": "low"}},
            {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
            {"type": "file", "file": {"file_id": "file-1", "filename": "a.pdf"}}]},
        {"role": "assistant", "content": None, "refusal": None, "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{\"a\":1}"}},
            {"id": "c2", "type": "custom", "custom": {"name": "g", "input": "x"}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "{\"b\":[2]}"},
        {"role": "assistant", "function_call": {"name": "h", "arguments": ""}},
        {"role": "function", "name": "h", "content": "done"},
    ],
    "tools": [
        {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}},
        {"type": "custom", "custom": {"name": "g"}}],
    "tool_choice": {"type": "function", "function": {"name": "f"}},
    "response_format": {"type": "json_schema", "json_schema": {"name": "o", "schema": {}}},
    "stream": True,
    "stream_options": {"include_usage": True},
}  # fmt: skip
RESPONSES_BODY = {
    "model": "m",
    "instructions": "Book rooms.",
    "input": [
        {"role": "user", "content": [
            {"type": "input_text", "text": "Zürich?"},
            {"type": "input_image", "image_url": IMAGE, "detail": "low"},
            {"type": "input_file", "file_id": "file-1"}]},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
        {"type": "message", "id": "msg_1", "role": "assistant", "content": [
            {"type": "output_text", "text": "One moment."}, {"type": "refusal", "refusal": "No."}]},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{\"a\":1}"},
        {"type": "web_search_call", "id": "ws_1", "action": {"type": "search"}},
        {"type": "shell_call", "call_id": "c2", "action": {"commands": ["ls"]}},
        {"type": "function_call_output", "call_id": "c1", "output": "{\"b\":[2]}"},
        {"type": "shell_call_output", "call_id": "c2", "output": [{"stdout": "x"}]},
        {"type": "item_reference", "id": "msg_c0"},
    ],
    "tools": [
        {"type": "function", "name": "f", "parameters": {"type": "object"}},
        {"type": "web_search"}],
    "tool_choice": {"type": "function", "name": "f"},
    "text": {"format": {"type": "json_schema", "name": "o", "schema": {}}, "verbosity": "low"},
    "previous_response_id": "resp_c0",
    "stream": True,
}  # fmt: skip
BEDROCK_BODY = {
    "system": [{"text": "Book rooms."}, {"cachePoint": {"type": "default"}}],
    "messages": [
        {"role": "user", "content": [
            {"text": "Zürich?"},
            {"image": {"format": "png", "source": {"bytes": "iVBORw0KGgo="}}},
            {"document": {"format": "pdf", "name": "a", "source": {"s3Location": {"uri": "s3://a"}}}},
            {"document": {"name": "b", "source": {"content": [{"text": "A page."}]}}},
            {"video": {"format": "mp4", "source": {"bytes": "AAAA"}}},
            {"guardContent": {"text": {"text": "Guarded."}}},
            {"searchResult": {"source": "https://a", "title": "A", "content": [{"text": "B"}]}}]},
        {"role": "assistant", "content": [
            {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "c2ln"}}},
            {"reasoningContent": {"redactedContent": "ZW5j"}},
            {"citationsContent": {"content": [{"text": "One moment."}], "citations": []}},
            {"toolUse": {"toolUseId": "c1", "name": "f", "input": {"a": 1}}}]},
        {"role": "user", "content": [
            {"toolResult": {"toolUseId": "c1", "status": "error", "content": [
                {"json": {"b": [2]}}, {"text": "x"}]}},
            {"cachePoint": {"type": "default"}}]},
    ],
    "toolConfig": {
        "tools": [
            {"toolSpec": {"name": "f", "description": "F", "inputSchema": {"json": {}}}},
            {"systemTool": {"name": "nova_grounding"}}, {"cachePoint": {"type": "default"}}],
        "toolChoice": {"tool": {"name": "f"}}},
    "outputConfig": {"textFormat": {"structure": {"jsonSchema": {"schema": "{}"}}}},
    "inferenceConfig": {"maxTokens": 9},
}  # fmt: skip
COHERE_BODY = {
    "model": "m",
    "messages": [
        {"role": "system", "content": "Book rooms."},
        {"role": "user", "content": [
            {"type": "text", "text": "Zürich?"},
            {"type": "image_url", "image_url": {"url": IMAGE}}]},
        {"role": "assistant", "tool_plan": "One moment.", "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{\"a\":1}"}}]},
        {"role": "tool", "tool_call_id": "c1", "content": [
            {"type": "document", "document": {"data": {"b": [2]}}}, {"type": "text", "text": "x"}]},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "Done."}]},
    ],
    "documents": ["One.", {"id": "d", "data": {"text": "Two."}}],
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
    "tool_choice": "REQUIRED",
    "response_format": {"type": "json_object", "json_schema": {"type": "object"}},
    "strict_tools": True,
    "stream": True,
}  # fmt: skip
OLLAMA_BODY = {
    "model": "m",
    "messages": [
        {"role": "system", "content": "Book rooms."},
        {"role": "user", "content": "Zürich?", "images": ["iVBORw0KGgo="]},
        {"role": "assistant", "content": "", "thinking": "Hm.", "tool_calls": [
            {"function": {"name": "f", "arguments": {"a": 1}}},
            {"id": "c2", "function": {"name": "g", "arguments": {}}}]},
        {"role": "tool", "tool_name": "f", "content": "{\"b\":[2]}"},
        {"role": "tool", "tool_call_id": "c2", "content": "x"},
    ],
    "prompt": "Zürich?", "system": "Book rooms.", "images": ["iVBORw0KGgo="], "context": [1, 2],
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
    "format": {"type": "object"},
    "options": {"temperature": 0},
    "think": True,
    "stream": True,
}  # fmt: skip
BEDROCK = "https://bedrock.test/model/us.anthropic.claude"
REPLY = Message(
    "assistant",
    "Grüezi, wie kann ich helfen?",
    calls=(ToolCall("c1", "f", {"a": "ü"}), ToolCall("c2", "g", "x")),
    data={"reasoning": [{"type": "reasoning", "id": "rs_1", "summary": []}]},
)


class Case(NamedTuple):
    """One protocol, a good request, and good replies."""

    protocol: Protocol
    urls: tuple[str, ...]
    body: Any
    replies: Iterable[Message] = (REPLY,)

    def requests(self) -> list[HttpRequest]:
        """The good request, streamed and not."""
        bodies = [{**self.body, "stream": is_streamed} for is_streamed in (False, True)]
        return [
            HttpRequest("POST", url, body=json.dumps(body).encode())
            for url in self.urls
            for body in bodies
        ]

    def responses(self) -> list[HttpResponse]:
        """The good replies to each of these requests."""
        return [
            self.protocol.served(OutgoingReply("c1", reply, Usage(3, 4)), parsed)
            for parsed in map(self.protocol.parse_request, self.requests())
            for reply in self.replies
        ]


CASES = {
    "openai-chat": Case(
        PROTOCOLS["openai-chat"], ("https://api.test/v1/chat/completions",), CHAT_BODY
    ),
    "openai-responses": Case(
        PROTOCOLS["openai-responses"], ("https://api.test/v1/responses",), RESPONSES_BODY
    ),
    "anthropic": Case(
        PROTOCOLS["anthropic"],
        (anthropic.URL,),
        anthropic.GOOD_REQUEST,
        anthropic.MESSAGES.values(),
    ),
    "gemini": Case(
        PROTOCOLS["gemini"],
        (gemini.PLAIN, gemini.EVENTS, gemini.LISTED),
        gemini.GOOD_REQUEST,
        gemini.MESSAGES.values(),
    ),
    "bedrock": Case(
        PROTOCOLS["bedrock"], (f"{BEDROCK}/converse", f"{BEDROCK}/converse-stream"), BEDROCK_BODY
    ),
    "anthropic-bedrock": Case(
        PROTOCOLS["anthropic-bedrock"],
        (f"{BEDROCK}/invoke", f"{BEDROCK}/invoke-with-response-stream"),
        anthropic.GOOD_REQUEST,
        anthropic.MESSAGES.values(),
    ),
    "cohere": Case(PROTOCOLS["cohere"], ("https://api.test/v2/chat",), COHERE_BODY),
    "ollama": Case(
        PROTOCOLS["ollama"], ("http://h.test/api/generate", "http://h.test/api/chat"), OLLAMA_BODY
    ),
}
STREAMED_AS = {
    "anthropic-bedrock": eventstream.CONTENT_TYPE,
    "bedrock": eventstream.CONTENT_TYPE,
    "ollama": streams.LINES,
}
"""Streams that are known by their header alone."""


def framed(name: str, event: str, value: Any) -> bytes:
    """One event in a protocol's framing."""
    data = json.dumps(value).encode()
    if name == "anthropic-bedrock":
        data = eventstream.chunk_of(data)
    if name.endswith("bedrock"):
        return eventstream.frame(data, event)
    return data + b"\n" if name == "ollama" else b"event: x\ndata: " + data + b"\n\n"


def mutated_responses(case: Case) -> st.SearchStrategy[bytes]:
    """Good responses with another value somewhere, or cut."""
    responses = case.responses()
    good = [
        [(event, json.loads(data)) for event, data in streams.events(response) if data != sse.DONE]
        for response in responses
        if streams.is_stream(response)
    ]
    whole = [response.body for response in responses if not streams.is_stream(response)]
    return (
        mutants.bodies([json.loads(body) for body in whole])
        | mutants.streams(good, lambda *event: framed(case.protocol.name, *event))
        | st.sampled_from(whole).flatmap(
            lambda body: st.integers(0, len(body)).map(lambda end: body[:end])
        )
    )


REQUESTS = {
    name: mutants.bodies([case.body, *([gemini.SNAKE] if name == "gemini" else [])])
    for name, case in CASES.items()
}
RESPONSES = {name: mutated_responses(case) for name, case in CASES.items()}


@pytest.mark.parametrize("name", CASES)
@given(data=st.data())
def test_any_request_is_read_or_refused(name: str, data: st.DataObject) -> None:
    case = CASES[name]
    url, body = data.draw(st.sampled_from(case.urls)), data.draw(REQUESTS[name])

    with contextlib.suppress(WireInvalid):
        parsed = case.protocol.parse_request(HttpRequest("POST", url, body=body))
        assert isinstance(parsed, ParsedRequest)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
@given(
    data=st.data(),
    status=st.sampled_from([200, 400, 503, 529]),
    ends=st.sampled_from(["", "cut", "timeout"]),
)
def test_any_response_is_heard_or_refused(
    name: str, data: st.DataObject, status: int, ends: str
) -> None:
    protocol, body = CASES[name].protocol, data.draw(RESPONSES[name])
    parsed_request = ParsedRequest(protocol.name, "m", ())

    with contextlib.suppress(WireInvalid):
        kind = STREAMED_AS.get(name, "") if data.draw(st.booleans()) else ""
        response = HttpResponse(status, (("content-type", kind),), (body,), ends)
        parsed = protocol.parse_response(response, parsed_request)
        assert isinstance(parsed, ParsedResponse)
        assert status == 200 or parsed.error is not None


@pytest.mark.parametrize("name", CASES)
def test_a_truncated_request_is_refused_at_every_length(name: str) -> None:
    case = CASES[name]
    request = case.requests()[0]

    assert case.protocol.parse_request(request)
    for length in range(len(request.body)):
        with pytest.raises(WireInvalid):
            case.protocol.parse_request(HttpRequest("POST", request.url, (), request.body[:length]))


@pytest.mark.parametrize("name", CASES)
def test_a_stream_cut_at_any_byte_is_a_cut_stream_with_what_had_come(name: str) -> None:
    case = CASES[name]
    parsed_request = case.protocol.parse_request(case.requests()[-1 if name != "gemini" else 2])
    whole = case.protocol.served(OutgoingReply("c1", REPLY, Usage(3, 4)), parsed_request)

    texts = []
    for length in range(len(whole.body) - len(whole.chunks[-1])):
        cut = HttpResponse(200, whole.headers, (whole.body[:length],), "cut")
        parsed = case.protocol.parse_response(cut, parsed_request)
        assert parsed.error is not None, length
        assert parsed.error.kind == "cut_stream", length
        texts.append(parsed.message.content)
    assert texts == sorted(texts, key=len)
    assert set(texts) == {"", "Grüezi, wie kann ich", REPLY.content}


@pytest.mark.parametrize("name", ["openai-chat", "openai-responses"])
@pytest.mark.parametrize("depth", [100, 900, 950, 970, 980, 990, 1000, 100_000])
def test_a_body_that_is_nested_deep_is_read_or_refused(name: str, depth: int) -> None:
    protocol, (url,), body, _ = CASES[name]
    deep = "[" * depth + "]" * depth
    fields = {**body, "input": [], "messages": [], "metadata": 0}
    output = f'[{{"type":"shell_call_output","output":{deep}}}]'

    answers = {200: f'{{"output":{output}}}', 400: f'{{"error":{deep}}}'}
    is_read = []
    for text in (
        json.dumps(fields).replace('"metadata": 0', f'"metadata":{deep}'),
        f'{{"model":"m","input":{output}}}',
    ):
        with contextlib.suppress(WireInvalid):
            parsed = protocol.parse_request(HttpRequest("POST", url, body=text.encode()))
            is_read.append(parsed.model == "m")
    for status, text in answers.items():
        response = HttpResponse(status, (), (text.encode(),))
        with contextlib.suppress(WireInvalid):
            answer = protocol.parse_response(response, ParsedRequest(protocol.name, "m", ()))
            is_read.append((answer.error is not None) == (status == 400))
    assert all(is_read)
    assert is_read or depth == 100_000
