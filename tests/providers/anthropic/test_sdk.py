"""Anthropic's own library takes what is rendered for a reply, and raises what it should."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import anthropic
import httpx2
import pydantic
import pytest

from simkit.core.messages import Fails, Message, ToolCall
from simkit.providers.anthropic.messages import PROTOCOL
from simkit.providers.failures import FAILURES
from tests.providers.answering import Provider
from tests.providers.replies import Booking, make_reply, sdk_replies

WAYS = ["plain", "streamed", "helper"]
TOOLS = [{"name": "book", "input_schema": {"type": "object"}}]
REPLIES = sdk_replies("toolu_1", "toolu_2")


def body(**more: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": "Hello"}]
    return {"model": "claude-x", "max_tokens": 64, "messages": messages, **more}


class Client:
    """One way of asking, sync or async: both give the library's final message."""

    def __init__(self, provider: Provider, is_async: bool, retries: int = 0) -> None:
        self._is_async = is_async
        shared: Any = {"api_key": "test", "max_retries": retries}
        self._sync = anthropic.Anthropic(http_client=provider.client(), **shared)
        self._async = anthropic.AsyncAnthropic(http_client=provider.async_client(), **shared)

    def ask(self, way: str, **more: Any) -> Any:
        if self._is_async:
            return asyncio.run(self._ask_async(way, body(**more)))
        if way == "plain":
            return self._sync.messages.create(**body(**more))
        if way == "streamed":
            return accumulated(self._sync.messages.create(stream=True, **body(**more)))
        if way == "parse":
            return self._sync.messages.parse(**body(**more))
        with self._sync.messages.stream(**body(**more)) as stream:
            return stream.get_final_message()

    async def _ask_async(self, way: str, request: dict[str, Any]) -> Any:
        if way == "plain":
            return await self._async.messages.create(**request)
        if way == "streamed":
            stream = await self._async.messages.create(stream=True, **request)
            return accumulated([event async for event in stream])
        if way == "parse":
            return await self._async.messages.parse(**request)
        async with self._async.messages.stream(**request) as helper:
            return await helper.get_final_message()


def accumulated(events: Iterable[Any]) -> Any:
    """The message that the raw events make, put together by the library's own function."""
    from anthropic.lib.streaming._messages import accumulate_event

    message: Any = None
    buffers: dict[int, bytes] = {}
    for event in events:
        message = accumulate_event(
            event=event,
            current_snapshot=message,
            json_bufs=buffers,
            output_format=anthropic.NOT_GIVEN,
        )
    return message


def read(message: Any) -> Message:
    """What the library's message says, as ours."""
    text = "".join(block.text for block in message.content if block.type == "text")
    calls = [block for block in message.content if block.type == "tool_use"]
    return Message(
        "assistant", text, calls=tuple(ToolCall(call.id, call.name, call.input) for call in calls)
    )


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", REPLIES)
def test_a_reply_arrives_as_it_was_said(kind: str, way: str, is_async: bool) -> None:
    provider = Provider(PROTOCOL, make_reply(REPLIES[kind]))

    message = Client(provider, is_async).ask(way, tools=TOOLS)

    assert read(message) == REPLIES[kind]
    assert message.stop_reason == ("tool_use" if REPLIES[kind].calls else "end_turn")
    assert (message.usage.input_tokens, message.usage.output_tokens) == (11, 7)
    assert message.id == "msg_c1"
    assert provider.requests[0].is_streamed is (way != "plain")


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("way", WAYS)
def test_thinking_arrives_as_such(way: str, is_async: bool) -> None:
    thoughts = [
        {"type": "thinking", "thinking": "They want a room in Zürich.", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "ZW5j"},
    ]
    message = Message("assistant", "Done.", data={"reasoning": thoughts})

    value = Client(Provider(PROTOCOL, make_reply(message)), is_async).ask(way)

    assert [block.to_dict() for block in value.content[:2]] == thoughts
    assert read(value).content == "Done."


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("way", ["parse", "helper"])
def test_a_structured_reply_is_parsed(way: str, is_async: bool) -> None:
    text = '{"city":"Bern","nights":3}'
    provider = Provider(PROTOCOL, make_reply(Message("assistant", text)))

    message = Client(provider, is_async).ask(way, output_format=Booking)

    assert message.parsed_output == Booking(city="Bern", nights=3)
    assert provider.requests[0].output["properties"]["city"]["type"] == "string"


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("rate_limit", anthropic.RateLimitError),
        ("overloaded", anthropic.OverloadedError),
        ("server_error", anthropic.InternalServerError),
        ("unavailable", anthropic.ServiceUnavailableError),
        ("authentication", anthropic.AuthenticationError),
        ("permission", anthropic.PermissionDeniedError),
        ("not_found", anthropic.NotFoundError),
        ("invalid_request", anthropic.BadRequestError),
        ("context_overflow", anthropic.BadRequestError),
        ("content_filter", anthropic.BadRequestError),
        ("quota_exceeded", anthropic.PaymentRequiredError),
        ("timeout", anthropic.APITimeoutError),
        ("connection", anthropic.APIConnectionError),
    ],
)
def test_a_failure_raises_the_librarys_own_error(
    kind: str, error: type[Exception], way: str, is_async: bool
) -> None:
    known = FAILURES[kind]
    provider = Provider(PROTOCOL, Fails(kind, known.status, known.message))

    with pytest.raises(error) as caught:
        Client(provider, is_async).ask(way)

    assert type(caught.value) is error
    assert len(provider.requests) == 1


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_a_failure_is_not_tried_again_unless_the_script_says_when(is_async: bool) -> None:
    once = Provider(PROTOCOL, Fails("rate_limit", 429, "Slow down."))
    again = Provider(PROTOCOL, Fails("rate_limit", 429, "Slow down.", 0.001))

    for provider in (once, again):
        with pytest.raises(anthropic.RateLimitError):
            Client(provider, is_async, retries=2).ask("plain")

    assert [len(once.requests), len(again.requests)] == [1, 3]


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("kind", "reason", "text"),
    [
        ("refusal", "refusal", ""),
        ("length", "max_tokens", FAILURES["length"].message),
        ("empty_reply", "end_turn", ""),
    ],
)
def test_a_reply_that_is_none_arrives_with_its_reason(
    kind: str, reason: str, text: str, way: str, is_async: bool
) -> None:
    provider = Provider(PROTOCOL, Fails(kind, 200, FAILURES[kind].message))

    message = Client(provider, is_async).ask(way)

    assert (message.stop_reason, read(message).content) == (reason, text)


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("way", WAYS)
def test_a_cut_stream_is_a_connection_error(way: str, is_async: bool) -> None:
    provider = Provider(PROTOCOL, Fails("cut_stream", 200, FAILURES["cut_stream"].message))

    with pytest.raises((anthropic.APIConnectionError, httpx2.RemoteProtocolError)):
        Client(provider, is_async).ask(way)


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("way", ["streamed", "helper"])
def test_an_error_in_the_stream_is_raised_with_its_words(way: str, is_async: bool) -> None:
    provider = Provider(PROTOCOL, Fails("overloaded", 200, "Too many of you."))

    with pytest.raises(anthropic.APIStatusError) as caught:
        Client(provider, is_async).ask(way)

    assert caught.value.body == {
        "type": "error",
        "error": {"type": "overloaded_error", "message": "Too many of you."},
        "request_id": "req_c1",
    }


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_malformed_json_is_refused_by_the_library(is_async: bool) -> None:
    fails = Fails("malformed_json", 200, FAILURES["malformed_json"].message)

    for way in ("parse", "helper"):
        with pytest.raises(pydantic.ValidationError):
            Client(Provider(PROTOCOL, fails), is_async).ask(way, output_format=Booking)
    with pytest.raises(ValueError, match="Unable to parse tool parameter JSON"):
        Client(Provider(PROTOCOL, fails), is_async).ask("helper", tools=TOOLS)


def test_what_the_library_sends_is_read_whole() -> None:
    provider = Provider(PROTOCOL, make_reply(REPLIES["text"]))
    first = Client(Provider(PROTOCOL, make_reply(REPLIES["text and a call"])), False).ask("plain")
    results = [{"type": "tool_result", "tool_use_id": "toolu_1", "content": '{"ok":true}'}]
    messages = [
        {"role": "user", "content": "Hello"},
        first.to_param(),
        {"role": "user", "content": [*results, {"type": "text", "text": "And?"}]},
    ]

    Client(provider, False).ask(
        "plain", system="Be brief.", messages=messages, tools=TOOLS, tool_choice={"type": "any"}
    )

    request = provider.requests[0]
    assert request.messages == (
        Message("system", "Be brief."),
        Message("user", "Hello"),
        REPLIES["text and a call"],
        Message("tool", '{"ok":true}', call_id="toolu_1", tool="book", data={"ok": True}),
        Message("user", "And?"),
    )
    assert request.choice == "required"
    assert request.settings == {"max_tokens": 64}
