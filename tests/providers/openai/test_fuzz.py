"""Bodies that are damaged: OpenAI's interfaces read them, or say which field is wrong."""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.core.errors import WireInvalid
from simkit.core.messages import Message, ToolCall, Usage
from simkit.providers.http import HttpRequest, HttpResponse
from simkit.providers.openai.chat import PROTOCOL as CHAT
from simkit.providers.openai.responses import PROTOCOL as RESPONSES
from simkit.providers.values import OutgoingReply, ParsedRequest, ParsedResponse, Protocol

PATHS = {CHAT.name: "/v1/chat/completions", RESPONSES.name: "/v1/responses"}
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
BODIES: dict[str, tuple[Protocol, Any]] = {
    CHAT.name: (CHAT, CHAT_BODY),
    RESPONSES.name: (RESPONSES, RESPONSES_BODY),
}
REPLY = OutgoingReply(
    "c1",
    Message(
        "assistant",
        "Grüezi, wie kann ich helfen?",
        calls=(ToolCall("c1", "f", {"a": "ü"}), ToolCall("c2", "g", "x")),
        data={"reasoning": [{"type": "reasoning", "id": "rs_1", "summary": []}]},
    ),
    Usage(3, 4),
)
WRONG = ["null", "true", "3", "-1", "2.5", '""', '"x"', '"["', "[]", "{}", "[null]", '{"type":"x"}']


def request(protocol: Protocol, body: bytes) -> HttpRequest:
    return HttpRequest("POST", "https://api.test" + PATHS[protocol.name], body=body)


def read(protocol: Protocol, body: bytes) -> ParsedRequest | None:
    """What the request asks; None where it is refused."""
    with contextlib.suppress(WireInvalid):
        return protocol.parse_request(request(protocol, body))
    return None


def listened(
    protocol: Protocol, response: HttpResponse, parsed_request: ParsedRequest
) -> ParsedResponse | None:
    """What the response says; None where it is refused."""
    with contextlib.suppress(WireInvalid):
        return protocol.parse_response(response, parsed_request)
    return None


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every place inside a value: its container and its key there."""
    results = []
    steps = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in steps:
        results.append((value, key))
        if isinstance(inner, dict | list):
            results += places(inner)
    return results


def mutated(draw: st.DrawFn, body: Any) -> Any:
    """The body with one to three fields gone or of another kind."""
    changed = msgspec.json.decode(msgspec.json.encode(body))
    for _ in range(draw(st.integers(1, 3))):
        container, key = draw(st.sampled_from(places(changed)))
        if draw(st.booleans()) and isinstance(container, dict):
            del container[key]
        else:
            container[key] = msgspec.json.decode(draw(st.sampled_from(WRONG)))
        if not places(changed):
            break
    return changed


@pytest.mark.parametrize("name", BODIES)
@given(data=st.data())
def test_a_mutated_request_is_read_or_refused(name: str, data: st.DataObject) -> None:
    protocol, body = BODIES[name]
    changed = data.draw(st.composite(mutated)(body))

    read(protocol, msgspec.json.encode(changed))


@pytest.mark.parametrize("name", BODIES)
def test_a_truncated_request_is_refused_at_every_length(name: str) -> None:
    protocol, body = BODIES[name]
    encoded = msgspec.json.encode(body)

    count = [length for length in range(len(encoded)) if read(protocol, encoded[:length])]

    assert count == []
    assert read(protocol, encoded) is not None


@pytest.mark.parametrize("name", BODIES)
@given(body=st.binary(max_size=200))
def test_bytes_that_are_no_request_are_refused(name: str, body: bytes) -> None:
    assert read(BODIES[name][0], body) is None


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("is_streamed", [False, True])
@given(data=st.data())
def test_a_mutated_response_is_read_or_refused(
    name: str, is_streamed: bool, data: st.DataObject
) -> None:
    protocol, body = BODIES[name]
    parsed_request = protocol.parse_request(
        request(protocol, msgspec.json.encode({**body, "stream": is_streamed}))
    )
    whole = protocol.served(REPLY, parsed_request)
    position = data.draw(st.integers(0, len(whole.chunks) - 1))
    chunks = list(whole.chunks)
    prefix, _, encoded = chunks[position].rpartition(b"data: ")
    if b"[DONE]" not in encoded:
        changed = data.draw(st.composite(mutated)(msgspec.json.decode(encoded)))
        chunks[position] = prefix + (b"data: " if is_streamed else b"")
        chunks[position] += msgspec.json.encode(changed) + (b"\n\n" if is_streamed else b"")

    listened(protocol, HttpResponse(200, whole.headers, tuple(chunks)), parsed_request)


@pytest.mark.parametrize("name", BODIES)
def test_a_stream_cut_at_any_byte_is_a_cut_stream_with_what_had_come(name: str) -> None:
    protocol, body = BODIES[name]
    parsed_request = protocol.parse_request(request(protocol, msgspec.json.encode(body)))
    whole = protocol.served(REPLY, parsed_request)

    texts = []
    for length in range(len(whole.body) - len(whole.chunks[-1])):
        cut = HttpResponse(200, whole.headers, (whole.body[:length],), "cut")
        parsed = protocol.parse_response(cut, parsed_request)
        assert parsed.error is not None, length
        assert parsed.error.kind == "cut_stream", length
        texts.append(parsed.message.content)
    assert texts == sorted(texts, key=len)
    assert set(texts) == {"", "Grüezi, wie kann ich", REPLY.message.content}


@pytest.mark.parametrize("name", BODIES)
@given(body=st.binary(max_size=200), status=st.sampled_from([200, 404, 503]))
def test_bytes_that_are_no_response_are_refused_or_an_error(
    name: str, body: bytes, status: int
) -> None:
    protocol, whole = BODIES[name]
    parsed_request = protocol.parse_request(request(protocol, msgspec.json.encode(whole)))

    parsed = listened(protocol, HttpResponse(status, (), (body,)), parsed_request)

    assert (parsed is None or parsed.error is not None) if status == 200 else parsed is not None


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("depth", [100, 900, 950, 970, 980, 990, 1000, 100_000])
def test_a_body_that_is_nested_deep_is_read_or_refused(name: str, depth: int) -> None:
    protocol, body = BODIES[name]
    deep = "[" * depth + "]" * depth
    fields = {**body, "input": [], "messages": [], "metadata": 0}
    encoded = msgspec.json.encode(fields).replace(b'"metadata":0', f'"metadata":{deep}'.encode())

    read(protocol, encoded)
    output = f'{{"output":[{{"type":"shell_call_output","output":{deep}}}]}}'.encode()
    read(protocol, f'{{"model":"m","input":{output.decode()[10:-1]}}}'.encode())
    listened(protocol, HttpResponse(200, (), (output,)), ParsedRequest(protocol.name, "m", ()))
    error = f'{{"error":{deep}}}'.encode()
    listened(protocol, HttpResponse(400, (), (error,)), ParsedRequest(protocol.name, "m", ()))
