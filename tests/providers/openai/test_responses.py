"""OpenAI's Responses: what requests ask, and replies there and back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from simkit.core.errors import WireInvalid
from simkit.core.messages import Message, ToolCall, Usage
from simkit.providers import sse
from simkit.providers.http import HttpRequest, HttpResponse
from simkit.providers.openai.responses import PROTOCOL
from simkit.providers.values import Offer, OutgoingReply, ParsedRequest, ParsedResponse
from tests.golden import assert_says, cases
from tests.providers.replies import OPENAI, contains, make_reply

BODIES = Path(__file__).parents[1] / "bodies"
USER = {"role": "user", "content": "Hello"}
TOOLS = [{"type": "function", "name": "book", "parameters": {"type": "object"}}]
SCHEMA = {"type": "object", "properties": {"nights": {"type": "integer"}}}
FORM = {"type": "json_schema", "name": "b", "schema": SCHEMA, "strict": True}
THOUGHT = {
    "id": "rs_1",
    "type": "reasoning",
    "summary": [{"type": "summary_text", "text": "They said two nights."}],
    "encrypted_content": "gAAAA",
}
SEARCH = {"id": "ws_1", "type": "web_search_call", "status": "completed"}
REPLIES = {
    **OPENAI,
    "reasoned": Message("assistant", "Two.", data={"reasoning": [THOUGHT], "items": [SEARCH]}),
    "reasoned call": Message(
        "assistant", calls=(ToolCall("call_1", "book", {}),), data={"reasoning": [THOUGHT]}
    ),
}


def parse_body(**body: Any) -> ParsedRequest:
    whole = {"model": "m", "input": "Hello", **body}
    url = "https://api.test/v1/responses"
    return PROTOCOL.parse_request(HttpRequest("POST", url, body=json.dumps(whole).encode()))


def streamed(response: HttpResponse) -> list[Any]:
    """The events of a stream; each is named as its type says, and they are numbered."""
    pairs = [(event, json.loads(data)) for event, data in sse.events(response.body)]
    assert [event for event, _ in pairs] == [data["type"] for _, data in pairs]
    assert [data.pop("sequence_number") for _, data in pairs] == list(range(len(pairs)))
    return [data for _, data in pairs]


def test_a_text_is_what_the_user_says() -> None:
    assert parse_body(
        instructions="Book rooms.", temperature=0.5, text={"verbosity": "low"}
    ) == ParsedRequest(
        protocol="openai-responses",
        model="m",
        messages=(
            Message("system", "Book rooms.", section="instructions"),
            Message("user", "Hello"),
        ),
        settings={"temperature": 0.5, "text": {"verbosity": "low"}},
    )


def test_a_whole_request_is_read() -> None:
    items = [
        {"role": "developer", "content": "Book rooms."},
        {"role": "user", "content": [{"type": "input_text", "text": "Two nights."}]},
        THOUGHT,
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "One moment."}],
        },
        {"type": "function_call", "call_id": "c1", "name": "book", "arguments": '{"city": "Chur"}'},
        {"type": "function_call", "call_id": "c2", "name": "book", "arguments": '{"city": '},
        {"type": "function_call_output", "call_id": "c1", "output": '{"free": [2]}'},
        {
            "type": "function_call_output",
            "call_id": "c2",
            "output": [{"type": "input_text", "text": "no JSON"}],
        },
    ]
    body = {
        "input": items,
        "tools": [*TOOLS, {"type": "web_search"}, {"type": "mcp", "server_label": "crm"}],
        "tool_choice": {"type": "function", "name": "book"},
        "text": {"format": FORM},
        "previous_response_id": "resp_c0",
        "stream": True,
    }

    assert parse_body(**body) == ParsedRequest(
        protocol="openai-responses",
        model="m",
        messages=(
            Message("system", "Book rooms."),
            Message("user", "Two nights."),
            Message(
                "assistant",
                "One moment.",
                calls=(
                    ToolCall("c1", "book", {"city": "Chur"}),
                    ToolCall("c2", "book", '{"city": '),
                ),
                data={"reasoning": [THOUGHT]},
            ),
            Message("tool", '{"free": [2]}', call_id="c1", tool="book", data={"free": [2]}),
            Message("tool", "no JSON", call_id="c2", tool="book"),
        ),
        offers=(
            Offer("book", {"type": "object"}, strict=True),  # Without `strict`, it is.
            *(Offer("web_search"), Offer("crm")),
        ),
        choice="book",
        output=SCHEMA,
        is_streamed=True,
        previous="resp_c0",
    )


def test_a_new_reply_is_a_new_message() -> None:
    def text(words: str) -> dict[str, Any]:
        return {"role": "assistant", "content": words}

    call = {"type": "function_call", "call_id": "c1", "name": "book", "arguments": "{}"}
    messages = parse_body(
        input=[text("one"), text("two"), SEARCH, call, THOUGHT, text("three")]
    ).messages

    assert messages == (
        Message("assistant", "one"),
        Message("assistant", "two", calls=(ToolCall("c1", "book", {}),), data={"items": [SEARCH]}),
        Message("assistant", "three", data={"reasoning": [THOUGHT]}),
    )


def test_tools_that_the_client_runs_for_openai_are_calls() -> None:
    action = {"commands": ["ls"]}
    items = [
        {"type": "shell_call", "call_id": "c1", "action": action},
        {"type": "shell_call_output", "call_id": "c1", "output": [{"stdout": "a"}]},
        {"type": "custom_tool_call", "call_id": "c2", "name": "run", "input": "SELECT 1"},
        {"type": "custom_tool_call_output", "call_id": "c2", "output": "1"},
        {"type": "computer_call", "call_id": "c3", "action": {"type": "click"}},
        {
            "type": "computer_call_output",
            "call_id": "c3",
            "output": {"type": "computer_screenshot", "image_url": "https://x.test/a.png"},
        },
    ]
    picture = {"type": "image", "url": "https://x.test/a.png"}

    assert parse_body(input=items).messages == (
        Message("assistant", calls=(ToolCall("c1", "shell", action),)),
        Message("tool", '[{"stdout":"a"}]', call_id="c1", tool="shell", data=[{"stdout": "a"}]),
        Message("assistant", calls=(ToolCall("c2", "run", "SELECT 1"),)),
        Message("tool", "1", call_id="c2", tool="run"),
        Message("assistant", calls=(ToolCall("c3", "computer", {"type": "click"}),)),
        Message(
            "tool",
            "[image https://x.test/a.png]",
            call_id="c3",
            tool="computer",
            data={"parts": [picture]},
        ),
    )


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (None, "auto"),
        ("required", "required"),
        ({"type": "custom", "name": "run"}, "run"),
        ({"type": "allowed_tools", "mode": "required", "tools": []}, "required"),
        ({"type": "mcp", "server_label": "crm"}, "crm"),
        ({"type": "web_search"}, "web_search"),
    ],
)
def test_which_tools_may_be_called_is_read(choice: Any, expected: str) -> None:
    assert parse_body(tool_choice=choice).choice == expected


@cases(__file__, "refused")
def test_a_field_that_is_wrong_is_named(body: dict[str, Any], says: str) -> None:
    with pytest.raises(WireInvalid) as refused:
        parse_body(**body)

    assert_says(str(refused.value), says)


@pytest.mark.parametrize("chunks", [None, 1, 3, (2, 5)])
@pytest.mark.parametrize("is_streamed", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("reply", REPLIES)
def test_what_is_said_is_heard(reply: str, is_streamed: bool, chunks: Any) -> None:
    request = parse_body(stream=is_streamed, tools=TOOLS)
    message = REPLIES[reply]
    finish = "refusal" if reply == "refusal" else ""

    response = PROTOCOL.served(make_reply(message, chunks=chunks, finish=finish), request)

    assert PROTOCOL.parse_response(response, request) == ParsedResponse(
        message, Usage(11, 7), finish, "resp_c1"
    )


@pytest.mark.parametrize(
    ("event", "error"),
    [
        ({"type": "error", "message": "m", "code": "server_error"}, ("server_error", "m")),
        ({"error": {"message": "m", "code": "slow_down"}}, ("overloaded", "m")),
    ],
)
def test_an_error_event_is_an_error(event: dict[str, Any], error: tuple[str, str]) -> None:
    response = HttpResponse(200, (), (sse.frame(event),))

    parsed = PROTOCOL.parse_response(response, parse_body(stream=True))

    assert parsed.error is not None
    assert (parsed.error.kind, parsed.error.message) == error


def test_a_stream_ends_with_what_is_answered_without_one() -> None:
    for message in REPLIES.values():
        plain = PROTOCOL.served(make_reply(message), parse_body())

        last = streamed(PROTOCOL.served(make_reply(message), parse_body(stream=True)))[-1]

        assert last["response"] == json.loads(plain.body)


def test_all_fields_of_the_bodies_that_clients_take_are_there() -> None:
    message = Message("assistant", "hi there", calls=(ToolCall("call_1", "f", {"a": 1}),))
    words = OutgoingReply("sim", message, Usage(10, 5), chunks=1)
    body = json.loads((BODIES / "responses.recommended.json").read_bytes())
    events = json.loads((BODIES / "responses.stream.json").read_bytes())
    rows = [event["data"] for event in events]

    plain = json.loads(PROTOCOL.served(words, parse_body()).body)
    stream = [
        json.loads(d) for _, d in sse.events(PROTOCOL.served(words, parse_body(stream=True)).body)
    ]

    assert contains(plain, body)
    assert contains(stream, rows)


def test_the_least_that_servers_send_is_heard() -> None:
    body = json.loads((BODIES / "responses.minimal.json").read_bytes())
    body["output"][1]["call_id"] = "c1"
    stream = (BODIES / "responses.stream.sse").read_bytes()

    least = PROTOCOL.parse_response(
        HttpResponse(200, (), (json.dumps(body).encode(),)), parse_body()
    )
    other = PROTOCOL.parse_response(HttpResponse(200, (), (stream,)), parse_body(stream=True))

    assert least == ParsedResponse(
        Message("assistant", "hi", calls=(ToolCall("c1", "f", {"a": 1}),))
    )
    assert other.message == Message(
        "assistant", "hi there", calls=(ToolCall("call_1", "f", {"a": 1}),)
    )


def test_an_output_that_only_the_events_have_is_heard() -> None:
    request = parse_body(stream=True)
    chunks = list(PROTOCOL.served(make_reply(REPLIES["parallel"]), request).chunks)
    last = {"type": "response.completed", "response": {"id": "resp_c1", "status": "completed"}}

    response = HttpResponse(200, (), (*chunks[:-1], sse.frame(last)))

    assert PROTOCOL.parse_response(response, request) == ParsedResponse(
        REPLIES["parallel"], id="resp_c1"
    )
