"""Google's own library takes what is rendered for a reply, and raises what it should."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import httpx2
import pytest
from google import genai
from google.genai import errors, types

from simkit.core.messages import Fails, Message, ToolCall
from simkit.providers.failures import FAILURES
from simkit.providers.gemini.generate import PROTOCOL
from tests.providers.answering import Provider
from tests.providers.replies import Booking, make_reply, sdk_replies

WAYS = ["plain", "streamed", "chat"]
TOOLS = [types.Tool(function_declarations=[types.FunctionDeclaration(name="book")])]
REPLIES = sdk_replies("call_7", "call_8")
CALL = REPLIES["tool call"].calls[0]


class Client:
    """One way of asking, sync or async: each gives the responses that came."""

    def __init__(self, provider: Provider, is_async: bool, **more: Any) -> None:
        self._is_async = is_async
        # With an async httpx client of its own the library does not reach for aiohttp.
        options = types.HttpOptions(
            httpx_client=provider.client(), httpx_async_client=provider.async_client()
        )
        self._client = genai.Client(api_key="test", http_options=options, **more)

    def ask(self, way: str, contents: Any = "Hello", **config: Any) -> list[Any]:
        request = types.GenerateContentConfig(
            **config, automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True)
        )
        if self._is_async:
            return asyncio.run(self._ask_async(way, contents, request))
        models = self._client.models
        if way == "plain":
            return [models.generate_content(model="gemini-x", contents=contents, config=request)]
        if way == "streamed":
            return [
                *models.generate_content_stream(model="gemini-x", contents=contents, config=request)
            ]
        chat = self._client.chats.create(model="gemini-x", config=request)
        return [*chat.send_message_stream(contents)]

    async def _ask_async(self, way: str, contents: Any, request: Any) -> list[Any]:
        models = self._client.aio.models
        if way == "plain":
            return [
                await models.generate_content(model="gemini-x", contents=contents, config=request)
            ]
        if way == "streamed":
            stream = await models.generate_content_stream(
                model="gemini-x", contents=contents, config=request
            )
        else:
            chat = self._client.aio.chats.create(model="gemini-x", config=request)
            stream = await chat.send_message_stream(contents)
        return [response async for response in stream]


def read(responses: Iterable[Any]) -> Message:
    """What the library's responses say, as ours."""
    texts, calls = [], []
    for response in responses:
        for part in response.parts or []:
            texts.append(part.text or "")
            if part.function_call:
                call = part.function_call
                calls.append(ToolCall(call.id, call.name, call.args))
    return Message("assistant", "".join(texts), calls=tuple(calls))


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", REPLIES)
def test_a_reply_arrives_as_it_was_said(kind: str, way: str, is_async: bool) -> None:
    provider = Provider(PROTOCOL, make_reply(REPLIES[kind]))

    responses = Client(provider, is_async).ask(way, tools=TOOLS)

    last = responses[-1]
    assert read(responses) == REPLIES[kind]
    assert last.candidates[0].finish_reason == types.FinishReason.STOP
    assert last.usage_metadata.prompt_token_count == 11
    assert last.usage_metadata.candidates_token_count == 7
    assert (last.response_id, last.model_version) == ("resp_c1", "gemini-x")
    assert provider.requests[0].is_streamed is (way != "plain")


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("way", ["plain", "streamed"])
def test_a_structured_reply_is_parsed(way: str, is_async: bool) -> None:
    text = '{"city":"Bern","nights":3}'
    provider = Provider(PROTOCOL, make_reply(Message("assistant", text)))

    responses = Client(provider, is_async).ask(
        way, response_mime_type="application/json", response_schema=Booking
    )

    if way == "plain":
        assert responses[0].parsed == Booking(city="Bern", nights=3)
    assert Booking.model_validate_json(read(responses).content).nights == 3
    assert provider.requests[0].output == {
        "type": "object",
        "title": "Booking",
        "description": "What a structured reply is.",
        "properties": {
            "city": {"type": "string", "title": "City"},
            "nights": {"type": ["integer", "null"], "title": "Nights"},
        },
        "required": ["city"],
    }


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("kind", "error", "code", "status"),
    [
        ("rate_limit", errors.ClientError, 429, "RESOURCE_EXHAUSTED"),
        ("overloaded", errors.ServerError, 503, "UNAVAILABLE"),
        ("server_error", errors.ServerError, 500, "INTERNAL"),
        ("unavailable", errors.ServerError, 503, "UNAVAILABLE"),
        ("authentication", errors.ClientError, 401, "UNAUTHENTICATED"),
        ("permission", errors.ClientError, 403, "PERMISSION_DENIED"),
        ("not_found", errors.ClientError, 404, "NOT_FOUND"),
        ("invalid_request", errors.ClientError, 400, "INVALID_ARGUMENT"),
        ("context_overflow", errors.ClientError, 400, "INVALID_ARGUMENT"),
        ("quota_exceeded", errors.ClientError, 429, "RESOURCE_EXHAUSTED"),
    ],
)
def test_a_failure_raises_the_librarys_own_error(
    kind: str, error: type[errors.APIError], code: int, status: str, way: str, is_async: bool
) -> None:
    known = FAILURES[kind]
    provider = Provider(PROTOCOL, Fails(kind, known.status, known.message))

    with pytest.raises(error) as caught:
        Client(provider, is_async).ask(way)

    assert (type(caught.value), caught.value.code, caught.value.status) == (error, code, status)
    assert len(provider.requests) == 1


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("kind", "error"), [("timeout", httpx2.ReadTimeout), ("connection", httpx2.ConnectError)]
)
def test_no_response_is_the_transports_error(
    kind: str, error: type[Exception], way: str, is_async: bool
) -> None:
    provider = Provider(PROTOCOL, Fails(kind, 0, FAILURES[kind].message))

    with pytest.raises(error):
        Client(provider, is_async).ask(way)


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("way", ["plain", "streamed"])
@pytest.mark.parametrize(
    ("kind", "reason", "text"),
    [
        ("refusal", types.FinishReason.SAFETY, ""),
        ("length", types.FinishReason.MAX_TOKENS, FAILURES["length"].message),
        ("empty_reply", types.FinishReason.STOP, ""),
    ],
)
def test_a_reply_that_is_none_arrives_with_its_reason(
    kind: str, reason: types.FinishReason, text: str, way: str, is_async: bool
) -> None:
    provider = Provider(PROTOCOL, Fails(kind, 200, FAILURES[kind].message))

    responses = Client(provider, is_async).ask(way)

    assert (responses[-1].candidates[0].finish_reason, read(responses).content) == (reason, text)


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("way", ["plain", "streamed"])
def test_a_prompt_that_the_content_filter_stops_has_no_candidate(way: str, is_async: bool) -> None:
    known = FAILURES["content_filter"]
    provider = Provider(PROTOCOL, Fails("content_filter", known.status, known.message))

    (response,) = Client(provider, is_async).ask(way)

    assert response.candidates is None
    assert response.prompt_feedback.block_reason == types.BlockedReason.PROHIBITED_CONTENT
    assert response.prompt_feedback.block_reason_message == known.message


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("way", WAYS)
def test_a_cut_stream_is_the_transports_error(way: str, is_async: bool) -> None:
    provider = Provider(PROTOCOL, Fails("cut_stream", 200, FAILURES["cut_stream"].message))

    with pytest.raises(httpx2.RemoteProtocolError):
        Client(provider, is_async).ask(way)


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("way", ["streamed", "chat"])
def test_an_error_in_the_stream_is_raised_with_its_words(way: str, is_async: bool) -> None:
    provider = Provider(PROTOCOL, Fails("overloaded", 200, "Too many of you."))

    with pytest.raises(errors.ServerError) as caught:
        Client(provider, is_async).ask(way)

    assert (caught.value.code, caught.value.message) == (503, "Too many of you.")


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("way", WAYS)
def test_thoughts_and_signatures_arrive_as_such(way: str, is_async: bool) -> None:
    reasoning = [{"text": "A room.", "thought": True}, {"thoughtSignature": "c2ln", "call": 0}]
    message = Message("assistant", "Done.", calls=(CALL,), data={"reasoning": reasoning})

    responses = Client(Provider(PROTOCOL, make_reply(message)), is_async).ask(way, tools=TOOLS)

    parts = [part for response in responses for part in response.parts]
    assert [(part.text, part.thought, part.thought_signature) for part in parts] == [
        ("A room.", True, None),
        ("Done.", None, None),
        (None, None, b"sig"),
    ]


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_malformed_json_is_not_parsed_and_a_malformed_call_is_named(is_async: bool) -> None:
    fails = Fails("malformed_json", 200, FAILURES["malformed_json"].message)
    shaped = {"response_mime_type": "application/json", "response_schema": Booking}

    (structured,) = Client(Provider(PROTOCOL, fails), is_async).ask("plain", **shaped)
    # Only on Vertex does the library hand on the provider's words.
    called = Client(Provider(PROTOCOL, fails), is_async, vertexai=True)
    (called,) = called.ask("plain", tools=TOOLS)

    assert (structured.text, structured.parsed) == ('{"value": }', None)
    assert called.candidates[0].finish_reason == types.FinishReason.MALFORMED_FUNCTION_CALL
    assert called.candidates[0].finish_message == 'Malformed function call: book({"value": })'


def test_the_library_calls_a_function_and_its_result_comes_back() -> None:
    def book(city: str) -> dict[str, Any]:
        """Books a room."""
        return {"booked": city}

    results = []

    class Script(Provider):
        def _answered(self, request: Any) -> Any:
            results.append(request)
            call = ToolCall("call_7", "book", {"city": "Bern"})
            message = Message("assistant", calls=(call,)) if len(results) == 1 else REPLIES["text"]
            return PROTOCOL.served(make_reply(message), request)

    provider = Script(PROTOCOL, make_reply(REPLIES["text"]))
    options = types.HttpOptions(httpx_client=provider.client())
    client = genai.Client(api_key="test", http_options=options)

    response = client.models.generate_content(
        model="gemini-x",
        contents="A room in Bern",
        config=types.GenerateContentConfig(tools=[book], system_instruction="Be brief."),
    )

    assert response.text == REPLIES["text"].content
    assert results[1].messages == (
        Message("system", "Be brief."),
        Message("user", "A room in Bern"),
        Message("assistant", calls=(ToolCall("call_7", "book", {"city": "Bern"}),)),
        Message(
            "tool", '{"booked":"Bern"}', call_id="call_7", tool="book", data={"booked": "Bern"}
        ),
    )
    assert results[0].offers[0].schema["properties"] == {"city": {"type": "string"}}


def test_vertex_speaks_the_same() -> None:
    provider = Provider(PROTOCOL, make_reply(REPLIES["text and a call"]))

    responses = Client(provider, False, vertexai=True).ask("streamed", tools=TOOLS)

    assert read(responses) == REPLIES["text and a call"]
    assert provider.requests[0].model == "gemini-x"
