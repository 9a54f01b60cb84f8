"""OpenAI's chat completions: what requests ask, and replies there and back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from simkit.core.errors import WireInvalid
from simkit.core.messages import Fails, Message, ToolCall, Usage
from simkit.providers import sse
from simkit.providers.http import HttpRequest, HttpResponse
from simkit.providers.openai.chat import PROTOCOL
from simkit.providers.values import Offer, OutgoingReply, ParsedRequest, ParsedResponse
from tests.golden import assert_says, cases
from tests.providers.replies import OPENAI, contains, make_reply

BODIES = Path(__file__).parents[1] / "bodies"
URL = "https://api.test/v1/chat/completions"
PIXEL = "data:image/png;base64,iVBORw0KGgo="
PIXEL_DIGEST = "4c4b6a3be1314ab86138bef4314dde022e600960d8689a2c8f8631802d20dab6"
USER = {"role": "user", "content": "Hello"}
TOOLS = [{"type": "function", "function": {"name": "book", "parameters": {"type": "object"}}}]
SCHEMA = {"type": "object", "properties": {"nights": {"type": "integer"}}}
FORM = {"type": "json_schema", "json_schema": {"name": "b", "schema": SCHEMA, "strict": True}}
REPLIES = {
    **OPENAI,
    "reasoned": Message(
        "assistant",
        "Two.",
        data={"reasoning": [{"type": "reasoning_text", "text": "They said two nights."}]},
    ),
}


def parse_body(**body: Any) -> ParsedRequest:
    whole = {"model": "m", "messages": [USER], **body}
    return PROTOCOL.parse_request(HttpRequest("POST", URL, body=json.dumps(whole).encode()))


def streamed(response: HttpResponse) -> list[Any]:
    """The data of a stream's events, with the marker at the end as a text."""
    results = [data for _, data in sse.events(response.body)]
    return [data if data == sse.DONE else json.loads(data) for data in results]


def test_a_whole_request_is_read() -> None:
    body = {
        "messages": [
            {"role": "developer", "content": "Book rooms."},
            USER,
            {
                "role": "assistant",
                "content": None,
                "name": "desk",
                "tool_calls": [
                    {
                        "id": "call_1",
                        "type": "function",
                        "function": {"name": "book", "arguments": '{"city": "Zürich"}'},
                    },
                    {
                        "id": "call_2",
                        "type": "function",
                        "function": {"name": "book", "arguments": '{"city": '},
                    },
                ],
            },
            {"role": "tool", "tool_call_id": "call_1", "content": '{"free": [2]}'},
            {"role": "tool", "tool_call_id": "call_2", "content": "no JSON"},
        ],
        "tools": TOOLS,
        "tool_choice": {"type": "function", "function": {"name": "book"}},
        "response_format": FORM,
        "temperature": 0.5,
        "stream": True,
    }

    assert parse_body(**body) == ParsedRequest(
        protocol="openai-chat",
        model="m",
        messages=(
            Message("system", "Book rooms."),
            Message("user", "Hello"),
            Message(
                "assistant",
                agent="desk",
                name="desk",
                calls=(
                    ToolCall("call_1", "book", {"city": "Zürich"}),
                    ToolCall("call_2", "book", '{"city": '),
                ),
            ),
            Message("tool", '{"free": [2]}', call_id="call_1", tool="book", data={"free": [2]}),
            Message("tool", "no JSON", call_id="call_2", tool="book"),
        ),
        offers=(Offer("book", {"type": "object"}),),
        choice="book",
        output=SCHEMA,
        settings={"temperature": 0.5},
        is_streamed=True,
    )


def test_parts_are_shown_and_kept_by_reference() -> None:
    content = [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": "https://x.test/a.png", "detail": "low"}},
        {"type": "image_url", "image_url": {"url": PIXEL}},
        {"type": "file", "file": {"file_id": "file-1", "filename": "a.pdf"}},
    ]

    message = parse_body(messages=[{"role": "user", "content": content}]).messages[0]

    assert message.content.splitlines() == [
        "What is this?",
        "[image https://x.test/a.png]",
        f"[image sha256:{PIXEL_DIGEST[:12]}]",
        "[file file-1]",
    ]
    assert message.data == {
        "parts": [
            {"type": "image", "url": "https://x.test/a.png", "detail": "low"},
            {"type": "image", "sha256": PIXEL_DIGEST, "media_type": "image/png"},
            {"type": "file", "id": "file-1", "name": "a.pdf"},
        ]
    }


def test_a_refusal_said_before_is_the_messages_content() -> None:
    refused = {"role": "assistant", "content": None, "refusal": "I must not."}
    in_parts = {"role": "assistant", "content": [{"type": "refusal", "refusal": "I must not."}]}

    assert parse_body(messages=[refused, in_parts]).messages == (REPLIES["refusal"],) * 2


def test_the_legacy_interface_is_spoken_both_ways() -> None:
    call = {"name": "book", "arguments": '{"city":"Chur"}'}
    legacy = parse_body(
        messages=[
            USER,
            {"role": "assistant", "content": None, "function_call": call},
            {"role": "function", "name": "book", "content": "done"},
        ],
        functions=[{"name": "book", "parameters": {"type": "object"}}],
        function_call={"name": "book"},
    )
    reply = Message("assistant", calls=(ToolCall("function_call_3", "book", {"city": "Chur"}),))

    assert legacy.messages[1:] == (
        Message("assistant", calls=(ToolCall("function_call_1", "book", {"city": "Chur"}),)),
        Message("tool", "done", call_id="function_call_1", tool="book"),
    )
    assert (legacy.offers, legacy.choice) == ((Offer("book", {"type": "object"}),), "book")
    for is_streamed in (False, True):
        way = msgspec.structs.replace(legacy, is_streamed=is_streamed)
        response = PROTOCOL.served(make_reply(reply), way)
        assert b"tool_calls" not in response.body.replace(b'"finish_reason":"tool_calls"', b"")
        assert PROTOCOL.parse_response(response, way).message == reply


@pytest.mark.parametrize(
    ("body", "choice"),
    [
        ({}, "auto"),
        ({"tool_choice": "required"}, "required"),
        ({"function_call": "none"}, "none"),
        ({"tool_choice": {"type": "custom", "custom": {"name": "run"}}}, "run"),
        (
            {"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "required"}}},
            "required",
        ),
    ],
)
def test_which_tools_may_be_called_is_read(body: dict[str, Any], choice: str) -> None:
    assert parse_body(**body).choice == choice


def test_azures_path_names_the_model_where_the_body_does_not() -> None:
    url = "https://x.test/openai/deployments/small/chat/completions?api-version=1"
    request = HttpRequest("POST", url, body=b'{"messages": []}')

    assert PROTOCOL.parse_request(request).model == "small"


@cases(__file__, "refused")
def test_a_field_that_is_wrong_is_named(body: dict[str, Any], says: str) -> None:
    with pytest.raises(WireInvalid) as refused:
        parse_body(**body)

    assert_says(str(refused.value), says)


@pytest.mark.parametrize("chunks", [None, 1, 3, (2, 5)])
@pytest.mark.parametrize("is_streamed", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("reply", REPLIES)
def test_what_is_said_is_heard(reply: str, is_streamed: bool, chunks: Any) -> None:
    options = {"include_usage": True}
    request = parse_body(stream=is_streamed, stream_options=options, tools=TOOLS)
    message = REPLIES[reply]
    finish = "refusal" if reply == "refusal" else ""

    response = PROTOCOL.served(make_reply(message, chunks=chunks, finish=finish), request)

    assert PROTOCOL.parse_response(response, request) == ParsedResponse(
        message, Usage(11, 7), finish, "chatcmpl-c1"
    )


def test_a_broken_output_is_text_where_the_request_asks_for_one() -> None:
    request = parse_body(tools=TOOLS, response_format=FORM)

    response = PROTOCOL.failed("c1", Fails("malformed_json", 200, "?"), request)

    assert isinstance(response, HttpResponse)
    parsed = PROTOCOL.parse_response(response, request)
    assert (parsed.message.content, parsed.error) == (
        '{"value": }',
        Fails("malformed_json", 200, 'output: {"value": }'),
    )


@pytest.mark.parametrize(
    ("text", "args"), [("", {}), (" {} ", {}), ("[1]", "[1]"), ('{"a', '{"a'), ("a b", "a b")]
)
def test_arguments_are_an_object_or_the_text_as_it_stands(text: str, args: Any) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "book", "arguments": text}}
    request = parse_body(messages=[{"role": "assistant", "tool_calls": [call]}])

    assert request.messages[0].calls == (ToolCall("c1", "book", args),)


def test_usage_is_streamed_only_where_it_is_asked_for() -> None:
    response = PROTOCOL.served(make_reply(REPLIES["text"]), parse_body(stream=True))

    assert b"usage" not in response.body
    assert PROTOCOL.parse_response(response, parse_body(stream=True)).usage is None


def test_all_fields_of_the_bodies_that_clients_take_are_there() -> None:
    call = ToolCall("call_1", "f", {"a": 1})
    options = {"include_usage": True}
    body = json.loads((BODIES / "chat_completions.recommended.json").read_bytes())
    events = json.loads((BODIES / "chat_completions.stream.json").read_bytes())
    frames = [event["data"] for event in events]

    both = Message("assistant", "hi there", calls=(call,))
    plain = PROTOCOL.served(OutgoingReply("sim", both, Usage(10, 5)), parse_body())
    request = parse_body(stream=True, stream_options=options)
    text = OutgoingReply("sim", Message("assistant", "hi there "), Usage(10, 5), chunks=(3, 9))
    words = streamed(PROTOCOL.served(text, request))
    calling = OutgoingReply("sim", Message("assistant", calls=(call,)), Usage(10, 5), chunks=1)
    calls = streamed(PROTOCOL.served(calling, request))

    assert contains(json.loads(plain.body), body)
    assert contains(words[:3], frames[:3])
    assert contains(calls[1:], frames[3:])


def test_the_least_that_servers_send_is_heard() -> None:
    body = (BODIES / "chat_completions.minimal.json").read_bytes()
    stream = (BODIES / "chat_completions.stream.sse").read_bytes()
    call = ToolCall("c1", "f", {"a": 1})

    least = PROTOCOL.parse_response(HttpResponse(200, (), (body,)), parse_body())
    other = PROTOCOL.parse_response(HttpResponse(200, (), (stream,)), parse_body(stream=True))

    assert least == ParsedResponse(Message("assistant", "hi", calls=(call,)))
    assert other.message.calls == (ToolCall("call_1", "f", {"a": 1}),)
    assert (other.message.content, other.usage) == ("hi there ", Usage(10, 5))


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        (b'{"error": "overloaded"}', 503, Fails("unavailable", 503, "overloaded")),
        (b'{"detail": "Not Found"}', 404, Fails("not_found", 404, "Not Found")),
        (b"<html>Bad Gateway</html>", 502, Fails("unavailable", 502, "<html>Bad Gateway</html>")),
        (b"", 500, Fails("server_error", 500, "HTTP status 500")),
        (b'{"error": {"code": 429, "message": "m"}}', 200, Fails("server_error", 200, "m")),
        (
            b'{"error": {"code": "context_length_exceeded", "message": "m"}}',
            400,
            Fails("context_overflow", 400, "m"),
        ),
    ],
)
def test_errors_of_compatible_servers_are_heard(body: bytes, status: int, error: Fails) -> None:
    response = HttpResponse(status, (("content-type", "application/json"),), (body,))

    assert PROTOCOL.parse_response(response, parse_body()).error == error


@pytest.mark.parametrize(
    ("stream", "content", "error"),
    [
        (b"", "", "cut_stream"),
        (b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n', "a", "cut_stream"),
        (b'data: {"choices":[{"delta":{"content":"a"}}]}\n\ndata: [DONE]\n\n', "a", "cut_stream"),
        (b'data: {"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}\n\n', "a", ""),
        (b'data: {"error":{"message":"x","code":"slow_down"}}\n\n', "", "overloaded"),
    ],
)
def test_a_stream_without_a_finish_reason_is_cut(stream: bytes, content: str, error: str) -> None:
    headers = (("content-type", "text/event-stream"),)

    parsed = PROTOCOL.parse_response(HttpResponse(200, headers, (stream,)), parse_body(stream=True))

    assert (parsed.message.content, parsed.error.kind if parsed.error else "") == (content, error)
