"""Requests that go on from an earlier response have that one's context."""

from __future__ import annotations

import pytest

from simkit.core.errors import WireInvalid
from simkit.core.messages import Message, ToolCall
from simkit.providers.attachments import chained
from simkit.providers.body_reader import json_bytes
from simkit.providers.http import HttpRequest
from simkit.providers.openai.responses import PROTOCOL
from simkit.providers.values import ParsedRequest

THOUGHTS = [{"type": "reasoning", "id": "rs_c1_0", "summary": []}]
REPLY = Message(
    "assistant",
    "One moment.",
    calls=(ToolCall("call_1", "book", {}), ToolCall("call_2", "pay", {})),
    data={"reasoning": THOUGHTS},
)
EARLIER = {
    "resp_c1": (
        Message("system", "Be short.", section="instructions"),
        Message("system", "Speak German."),
        Message("user", "Two nights."),
        REPLY,
    )
}


def parse_body(**body: object) -> ParsedRequest:
    whole = json_bytes({"model": "m", **body})
    return PROTOCOL.parse_request(HttpRequest("POST", "https://api.test/v1/responses", body=whole))


def test_a_request_alone_stays_as_it_is() -> None:
    alone = parse_body(input="Hello", instructions="Be long.")

    assert chained(alone, EARLIER) is alone


def test_a_chain_has_the_earlier_context_but_its_own_instructions() -> None:
    output = {"type": "function_call_output", "call_id": "call_1", "output": "done"}
    going_on = parse_body(previous_response_id="resp_c1", instructions="Be long.", input=[output])

    assert chained(going_on, EARLIER).messages == (
        Message("system", "Be long.", section="instructions"),
        Message("system", "Speak German."),
        Message("user", "Two nights."),
        REPLY,
        Message("tool", "done", call_id="call_1", tool="book"),
    )


def test_items_of_an_earlier_reply_stand_where_they_are_named() -> None:
    ids = ["rs_c1_0", "msg_c1", "fc_c1_1"]
    items = [{"type": "item_reference", "id": item_id} for item_id in ids]
    naming = parse_body(input=[{"role": "user", "content": "Go on."}, *items])

    assert chained(naming, EARLIER).messages == (
        Message("user", "Go on."),
        Message("assistant", "One moment.", calls=(REPLY.calls[1],), data={"reasoning": THOUGHTS}),
    )


def test_a_conversation_begins_with_nothing_said() -> None:
    first = parse_body(conversation={"id": "conv_1"}, input="Hello", instructions="Be long.")

    assert chained(first, EARLIER).messages == (
        Message("system", "Be long.", section="instructions"),
        Message("user", "Hello"),
    )


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            {"previous_response_id": "resp_x", "input": "a"},
            "previous_response_id: no response 'resp_x' was served in this session",
        ),
        (
            {"input": [{"type": "item_reference", "id": "fc_c1_7"}]},
            "input: no item 'fc_c1_7' was served in this session",
        ),
        (
            {"input": [{"type": "item_reference", "id": "anything"}]},
            "input: no item 'anything' was served in this session",
        ),
    ],
)
def test_what_was_never_served_is_named(body: dict[str, object], message: str) -> None:
    with pytest.raises(WireInvalid) as refused:
        chained(parse_body(**body), EARLIER)

    assert str(refused.value) == message
