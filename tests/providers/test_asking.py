"""What is written for a provider says what it was made of: to simkit, and to its own library."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import pytest
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming
from google.genai import types as google
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming
from pydantic import TypeAdapter

from simkit.core.messages import Message, ToolCall
from simkit.providers.anthropic.messages import TOKENS_MAX
from simkit.providers.attachments import IS_ERROR, REASONING
from simkit.providers.protocols import PROTOCOLS, protocol_of
from simkit.providers.values import Offer, ParsedRequest
from simkit.spec.pipeline.models import PROVIDERS

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
names = st.sampled_from(["find", "book", "transfer_to_billing"])
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
)
arguments = st.dictionaries(texts, values, max_size=2)
schemas = st.sampled_from(
    [
        {"type": "object", "properties": {}},
        {
            "type": "object",
            "properties": {"order_id": {"type": ["string", "null"], "maxLength": 9}},
            "required": ["order_id"],
            "$defs": {"Order": {"type": "object"}},
        },
    ]
)
offers = st.lists(
    st.builds(Offer, names, schemas, texts), max_size=3, unique_by=lambda item: item.name
)
LENGTHS = {
    "openai-chat": "max_completion_tokens",
    "openai-responses": "max_output_tokens",
    "anthropic": "max_tokens",
    "gemini": "maxOutputTokens",
}


@st.composite
def contexts(draw: st.DrawFn) -> tuple[Message, ...]:
    """Draws messages: calls have ids of their own, and results, though not always at once."""
    messages: list[Message] = []
    waiting: list[ToolCall] = []
    number = 0
    for _ in range(draw(st.integers(0, 7))):
        role = draw(st.sampled_from(["system", "user", "assistant", "tool"]))
        if role == "tool" and waiting:
            call = waiting.pop(draw(st.integers(0, len(waiting) - 1)))
            messages.append(Message("tool", draw(texts), call_id=call.id, tool=call.name))
        elif role == "assistant":
            calls = []
            for _ in range(draw(st.integers(0, 2))):
                number += 1
                calls.append(ToolCall(f"call{number}", draw(names), draw(arguments)))
            waiting += calls
            messages.append(Message("assistant", draw(texts), calls=tuple(calls)))
        elif role != "tool":
            messages.append(Message(role, draw(texts)))
    return tuple(messages)


def questions(protocol: str) -> st.SearchStrategy[ParsedRequest]:
    return st.builds(
        ParsedRequest,
        st.just(protocol),
        st.sampled_from(["gpt-5-mini", "claude-haiku-4-5", "gemini-2.5-flash"]),
        contexts(),
        offers.map(tuple),
        st.sampled_from(["auto", "none", "required", "find"]),
        st.none() | schemas,
        st.fixed_dictionaries({LENGTHS[protocol]: st.integers(1, 99)}),
        st.booleans(),
    )


def words(message: Message) -> tuple[Any, ...]:
    """What a provider is told of a message."""
    return message.role, message.content, message.calls, message.call_id, message.tool


def carried(messages: Iterable[Message], protocol: str) -> list[Message]:
    """Returns messages as a protocol carries them, which is as they are but for what it says."""
    result: list[Message] = []
    is_front, front = True, list[str]()
    for message in messages:
        is_front = is_front and message.role == "system"
        if protocol in ("anthropic", "gemini") and is_front:
            front += [message.content] if message.content else []
        elif protocol == "gemini" and message.role == "system":
            result.append(Message("user", message.content))
        elif (
            protocol == "openai-responses" and message.role == "assistant" and message.calls
            and not message.content and result and result[-1].role == "assistant"
        ):  # fmt: skip
            calls = (*result[-1].calls, *message.calls)
            result[-1] = msgspec.structs.replace(result[-1], calls=calls)
        else:
            result.append(message)
    return [Message("system", "\n".join(front)), *result] if front else result


@pytest.mark.parametrize("name", PROVIDERS.values())
@pytest.mark.slow
@given(st.data())
def test_what_is_written_is_read_as_what_it_was_made_of(name: str, data: st.DataObject) -> None:
    protocol, call = PROTOCOLS[name], data.draw(questions(name))

    request = protocol.build_request(call)

    again = protocol.parse_request(request)
    assert protocol_of(request) is protocol
    assert [words(message) for message in again.messages] == [
        words(message) for message in carried(call.messages, name)
    ]
    assert (again.model, again.offers, again.choice, again.output, again.is_streamed) == (
        call.model, call.offers, call.choice, call.output, call.is_streamed
    )  # fmt: skip
    assert again.settings == call.settings
    assert protocol.parse_request(protocol.build_request(again)) == again


def forced(value: Any) -> Any:
    """Returns a value whose lazily validated lists have been gone through."""
    if isinstance(value, str | bytes):
        return value
    if isinstance(value, Mapping):
        return {key: forced(inner) for key, inner in value.items()}
    return [forced(inner) for inner in value] if isinstance(value, Iterable) else value


PARAMETERS: Mapping[str, Any] = {
    "openai-chat": TypeAdapter(CompletionCreateParamsNonStreaming),
    "openai-responses": TypeAdapter(ResponseCreateParamsNonStreaming),
    "anthropic": TypeAdapter(MessageCreateParamsNonStreaming),
}


@pytest.mark.parametrize("name", PROVIDERS.values())
@pytest.mark.slow
@given(st.data())
def test_a_providers_own_library_knows_every_field(name: str, data: st.DataObject) -> None:
    text = msgspec.structs.replace(data.draw(questions(name)), is_streamed=False)

    body = json.loads(PROTOCOLS[name].build_request(text).body)

    if name != "gemini":
        assert forced(PARAMETERS[name].validate_python(body)).keys() == body.keys()
        return
    config = body.pop("generationConfig", {})
    for content in [*body.pop("contents"), *[body.pop("systemInstruction", {})]]:
        google.Content.model_validate(content)
    for tool in body.pop("tools", []):
        google.Tool.model_validate(tool)
    google.ToolConfig.model_validate(body.pop("toolConfig", {}))
    google.GenerateContentConfig.model_validate(config)
    assert body == {}


@pytest.mark.parametrize("name", PROVIDERS.values())
def test_results_of_parallel_calls_and_what_a_model_thought_come_back(name: str) -> None:
    thought: dict[str, dict[str, Any]] = {
        "anthropic": {"type": "thinking", "thinking": "Both at once.", "signature": "c2ln"},
        "gemini": {"thoughtSignature": "c2ln", "call": 0},
        "openai-responses": {"type": "reasoning", "id": "rs_1", "summary": []},
    }
    data = {REASONING: [thought[name]]} if name in thought else None
    calls = (ToolCall("a1", "find", {"q": 1}), ToolCall("a2", "find", {"q": 2}))
    context = (
        Message("user", "Find both"),
        Message("assistant", calls=calls, data=data),
        Message("tool", "one", call_id="a1", tool="find"),
        Message("tool", "gone", call_id="a2", tool="find", data={IS_ERROR: True}),
    )

    protocol = PROTOCOLS[name]
    request = protocol.build_request(ParsedRequest(name, "m", context))

    again = protocol.parse_request(request).messages
    assert [words(item) for item in again] == [words(item) for item in context]
    assert again[1].data == data
    # Chat completions and Responses have no word for a tool's failure but its text.
    assert again[3].data == ({IS_ERROR: True} if name in ("anthropic", "gemini") else None)
    if name == "anthropic":
        results = json.loads(request.body)["messages"][-1]["content"]
        assert [block["tool_use_id"] for block in results] == ["a1", "a2"]


def test_anthropic_is_told_how_long_a_reply_may_be_where_nobody_says_it() -> None:
    request = PROTOCOLS["anthropic"].build_request(
        ParsedRequest("anthropic", "m", (Message("user", "Hello"),))
    )

    assert PROTOCOLS["anthropic"].parse_request(request).settings == {"max_tokens": TOKENS_MAX}


def test_settings_that_share_a_place_with_what_is_asked_stay() -> None:
    schema = {"type": "object"}
    user = (Message("user", "Hello"),)
    bodies: dict[str, dict[str, Any]] = {
        "openai-responses": {"text": {"verbosity": "low"}},
        "anthropic": {
            "max_tokens": 9, "output_config": {"effort": "low"}, "disable_parallel_tool_use": True,
        },
        "gemini": {"safetySettings": [], "temperature": 0, "toolConfig": {"retrievalConfig": {}}},
    }  # fmt: skip
    for name, given_settings in bodies.items():
        protocol = PROTOCOLS[name]
        parsed_request = ParsedRequest(
            name, "m", user, choice="required", output=schema, settings=dict(given_settings)
        )

        again = protocol.parse_request(protocol.build_request(parsed_request))

        assert (again.settings, again.output, again.choice) == (given_settings, schema, "required")
