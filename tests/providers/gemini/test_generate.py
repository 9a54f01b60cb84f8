"""Gemini's generateContent: requests read, replies rendered, and both back again."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import msgspec
import pytest

from simkit.core.errors import WireInvalid
from simkit.core.messages import Fails, Message, ToolCall, Usage
from simkit.providers import sse
from simkit.providers.failures import FAILURES
from simkit.providers.gemini.generate import PROTOCOL
from simkit.providers.http import HttpRequest, HttpResponse, header
from simkit.providers.values import Offer, OutgoingReply, ParsedRequest, ParsedResponse
from tests.golden import assert_says, cases

HOST = "https://generativelanguage.googleapis.com/v1beta"
PLAIN = f"{HOST}/models/gemini-x:generateContent"
EVENTS = f"{HOST}/models/gemini-x:streamGenerateContent?alt=sse"
LISTED = f"{HOST}/models/gemini-x:streamGenerateContent"
WAYS = {"plain": PLAIN, "events": EVENTS, "listed": LISTED}
PIXEL = "iVBORw0KGgo="
PIXEL_SHA256 = "4c4b6a3be1314ab86138bef4314dde022e600960d8689a2c8f8631802d20dab6"
CALL = ToolCall("call_7", "book", {"city": "Zürich"})
OTHER = ToolCall("call_8", "book", {})
THOUGHT = {"text": "They want a room in Zürich.", "thought": True}
MESSAGES = {
    "text": Message("assistant", "Grüezi, wie kann ich helfen? 🏔"),
    "nothing": Message("assistant"),
    "call": Message("assistant", calls=(CALL,)),
    "text and calls": Message("assistant", "One moment.", calls=(CALL, OTHER)),
    "json": Message("assistant", '{"city":"Bern"}', data={"city": "Bern"}),
    "reasoning": Message(
        "assistant",
        "Done.",
        calls=(CALL, OTHER),
        data={
            "reasoning": [
                THOUGHT,
                {"thoughtSignature": "c2ln"},
                {"thoughtSignature": "b24=", "call": 0},
            ]
        },
    ),
}
HELLO = {"role": "user", "parts": [{"text": "Hello"}]}


def request(url: str = PLAIN, **body: Any) -> HttpRequest:
    return HttpRequest("POST", url, body=json.dumps({"contents": [HELLO], **body}).encode())


def parse_body(url: str = PLAIN, **body: Any) -> ParsedRequest:
    return PROTOCOL.parse_request(request(url, **body))


def read(*contents: Any) -> tuple[Message, ...]:
    return parse_body(contents=list(contents)).messages


def user(*parts: Any) -> Any:
    return {"role": "user", "parts": list(parts)}


def model(*parts: Any) -> Any:
    return {"role": "model", "parts": list(parts)}


def call(name: str, args: Any, **more: Any) -> Any:
    return {"functionCall": {"name": name, "args": args, **more}}


def result(name: str, response: Any, **more: Any) -> Any:
    return {"functionResponse": {"name": name, "response": response, **more}}


def failed(kind: str, url: str = PLAIN, /, **changes: Any) -> Any:
    known = FAILURES[kind]
    fails = Fails(kind, known.status, known.message)
    return PROTOCOL.failed("c1", msgspec.structs.replace(fails, **changes), parse_body(url))


def events(response: HttpResponse) -> list[Any]:
    return [json.loads(data) for _, data in sse.events(response.body)]


CAMEL: dict[str, Any] = {
    "systemInstruction": {"parts": [{"text": "Be brief."}]},
    "contents": [
        {"role": "user", "parts": [{"fileData": {"mimeType": "image/png", "fileUri": "gs://a"}}]}
    ],
    "tools": [
        {
            "functionDeclarations": [
                {
                    "name": "book",
                    "description": "Books a room.",
                    "parameters": {
                        "type": "OBJECT",
                        "properties": {
                            "max_items": {"type": "STRING", "nullable": True, "enum": ["a"]},
                            "nights": {"type": "ARRAY", "items": {"type": "INTEGER"}},
                        },
                        "required": ["nights"],
                    },
                },
                {"name": "list", "parametersJsonSchema": {"type": "object", "title": "T"}},
                {"name": "ping"},
            ]
        },
        {"googleSearch": {}},
    ],
    "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["book"]}},
    "generationConfig": {
        "temperature": 0.5,
        "maxOutputTokens": 64,
        "responseMimeType": "application/json",
        "responseSchema": {
            "type": "OBJECT",
            "propertyOrdering": ["a"],
            "properties": {"a": {"anyOf": [{"type": "STRING"}], "minItems": "1"}},
        },
    },
}
SNAKE = {
    "system_instruction": CAMEL["systemInstruction"],
    "contents": [{"parts": [{"file_data": {"mime_type": "image/png", "file_uri": "gs://a"}}]}],
    "tools": [
        {
            "function_declarations": [
                CAMEL["tools"][0]["functionDeclarations"][0],
                {"name": "list", "parameters_json_schema": {"type": "object", "title": "T"}},
                {"name": "ping"},
            ]
        },
        {"google_search": {}},
    ],
    "tool_config": {"function_calling_config": {"mode": "any", "allowed_function_names": ["book"]}},
    "generation_config": {
        "temperature": 0.5,
        "max_output_tokens": 64,
        "response_mime_type": "application/json",
        "response_schema": {
            "type": "object",
            "property_ordering": ["a"],
            "properties": {"a": {"any_of": [{"type": "STRING"}], "min_items": 1}},
        },
    },
}


@pytest.mark.parametrize("body", [CAMEL, SNAKE], ids=["camelCase", "snake_case"])
def test_a_request_is_read_whole_in_either_spelling(body: dict[str, Any]) -> None:
    image = {"type": "image", "url": "gs://a", "media_type": "image/png"}
    parameters = {
        "type": "object",
        "properties": {
            "max_items": {"type": ["string", "null"], "enum": ["a", None]},
            "nights": {"type": "array", "items": {"type": "integer"}},
        },
        "required": ["nights"],
    }

    parsed_request = parse_body(EVENTS, **body)

    assert parsed_request == ParsedRequest(
        protocol="gemini",
        model="gemini-x",
        messages=(
            Message("system", "Be brief."),
            Message("user", "[image gs://a]", data={"parts": [image]}),
        ),
        offers=(
            Offer("book", parameters, "Books a room."),
            Offer("list", {"type": "object", "title": "T"}),
            Offer("ping", {"type": "object", "properties": {}}),
            Offer("googleSearch"),
        ),
        choice="book",
        output={
            "type": "object",
            "properties": {"a": {"anyOf": [{"type": "string"}], "minItems": 1}},
        },
        settings={"temperature": 0.5, "maxOutputTokens": 64},
        is_streamed=True,
    )


@pytest.mark.parametrize(
    ("config", "choice", "settings"),
    [
        ({}, "auto", {}),
        ({"mode": "AUTO"}, "auto", {}),
        ({"mode": "NONE"}, "none", {}),
        ({"mode": "ANY"}, "required", {}),
        ({"mode": "VALIDATED"}, "auto", {"mode": "VALIDATED"}),
        (
            {"mode": "ANY", "allowedFunctionNames": ["a", "b"]},
            "required",
            {"mode": "ANY", "allowedFunctionNames": ["a", "b"]},
        ),
    ],
)
def test_a_tool_choice_has_our_name(config: Any, choice: str, settings: Any) -> None:
    parsed_request = parse_body(toolConfig={"functionCallingConfig": config})

    data = {"toolConfig": {"functionCallingConfig": settings}} if settings else {}
    assert (parsed_request.choice, parsed_request.settings) == (choice, data)


@pytest.mark.parametrize(
    ("config", "output"),
    [
        ({}, None),
        ({"responseMimeType": "text/plain"}, None),
        ({"responseMimeType": "application/json"}, {}),
        (
            {"responseJsonSchema": {"type": "object", "title": "T"}},
            {"type": "object", "title": "T"},
        ),
    ],
)
def test_the_answers_schema_is_read(config: Any, output: Any) -> None:
    assert parse_body(generationConfig=config).output == output


def test_results_find_their_calls_by_id_and_else_by_the_order_of_names() -> None:
    messages = read(
        HELLO,
        model(call("book", {"n": 1}), call("book", {"n": 2}), call("list", {}, id="x1")),
        user(
            result("list", {"rooms": 2}, id="x1"),
            result("book", {"result": "Booked."}),
            result("book", {"error": "No room."}),
            {"text": "And now?"},
        ),
        model(call("book", {})),
        user(result("book", {"output": {"ok": True}})),
    )

    assert messages == (
        Message("user", "Hello"),
        Message(
            "assistant",
            calls=(
                ToolCall("call_1", "book", {"n": 1}),
                ToolCall("call_2", "book", {"n": 2}),
                ToolCall("x1", "list", {}),
            ),
        ),
        Message("tool", '{"rooms":2}', call_id="x1", tool="list", data={"rooms": 2}),
        Message("tool", "Booked.", call_id="call_1", tool="book"),
        Message("tool", "No room.", call_id="call_2", tool="book", data={"is_error": True}),
        Message("user", "And now?"),
        Message("assistant", calls=(ToolCall("call_4", "book", {}),)),
        Message("tool", '{"ok":true}', call_id="call_4", tool="book", data={"ok": True}),
    )


def test_a_call_without_an_id_is_heard_under_the_id_it_has_in_the_next_request() -> None:
    earlier = model(call("book", {}))
    body = {"candidates": [{"content": model(call("list", {})), "finishReason": "STOP"}]}
    response = HttpResponse(200, (), (json.dumps(body).encode(),))

    parsed = PROTOCOL.parse_response(response, parse_body(contents=[HELLO, earlier]))

    assert parsed.message.calls == read(HELLO, earlier, model(call("list", {})))[2].calls
    assert parsed.message.calls == (ToolCall("call_2", "list", {}),)


def test_attachments_are_shown_by_a_placeholder_and_kept_by_reference() -> None:
    (results,) = read(
        user(
            {"text": "Look:"},
            {"inlineData": {"mimeType": "image/png", "data": PIXEL}},
            {"fileData": {"mimeType": "application/pdf", "fileUri": "https://x.test/a.pdf"}},
            {"someday": {"more": 1}},
        )
    )

    assert results == Message(
        "user",
        "Look:\n[image sha256:4c4b6a3be131]\n[file https://x.test/a.pdf]\n[someday]",
        data={
            "parts": [
                {"type": "image", "sha256": PIXEL_SHA256, "media_type": "image/png"},
                {"type": "file", "url": "https://x.test/a.pdf", "media_type": "application/pdf"},
                {"someday": {"more": 1}},
            ]
        },
    )


def test_thoughts_signatures_and_what_the_provider_ran_are_kept_beside_the_text() -> None:
    code = {"executableCode": {"language": "PYTHON", "code": "1"}}

    (results,) = read(
        model(
            {"text": "They want ", "thought": True},
            {"text": "a room.", "thought": True, "thoughtSignature": "YQ=="},
            code,
            {"text": "One "},
            {"text": "moment.", "thoughtSignature": "Yg=="},
            {**call("book", {}, id="x1"), "thoughtSignature": "Yw=="},
        )
    )

    thought = {"text": "They want a room.", "thought": True, "thoughtSignature": "YQ=="}
    signatures = [{"thoughtSignature": "Yg=="}, {"thoughtSignature": "Yw==", "call": 0}]
    assert results == Message(
        "assistant",
        "One moment.",
        calls=(ToolCall("x1", "book", {}),),
        data={"reasoning": [thought, *signatures], "items": [code]},
    )


@cases(__file__, "refused")
def test_what_is_wrong_is_named_by_its_field(body: dict[str, Any], says: str) -> None:
    with pytest.raises(WireInvalid) as caught:
        parse_body(**body)

    assert_says(str(caught.value), says)


def test_a_stream_without_events_is_a_list_of_what_they_hold() -> None:
    reply = OutgoingReply("c1", MESSAGES["reasoning"], Usage(11, 7), chunks=2)

    streamed, listed = (PROTOCOL.served(reply, parse_body(url)) for url in (EVENTS, LISTED))

    assert header(streamed.headers, "content-type") == sse.CONTENT_TYPE
    assert header(listed.headers, "content-type") == "application/json; charset=UTF-8"
    assert json.loads(listed.body) == events(streamed)
    assert len(listed.chunks) == len(events(streamed)) + 1


@pytest.mark.parametrize(
    ("kind", "way", "chunks", "finish"),
    list(product(MESSAGES, WAYS, [None, 1, 3, (1, 4)], ["", "length"])),
)
def test_what_was_served_is_heard(kind: str, way: str, chunks: Any, finish: str) -> None:
    request = parse_body(WAYS[way])
    reply = OutgoingReply("c1", MESSAGES[kind], Usage(11, 7), chunks=chunks, finish=finish)

    parsed = PROTOCOL.parse_response(PROTOCOL.served(reply, request), request)

    assert parsed == ParsedResponse(MESSAGES[kind], Usage(11, 7), finish, "resp_c1")


def test_a_used_up_quota_says_which_and_when_to_come_back() -> None:
    response = failed("quota_exceeded", retry_after=2.5)

    message = "You exceeded your current quota, please check your plan and billing details."
    assert json.loads(response.body)["error"] == {
        "code": 429,
        "message": message,
        "status": "RESOURCE_EXHAUSTED",
        "details": [
            {
                "@type": "type.googleapis.com/google.rpc.QuotaFailure",
                "violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel"}],
            },
            {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "2.5s"},
        ],
    }
    assert header(response.headers, "retry-after") == "2.5"
    parsed = PROTOCOL.parse_response(response, parse_body())
    assert parsed.error == Fails("quota_exceeded", 429, message, 2.5)


def test_the_scenarios_own_status_words_and_type_stand() -> None:
    response = failed("rate_limit", kind="TEAPOT", status=418, message="Tea?")

    assert PROTOCOL.parse_response(response, parse_body()).error == Fails("TEAPOT", 418, "Tea?")


def test_a_malformed_call_never_leaves_the_provider() -> None:
    request = parse_body(tools=[{"googleSearch": {}, "functionDeclarations": [{"name": "book"}]}])

    response = PROTOCOL.failed("c1", Fails("malformed_json", 200, ""), request)

    assert isinstance(response, HttpResponse)
    words = 'Malformed function call: book({"value": })'
    assert PROTOCOL.parse_response(response, request) == ParsedResponse(
        Message("assistant"),
        Usage(0, 0),
        "malformed_function_call",
        "resp_c1",
        Fails("malformed_json", 200, words),
    )


@pytest.mark.parametrize(
    ("way", "text"),
    [("plain", ""), ("events", "One, two, three, fou"), ("listed", "One, two, three, fou")],
)
def test_a_cut_reply_is_heard_as_far_as_it_came(way: str, text: str) -> None:
    response = failed("cut_stream", WAYS[way], message="One, two, three, four, five, six, seven.")

    parsed = PROTOCOL.parse_response(response, parse_body(WAYS[way]))

    assert response.ends == "cut"
    assert parsed.error == Fails("cut_stream", 200, FAILURES["cut_stream"].message)
    assert parsed.message == Message("assistant", text)


@pytest.mark.parametrize("url", [EVENTS, LISTED], ids=["events", "list"])
def test_a_stream_without_a_reason_is_cut_however_it_ended(url: str) -> None:
    whole = PROTOCOL.served(
        OutgoingReply("c1", MESSAGES["text and calls"], Usage(1, 1)), parse_body(url)
    )
    end = -1 if url == EVENTS else -2
    short = HttpResponse(200, whole.headers, whole.chunks[:end])

    parsed = PROTOCOL.parse_response(short, parse_body(url))

    assert parsed.error == Fails("cut_stream", 200, FAILURES["cut_stream"].message)
    assert parsed.message == Message("assistant", "One moment.", calls=(CALL,))


def test_an_error_in_a_list_is_read_too() -> None:
    body = b'[{"error": {"code": 400, "message": "API key not valid.", "status": "X"}}]'

    parsed = PROTOCOL.parse_response(HttpResponse(400, (), (body,)), parse_body())

    assert parsed.error == Fails("authentication", 400, "API key not valid.")


@pytest.mark.parametrize("body", [b"", b"{}", b"<html>", b'{"candidates":1}', b'{"candidates":[]}'])
def test_a_response_that_is_none_is_refused(body: bytes) -> None:
    with pytest.raises(WireInvalid):
        PROTOCOL.parse_response(HttpResponse(200, (), (body,)), parse_body())


GOOD_REQUEST = {
    **CAMEL,
    "contents": [
        HELLO,
        model(THOUGHT, {"text": "a"}, {**call("book", {}), "thoughtSignature": "YQ=="}),
        user(result("book", {"result": 1}), {"inlineData": {"mimeType": "a/b", "data": PIXEL}}),
    ],
}


@pytest.mark.parametrize(
    "deep",
    [
        b'{"contents":[],"generationConfig":{"responseSchema":'
        + b'{"items":' * depth
        + b"{}"
        + b"}" * (depth + 2)
        for depth in (400, 900, 5_000, 200_000)
    ],
    ids=["400", "900", "5000", "200000"],
)
def test_a_schema_is_read_or_refused_however_deep_it_is(deep: bytes) -> None:
    try:
        parsed_request = PROTOCOL.parse_request(HttpRequest("POST", PLAIN, body=deep))
    except WireInvalid as problem:
        refused = str(problem)
    else:
        refused = "" if parsed_request.output else "no output"

    assert refused in ("", "body: is nested too deep")
