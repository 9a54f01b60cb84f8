"""What compatible servers and their clients leave out, or send beside what OpenAI sends."""

from __future__ import annotations

from typing import Any

import openai
import pytest

from simkit.core.errors import WireInvalid
from simkit.core.messages import Message, ToolCall, Usage
from simkit.providers import sse
from simkit.providers.body_reader import json_bytes, record_of
from simkit.providers.http import HttpRequest, HttpResponse
from simkit.providers.protocols import PROTOCOLS
from simkit.providers.values import OutgoingReply, ParsedRequest

CHAT, RESPONSES, GEMINI = (PROTOCOLS[n] for n in ("openai-chat", "openai-responses", "gemini"))
USER = {"role": "user", "content": "Hello"}
FUNCTION = {"name": "look", "parameters": {"type": "object"}}
PARSED_REQUEST = ParsedRequest("openai-chat", "m", ())


def chat(**body: Any) -> ParsedRequest:
    whole = {"model": "m", "messages": [USER], **body}
    return CHAT.parse_request(
        HttpRequest("POST", "https://vllm/v1/chat/completions", (), json_bytes(whole))
    )


def responses(**body: Any) -> ParsedRequest:
    whole = {"model": "m", "input": "Hello", **body}
    return RESPONSES.parse_request(
        HttpRequest("POST", "https://o/v1/responses", (), json_bytes(whole))
    )


@pytest.mark.parametrize("tool", [
    {"type": "function", "function": FUNCTION}, {"function": FUNCTION},
    {"type": "function", **FUNCTION}, FUNCTION,
])  # fmt: skip
def test_a_tool_is_offered_however_it_is_wrapped(tool: dict[str, Any]) -> None:
    for parsed_request in (chat(tools=[tool]), responses(tools=[tool])):
        assert [(offer.name, offer.schema) for offer in parsed_request.offers] == [
            ("look", {"type": "object"})
        ]


@pytest.mark.parametrize("choice", [
    {"type": "function", "name": "look"}, {"type": "function", "function": {"name": "look"}},
])  # fmt: skip
def test_a_tool_is_forced_however_it_is_named(choice: dict[str, Any]) -> None:
    assert chat(tool_choice=choice).choice == responses(tool_choice=choice).choice == "look"


PLACEHOLDERS: list[dict[str, Any]] = [
    {"custom": None}, {"custom": {}}, {"custom": {"name": "", "input": ""}},
]  # fmt: skip


@pytest.mark.parametrize("more", PLACEHOLDERS)
@pytest.mark.parametrize("kind", [{"type": "function"}, {}])
def test_a_call_with_an_empty_call_of_another_kind_is_one_call(
    more: dict[str, Any], kind: dict[str, Any]
) -> None:
    call = {"id": "c1", **kind, "function": {"name": "look", "arguments": "{}"}, **more}
    data = {
        "role": "assistant", "content": None, "tool_calls": [call],
        "function_call": {"name": "", "arguments": ""},
    }  # fmt: skip
    body = {"choices": [{"index": 0, "message": data, "finish_reason": None}], "usage": None}
    expected = (ToolCall("c1", "look", {}),)

    assert chat(messages=[USER, data]).messages[1].calls == expected
    parsed = CHAT.parse_response(HttpResponse(200, (), (json_bytes(body),)), PARSED_REQUEST)
    assert (parsed.message.calls, parsed.error) == (expected, None)
    streamed = (
        sse.frame({"choices": [{"index": 0, "delta": data}]}),
        sse.frame({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}}),
        sse.frame(sse.DONE),
    )
    parsed = CHAT.parse_response(HttpResponse(200, (), streamed), PARSED_REQUEST)
    assert (parsed.message.calls, parsed.error) == (expected, None)


def test_a_stream_without_reason_or_usage_has_not_ended() -> None:
    chunks = (sse.frame({"choices": [{"index": 0, "delta": {"content": "Hi"}}]}),)

    assert CHAT.parse_response(HttpResponse(200, (), chunks), PARSED_REQUEST).error is not None


def served(parsed_request: ParsedRequest) -> dict[str, Any]:
    reply = OutgoingReply("c1", Message("assistant", "Hello you"), Usage(1, 2))
    return dict(record_of(CHAT.served(reply, parsed_request).body))


@pytest.mark.parametrize("instructions", [None, "You are the desk."])
def test_a_response_repeats_its_instructions(instructions: str | None) -> None:
    body = {"model": "m", "input": "Hi", "instructions": instructions}
    request = RESPONSES.parse_request(HttpRequest("POST", "", (), json_bytes(body)))
    reply = OutgoingReply("c1", Message("assistant", "Hello you"), Usage(1, 2))

    assert record_of(RESPONSES.served(reply, request).body)["instructions"] == instructions


def test_several_answers_are_the_same_reply_and_probabilities_are_certain() -> None:
    body = served(chat(n=2, logprobs=True, top_logprobs=1, service_tier="auto"))
    model = openai.types.chat.ChatCompletion.model_validate(body)

    assert [(choice.index, choice.message.content) for choice in model.choices] == [
        (0, "Hello you"), (1, "Hello you"),
    ]  # fmt: skip
    logprobs = model.choices[1].logprobs
    assert logprobs is not None
    assert [(t.token, t.logprob, len(t.top_logprobs)) for t in logprobs.content or ()] == [
        ("Hello", 0.0, 1), (" you", 0.0, 1),
    ]  # fmt: skip
    assert model.service_tier == "default"
    assert "service_tier" not in served(chat())


def test_a_stream_of_several_answers_has_every_one_of_them_in_each_chunk() -> None:
    reply = OutgoingReply("c1", Message("assistant", "Hello you"), Usage(1, 2))
    chunks = CHAT.served(reply, chat(n=2, stream=True)).chunks

    texts = {0: "", 1: ""}
    for chunk in chunks[:-1]:
        ((_, data),) = sse.events(chunk)
        for choice in record_of(data)["choices"]:
            texts[choice["index"]] += choice["delta"].get("content") or ""
    assert texts == {0: "Hello you", 1: "Hello you"}


def gemini(**body: Any) -> ParsedRequest:
    url = "https://g/v1beta/models/m:generateContent"
    contents = [{"role": "user", "parts": [{"text": "Hi"}]}]
    return GEMINI.parse_request(
        HttpRequest("POST", url, (), json_bytes({"contents": contents, **body}))
    )


def test_a_key_in_both_spellings_is_read_once_and_not_if_they_disagree() -> None:
    reply, other = ({"parts": [{"text": text}]} for text in ("Be brief.", "Be long."))

    for body in (
        {"systemInstruction": reply, "system_instruction": None},
        {"system_instruction": None, "systemInstruction": reply},
        {"systemInstruction": reply, "system_instruction": reply},
    ):
        assert gemini(**body).messages[0].content == "Be brief."
    with pytest.raises(WireInvalid, match="stands there twice, as `system_instruction` too"):
        gemini(systemInstruction=reply, system_instruction=other)


@pytest.mark.parametrize("system", ["", [], [{"type": "text", "text": ""}]])
def test_empty_instructions_are_no_message(system: Any) -> None:
    body = {"model": "m", "messages": [USER], "max_tokens": 9, "system": system}
    request = HttpRequest("POST", "https://a/v1/messages?beta=true", (), json_bytes(body))

    assert [m.role for m in PROTOCOLS["anthropic"].parse_request(request).messages] == ["user"]
    assert [m.role for m in gemini(systemInstruction={"parts": [{"text": ""}]}).messages] == [
        "user"
    ]
    assert [m.role for m in responses(instructions="").messages] == ["user"]
