"""Anthropic's messages: requests read, replies rendered, and both back again."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pytest

from simkit.core.errors import WireInvalid
from simkit.core.messages import Fails, Message, ToolCall, Usage
from simkit.providers import sse
from simkit.providers.anthropic.messages import PROTOCOL
from simkit.providers.body_reader import MessageCache
from simkit.providers.failures import FAILURES
from simkit.providers.http import HttpRequest, HttpResponse
from simkit.providers.values import Offer, OutgoingReply, ParsedRequest, ParsedResponse
from tests.golden import assert_says, cases

BODIES = Path(__file__).parents[1] / "bodies"
URL = "https://api.anthropic.com/v1/messages"
PIXEL = "iVBORw0KGgo="
PIXEL_SHA256 = "4c4b6a3be1314ab86138bef4314dde022e600960d8689a2c8f8631802d20dab6"
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
CALL = ToolCall("toolu_1", "book", {"city": "Zürich"})
OTHER = ToolCall("toolu_2", "book", {})
THOUGHTS = [
    {"type": "thinking", "thinking": "They want a room in Zürich.", "signature": "c2ln"},
    {"type": "redacted_thinking", "data": "ZW5j"},
]
MESSAGES = {
    "text": Message("assistant", "Grüezi, wie kann ich helfen? 🏔"),
    "nothing": Message("assistant"),
    "call": Message("assistant", calls=(CALL,)),
    "text and calls": Message("assistant", "One moment.", calls=(CALL, OTHER)),
    "json": Message("assistant", '{"city":"Bern"}', data={"city": "Bern"}),
    "reasoning": Message("assistant", "Done.", calls=(CALL,), data={"reasoning": THOUGHTS}),
}
HELLO = {"role": "user", "content": "Hello"}
TOOL = {"name": "book", "description": "Books a room.", "input_schema": SCHEMA}


def request(**body: Any) -> HttpRequest:
    whole = {"model": "claude-x", "max_tokens": 64, "messages": [HELLO], **body}
    return HttpRequest("POST", URL, body=json.dumps(whole).encode())


def parse_body(**body: Any) -> ParsedRequest:
    return PROTOCOL.parse_request(request(**body))


def read(*messages: Any) -> tuple[Message, ...]:
    return parse_body(messages=list(messages)).messages


def user(*blocks: Any) -> Any:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: Any) -> Any:
    return {"role": "assistant", "content": list(blocks)}


def text(words: str) -> Any:
    return {"type": "text", "text": words}


def use(call: ToolCall) -> Any:
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": call.args}


def result(call: ToolCall, content: Any, **more: Any) -> Any:
    return {"type": "tool_result", "tool_use_id": call.id, "content": content, **more}


def failed(kind: str, is_streamed: bool = False, /, **changes: Any) -> Any:
    known = FAILURES[kind]
    fails = Fails(kind, known.status, known.message)
    request = parse_body(stream=is_streamed)
    return PROTOCOL.failed("c1", msgspec.structs.replace(fails, **changes), request)


def events(response: HttpResponse) -> list[Any]:
    return [json.loads(data) for _, data in sse.events(response.body)]


def test_a_request_is_read_whole() -> None:
    parsed_request = parse_body(
        system=[text("Be brief."), text("Be kind.")],
        tools=[
            TOOL,
            {"type": "web_search_20250305", "name": "web_search"},
            {"type": "bash_20250124", "name": "bash"},
        ],
        tool_choice={"type": "tool", "name": "book", "disable_parallel_tool_use": True},
        output_config={"format": {"type": "json_schema", "schema": SCHEMA}, "effort": "low"},
        temperature=0.5,
        stream=True,
    )

    assert parsed_request == ParsedRequest(
        protocol="anthropic",
        model="claude-x",
        messages=(Message("system", "Be brief.\nBe kind."), Message("user", "Hello")),
        offers=(Offer("book", SCHEMA, "Books a room."), Offer("web_search"), Offer("bash", {})),
        choice="book",
        output=SCHEMA,
        settings={
            "max_tokens": 64,
            "temperature": 0.5,
            "output_config": {"effort": "low"},
            "disable_parallel_tool_use": True,
        },
        is_streamed=True,
    )


@pytest.mark.parametrize(
    ("choice", "read_as"),
    [
        (None, "auto"),
        ({"type": "auto"}, "auto"),
        ({"type": "any"}, "required"),
        ({"type": "none"}, "none"),
        ({"type": "tool", "name": "book"}, "book"),
    ],
)
def test_a_tool_choice_has_our_name(choice: Any, read_as: str) -> None:
    assert parse_body(tool_choice=choice).choice == read_as


def test_the_older_output_format_is_the_same() -> None:
    assert parse_body(output_format={"type": "json_schema", "schema": SCHEMA}).output == SCHEMA


def test_results_are_messages_of_their_own_before_what_the_user_says() -> None:
    messages = read(
        HELLO,
        assistant(text("One moment."), use(CALL), use(OTHER)),
        user(
            result(CALL, [text('{"ok":'), text("true}")]),
            result(OTHER, "No room.", is_error=True),
            text("And now?"),
        ),
    )

    assert messages == (
        Message("user", "Hello"),
        MESSAGES["text and calls"],
        Message("tool", '{"ok":\ntrue}', call_id="toolu_1", tool="book", data={"ok": True}),
        Message("tool", "No room.", call_id="toolu_2", tool="book", data={"is_error": True}),
        Message("user", "And now?"),
    )


def test_a_result_of_an_unknown_call_names_no_tool() -> None:
    messages = read(user(result(ToolCall("toolu_9", "", {}), None)))

    assert messages == (Message("tool", "", call_id="toolu_9"),)


def test_attachments_are_shown_by_a_placeholder_and_kept_by_reference() -> None:
    image = {"type": "base64", "media_type": "image/png", "data": PIXEL}
    sources: list[Any] = [
        {"type": "image", "source": image},
        {"type": "image", "source": {"type": "url", "url": "https://x.test/a.png"}},
        {"type": "document", "title": "Plan", "source": {"type": "file", "file_id": "file_1"}},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "Hi"}},
        {"type": "container_upload", "file_id": "file_2"},
    ]

    (results,) = read(user(text("Look:"), *sources))

    assert results == Message(
        "user",
        "Look:\n[image sha256:4c4b6a3be131]\n[image https://x.test/a.png]\n[document file_1]\n"
        "[document]\n[container_upload]",
        data={
            "parts": [
                {"type": "image", "sha256": PIXEL_SHA256, "media_type": "image/png"},
                {"type": "image", "url": "https://x.test/a.png"},
                {"type": "document", "id": "file_1", "name": "Plan"},
                {"type": "document", "text": "Hi"},
                {"type": "container_upload", "file_id": "file_2"},
            ]
        },
    )


def test_reasoning_and_server_tools_are_kept_beside_the_text() -> None:
    search = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}}
    found_pages = {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": []}

    (results,) = read(assistant(*THOUGHTS, search, found_pages, text("It "), text("rains.")))

    assert results == Message(
        "assistant", "It rains.", data={"reasoning": THOUGHTS, "items": [search, found_pages]}
    )


@cases(__file__, "refused")
def test_what_is_wrong_is_named_by_its_field(body: dict[str, Any], says: str) -> None:
    with pytest.raises(WireInvalid) as caught:
        parse_body(**body)

    assert_says(str(caught.value), says)


@pytest.mark.parametrize(
    ("kind", "is_streamed", "chunks", "finish"),
    list(product(MESSAGES, [False, True], [None, 1, 3, (1, 4)], ["", "length"])),
)
def test_what_was_served_is_heard(kind: str, is_streamed: bool, chunks: Any, finish: str) -> None:
    request = parse_body(stream=is_streamed)
    reply = OutgoingReply("c1", MESSAGES[kind], Usage(11, 7), chunks=chunks, finish=finish)

    parsed = PROTOCOL.parse_response(PROTOCOL.served(reply, request), request)

    assert parsed == ParsedResponse(MESSAGES[kind], Usage(11, 7), finish, "msg_c1")


@pytest.mark.parametrize("name", ["recommended.json", "stream.sse"])
def test_bodies_that_the_libraries_were_seen_to_take_are_heard(name: str) -> None:
    body = (BODIES / f"anthropic_messages.{name}").read_bytes()

    parsed = PROTOCOL.parse_response(HttpResponse(200, (), (body,)), parse_body())

    message = Message("assistant", "hi there", calls=(ToolCall("call_1", "f", {"a": 1}),))
    assert parsed == ParsedResponse(message, Usage(10, 5), "", "msg_sim")


def test_the_scenarios_own_status_words_type_and_delay_stand() -> None:
    response = failed("rate_limit", kind="teapot", status=418, message="Tea?", retry_after=0.5)

    assert response.headers[-1] == ("retry-after", "0.5")
    assert PROTOCOL.parse_response(response, parse_body()).error == Fails(
        "teapot", 418, "Tea?", 0.5
    )


def test_malformed_arguments_come_where_a_stream_can_carry_them() -> None:
    request = parse_body(tools=[{"type": "web_search_1", "name": "web_search"}, TOOL], stream=True)

    response = PROTOCOL.failed("c1", Fails("malformed_json", 200, ""), request)

    assert isinstance(response, HttpResponse)
    parsed = PROTOCOL.parse_response(response, request)
    assert parsed.message.calls == (ToolCall("toolu_c1", "book", '{"value": }'),)


def test_a_stream_without_its_last_event_is_cut_however_it_ended() -> None:
    reply = OutgoingReply("c1", MESSAGES["text"], Usage(1, 1))
    whole = PROTOCOL.served(reply, parse_body(stream=True))
    short = HttpResponse(200, whole.headers, whole.chunks[:-1])

    parsed = PROTOCOL.parse_response(short, parse_body(stream=True))

    assert parsed.error == Fails("cut_stream", 200, FAILURES["cut_stream"].message)
    assert parsed.message == MESSAGES["text"]


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b"<html>", b'{"content":1}'])
def test_a_response_that_is_none_is_refused(body: bytes) -> None:
    with pytest.raises(WireInvalid):
        PROTOCOL.parse_response(HttpResponse(200, (), (body,)), parse_body())


GOOD_REQUEST = json.loads(
    request(
        system=[text("Be brief.")],
        messages=[
            HELLO,
            assistant(*THOUGHTS, text("a"), use(CALL)),
            user(
                result(CALL, [text("ok")], is_error=True),
                {"type": "image", "source": {"type": "file", "file_id": "f1"}},
            ),
        ],
        tools=[TOOL],
        tool_choice={"type": "tool", "name": "book"},
        output_config={"format": {"type": "json_schema", "schema": SCHEMA}},
    ).body
)


@pytest.mark.parametrize("deep", [b"[" * 200_000, b'{"messages":' * 5_000, b'{"a":' * 200_000])
def test_what_is_nested_too_deep_is_refused(deep: bytes) -> None:
    with pytest.raises(WireInvalid):
        PROTOCOL.parse_request(HttpRequest("POST", URL, body=deep))


MARK = {"cache_control": {"type": "ephemeral"}}


@pytest.mark.parametrize(
    ("body", "marks"),
    [
        ({}, ()),
        ({"tools": [{"name": "look", "input_schema": {}, **MARK}]}, ((0, 0),)),
        ({"system": [{"type": "text", "text": "Be kind.", **MARK},
                     {"type": "text", "text": "It is 9."}]}, ((0, 8),)),
        ({"system": [{"type": "text", "text": "Be kind."},
                     {"type": "text", "text": "It is 9.", **MARK}]}, ((0, 17),)),
        ({"system": "Be kind.", "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Hi", **MARK}]}]}, ((2, 0),)),
        ({"messages": [{"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "a", "content": "8"},
            {"type": "text", "text": "Hi", **MARK}]}]}, ((2, 0),)),
        (MARK, ((1, 0),)),
    ],
    ids=["none", "tools", "a part of the system", "the system", "a message", "with a result",
         "the whole request"],
)  # fmt: skip
def test_marks_of_what_the_provider_keeps_are_places(
    body: dict[str, Any], marks: tuple[tuple[int, int], ...]
) -> None:
    again = PROTOCOL.parse_again
    assert again is not None

    assert parse_body(**body).marks == marks
    assert again(request(**body), MessageCache()).marks == marks
