"""OpenAI's own library takes what is rendered for a reply, and raises what it should."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, ClassVar

import openai
import pytest
from openai.lib.streaming.chat import ChatCompletionStreamState

from simkit.core.messages import Fails, Message, ToolCall
from simkit.providers.failures import FAILURES
from simkit.providers.openai import chat, responses
from simkit.providers.values import OutgoingReply
from tests.providers.answering import Provider
from tests.providers.replies import Booking, make_reply, sdk_replies

CHAT, RESPONSES = chat.PROTOCOL, responses.PROTOCOL
INTERFACES = [CHAT.name, RESPONSES.name]
WAYS = ["plain", "streamed", "helper"]
REPLIES = sdk_replies("call_1", "call_2")
REASONED = Message(
    "assistant",
    "Two nights.",
    data={
        "reasoning": [
            {
                "id": "rs_1",
                "type": "reasoning",
                "summary": [{"type": "summary_text", "text": "The guest said two."}],
                "encrypted_content": "gAAAA",
            }
        ]
    },
)


class Chat:
    """How chat completions are asked; ``final`` of each way is the whole completion."""

    protocol = CHAT
    tool: ClassVar[Any] = {"type": "function", "function": {"name": "book", "parameters": {}}}
    output = "response_format"

    @staticmethod
    def api(client: Any) -> Any:
        return client.chat.completions

    @staticmethod
    def body(**more: Any) -> dict[str, Any]:
        return {"model": "gpt-x", "messages": [{"role": "user", "content": "Hello"}], **more}

    @staticmethod
    def streamed(events: Iterable[Any]) -> Any:
        state = ChatCompletionStreamState()
        for event in events:
            state.handle_chunk(event)
        return state.get_final_completion()

    @staticmethod
    def message_of(final: Any) -> tuple[str, list[tuple[str, str, str]]]:
        message = final.choices[0].message
        calls = [(c.id, c.function.name, c.function.arguments) for c in message.tool_calls or []]
        return message.content or "", calls

    @staticmethod
    def parsed(final: Any) -> Any:
        return final.choices[0].message.parsed

    @staticmethod
    def refusal(final: Any) -> str:
        return str(final.choices[0].message.refusal)

    @staticmethod
    def finish(final: Any) -> str:
        return str(final.choices[0].finish_reason)

    @staticmethod
    def usage(final: Any) -> tuple[int, int]:
        return final.usage.prompt_tokens, final.usage.completion_tokens

    @staticmethod
    async def helped(stream: Any) -> Any:
        return await stream.get_final_completion()

    @staticmethod
    def helped_at_once(stream: Any) -> Any:
        return stream.get_final_completion()


class Responses:
    """How Responses are asked; ``final`` of each way is the whole response."""

    protocol = RESPONSES
    tool: ClassVar[Any] = {"type": "function", "name": "book", "parameters": {}, "strict": False}
    output = "text_format"

    @staticmethod
    def api(client: Any) -> Any:
        return client.responses

    @staticmethod
    def body(**more: Any) -> dict[str, Any]:
        more.pop("stream_options", None)
        return {"model": "gpt-x", "input": "Hello", **more}

    @staticmethod
    def streamed(events: Iterable[Any]) -> Any:
        result = list(events)
        assert [event.sequence_number for event in result] == list(range(len(result)))
        return result[-1].response

    @staticmethod
    def message_of(final: Any) -> tuple[str, list[tuple[str, str, str]]]:
        calls = [i for i in final.output if i.type == "function_call"]
        return final.output_text, [(c.call_id, c.name, c.arguments) for c in calls]

    @staticmethod
    def parsed(final: Any) -> Any:
        return final.output_parsed

    @staticmethod
    def refusal(final: Any) -> str:
        return str(final.output[0].content[0].refusal)

    @staticmethod
    def finish(final: Any) -> str:
        return str(final.incomplete_details.reason)

    @staticmethod
    def usage(final: Any) -> tuple[int, int]:
        return final.usage.input_tokens, final.usage.output_tokens

    @staticmethod
    async def helped(stream: Any) -> Any:
        return await stream.get_final_response()

    @staticmethod
    def helped_at_once(stream: Any) -> Any:
        return stream.get_final_response()


DATA: dict[str, Any] = {CHAT.name: Chat, RESPONSES.name: Responses}


class Client:
    """One way of asking, sync or async: each gives the library's final value."""

    def __init__(
        self, interface: str, answer: OutgoingReply | Fails, is_async: bool, retries: int = 0
    ) -> None:
        self.interface, self._is_async = DATA[interface], is_async
        self.provider = provider = Provider(self.interface.protocol, answer)
        shared: Any = {"api_key": "test", "max_retries": retries}
        self._sync = openai.OpenAI(http_client=provider.client(), **shared)
        self._async = openai.AsyncOpenAI(http_client=provider.async_client(), **shared)

    def ask(self, way: str, **more: Any) -> Any:
        if way == "streamed":
            more = {"stream": True, "stream_options": {"include_usage": True}, **more}
        body = self.interface.body(**more)
        if self._is_async:
            return asyncio.run(self._ask_async(way, body))
        api = self.interface.api(self._sync)
        if way == "plain":
            return api.create(**body)
        if way == "streamed":
            return self.interface.streamed(api.create(**body))
        if way == "parse":
            return api.parse(**body)
        with api.stream(**body) as stream:
            return self.interface.helped_at_once(stream)

    async def _ask_async(self, way: str, body: dict[str, Any]) -> Any:
        api = self.interface.api(self._async)
        if way == "plain":
            return await api.create(**body)
        if way == "streamed":
            return self.interface.streamed([event async for event in await api.create(**body)])
        if way == "parse":
            return await api.parse(**body)
        async with api.stream(**body) as stream:
            return await self.interface.helped(stream)


@pytest.mark.parametrize("reply", REPLIES)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("interface", INTERFACES)
def test_a_reply_arrives_as_it_was_said(
    interface: str, is_async: bool, way: str, reply: str
) -> None:
    message = REPLIES[reply]
    client = Client(interface, make_reply(message), is_async)

    final = client.ask(way, tools=[client.interface.tool])

    calls = [(c.id, c.name, '{"city":"Zürich","nights":2}' if c.args else "{}")
             for c in message.calls]  # fmt: skip
    assert client.interface.message_of(final) == (message.content, calls)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("interface", INTERFACES)
def test_usage_arrives_as_it_was_said(interface: str, way: str) -> None:
    client = Client(interface, make_reply(REPLIES["text"]), is_async=False)
    asks = {"stream_options": {"include_usage": True}} if way == "helper" else {}

    final = client.ask(way, **asks)

    assert client.interface.usage(final) == (11, 7)


@pytest.mark.parametrize("way", ["parse", "helper"])
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("interface", INTERFACES)
def test_a_structured_reply_is_parsed(interface: str, is_async: bool, way: str) -> None:
    value = {"city": "Chur", "nights": 2}
    reply = Message("assistant", '{"city":"Chur","nights":2}', data=value)
    client = Client(interface, make_reply(reply), is_async)

    final = client.ask(way, **{client.interface.output: Booking})

    assert client.interface.parsed(final) == Booking(city="Chur", nights=2)
    schema = client.provider.requests[0].output
    assert schema["properties"]["city"] == {"title": "City", "type": "string"}


@pytest.mark.parametrize("way", ["plain", "streamed", "helper", "parse"])
@pytest.mark.parametrize("interface", INTERFACES)
def test_a_refusal_is_no_text(interface: str, way: str) -> None:
    client = Client(interface, Fails("refusal", 200, "I must not."), is_async=False)

    final = client.ask(way)

    assert client.interface.refusal(final) == "I must not."
    assert client.interface.message_of(final) == ("", [])


@pytest.mark.parametrize(
    ("interface", "way", "reason"),
    [
        (CHAT.name, "plain", "length"),
        (RESPONSES.name, "plain", "max_output_tokens"),
        (RESPONSES.name, "streamed", "max_output_tokens"),
    ],
)
def test_a_reply_that_is_too_long_says_so(interface: str, way: str, reason: str) -> None:
    client = Client(interface, Fails("length", 200, "As far as this"), is_async=False)

    final = client.ask(way)

    assert client.interface.finish(final) == reason
    assert client.interface.message_of(final)[0] == "As far as this"


@pytest.mark.parametrize("way", ["parse", "helper"])
def test_a_structured_reply_that_is_too_long_raises_the_librarys_own_error(way: str) -> None:
    client = Client(CHAT.name, Fails("length", 200, "As far as this"), is_async=False)

    with pytest.raises(openai.LengthFinishReasonError):
        client.ask(way)


def test_reasoning_arrives_before_the_text() -> None:
    for way in WAYS:
        final = Client(RESPONSES.name, make_reply(REASONED), is_async=False).ask(way)

        item = final.output[0]
        assert (item.id, item.encrypted_content) == ("rs_1", "gAAAA")
        assert item.summary[0].text == "The guest said two."
        assert final.output_text == "Two nights."


ERRORS = {
    "rate_limit": openai.RateLimitError,
    "overloaded": openai.InternalServerError,
    "server_error": openai.InternalServerError,
    "unavailable": openai.InternalServerError,
    "authentication": openai.AuthenticationError,
    "permission": openai.PermissionDeniedError,
    "not_found": openai.NotFoundError,
    "invalid_request": openai.BadRequestError,
    "context_overflow": openai.BadRequestError,
    "content_filter": openai.BadRequestError,
    "quota_exceeded": openai.RateLimitError,
    "timeout": openai.APITimeoutError,
    "connection": openai.APIConnectionError,
}


@pytest.mark.parametrize("kind", ERRORS)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("interface", INTERFACES)
def test_a_failure_raises_the_librarys_own_error(
    interface: str, is_async: bool, way: str, kind: str
) -> None:
    failure = FAILURES[kind]
    client = Client(interface, Fails(kind, failure.status, failure.message), is_async)

    with pytest.raises(ERRORS[kind]) as raised:
        client.ask(way)

    assert type(raised.value) is ERRORS[kind]


def test_an_overflow_has_the_code_that_clients_look_for() -> None:
    for interface, param in [(CHAT.name, "messages"), (RESPONSES.name, "input")]:
        client = Client(interface, Fails("context_overflow", 400, "Too long."), is_async=False)

        with pytest.raises(openai.BadRequestError) as raised:
            client.ask("plain")

        result = (raised.value.code, raised.value.param, raised.value.body["message"])  # type: ignore[index]
        assert result == ("context_length_exceeded", param, "Too long.")


@pytest.mark.parametrize("interface", INTERFACES)
def test_a_failure_is_not_tried_again(interface: str) -> None:
    client = Client(interface, Fails("server_error", 500, "Broken."), is_async=False, retries=2)

    with pytest.raises(openai.InternalServerError):
        client.ask("plain")

    assert len(client.provider.requests) == 1


@pytest.mark.parametrize("interface", INTERFACES)
def test_a_failure_that_says_when_is_tried_again(interface: str) -> None:
    fails = Fails("rate_limit", 429, "Later.", retry_after=0.001)
    client = Client(interface, fails, is_async=False, retries=2)

    with pytest.raises(openai.RateLimitError):
        client.ask("plain")

    assert len(client.provider.requests) == 3


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("interface", INTERFACES)
def test_a_lost_connection_is_an_error(interface: str, is_async: bool, way: str) -> None:
    client = Client(interface, Fails("cut_stream", 200, "The reply stops here."), is_async)

    with pytest.raises(openai.APIConnectionError):
        client.ask(way)


@pytest.mark.parametrize("way", ["parse", "helper"])
@pytest.mark.parametrize("interface", INTERFACES)
def test_an_output_that_is_no_json_is_no_value(interface: str, way: str) -> None:
    client = Client(interface, Fails("malformed_json", 200, "?"), is_async=False)

    with pytest.raises(ValueError, match=r"(?i)json|expected value"):
        client.ask(way, **{client.interface.output: Booking})


def test_a_failure_inside_a_stream_arrives_as_each_interface_says_it() -> None:
    fails = Fails("server_error", 200, "Broken on the way.")

    with pytest.raises(openai.APIError, match=r"^Broken on the way\.$"):
        Client(CHAT.name, fails, is_async=False).ask("streamed")
    final = Client(RESPONSES.name, fails, is_async=False).ask("streamed")

    result = (final.status, final.error.code, final.error.message)
    assert result == ("failed", "server_error", "Broken on the way.")


def test_azures_clients_are_understood() -> None:
    provider = Provider(CHAT, make_reply(REPLIES["text"]))
    client = openai.AzureOpenAI(
        azure_endpoint="https://provider.test",
        azure_deployment="small",
        api_version="2026-01-01",
        api_key="test",
        http_client=provider.client(),
    )

    final = client.chat.completions.create(**Chat.body())

    assert Chat.message_of(final)[0] == REPLIES["text"].content
    assert provider.requests[0].model == "gpt-x"


def test_calls_of_custom_tools_carry_their_text() -> None:
    reply = Message("assistant", calls=(ToolCall("call_1", "run", "SELECT 1"),))
    custom: Any = {"type": "custom", "custom": {"name": "run"}}
    tool: Any = {"type": "custom", "name": "run"}

    chat = Client(CHAT.name, make_reply(reply), is_async=False).ask("plain", tools=[custom])
    finals = [Client(RESPONSES.name, make_reply(reply), is_async=False).ask(way, tools=[tool])
              for way in WAYS]  # fmt: skip

    assert chat.choices[0].message.tool_calls[0].custom.input == "SELECT 1"
    assert [(final.output[0].call_id, final.output[0].input) for final in finals] == (
        [("call_1", "SELECT 1")] * 3
    )
