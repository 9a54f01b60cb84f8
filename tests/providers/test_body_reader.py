"""A request whose messages were parsed before is parsed as any other."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.core.errors import WireInvalid
from simkit.providers.body_reader import (
    MessageCache,
    json_text,
    maybe,
    need,
    record_of,
    records,
    typed,
    unknown,
)
from simkit.providers.http import HttpRequest
from simkit.providers.protocols import PROTOCOLS
from simkit.providers.values import ParsedRequest, Protocol
from tests.providers.test_fuzz import CHAT_BODY

OTHERS: list[Any] = [
    {"role": "user", "content": 1},
    {"role": "user", "content": True},
    {"role": "tool", "tool_call_id": "c1", "content": "other"},
    {"role": "tool", "tool_call_id": "c9", "content": "other", "name": "f"},
    {"role": "assistant", "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "k", "arguments": "{}"}}]},
    {"role": "nobody"},
    "no message",
]  # fmt: skip
ANTHROPIC: list[Any] = [
    {"role": "user", "content": "Zürich?"},
    {"role": "user", "content": [{"type": "text", "text": "Bern?"}]},
    {"role": "assistant", "content": [
        {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}}]},
    {"role": "assistant", "content": [
        {"type": "tool_use", "id": "c1", "name": "g", "input": {"a": 1}}]},
    {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "c1", "content": "done"},
        {"type": "text", "text": "And?"}]},
    {"role": "assistant", "content": "At nine."},
    {"role": "user"},
    7,
]  # fmt: skip
EXTRAS: list[dict[str, Any]] = [{}, {"temperature": 1}, {"n": "no"}, {"model": 3}]
CHAT: Any = CHAT_BODY
CASES: dict[str, tuple[str, list[Any]]] = {
    "openai-chat": ("/v1/chat/completions", [*CHAT["messages"], *OTHERS]),
    "anthropic": ("/v1/messages", ANTHROPIC),
}


def parsed(protocol: Protocol, body: Any, known: MessageCache | None) -> ParsedRequest | str:
    """Returns a parsed request, or what is wrong with it."""
    url = f"https://localhost{CASES[protocol.name][0]}"
    request = HttpRequest("POST", url, (), json.dumps(body).encode())
    try:
        if known is None:
            return protocol.parse_request(request)
        assert protocol.parse_again is not None
        return protocol.parse_again(request, known)
    except WireInvalid as problem:
        return str(problem)


@pytest.mark.parametrize("name", CASES)
@given(st.data())
def test_a_known_message_is_parsed_as_a_new_one(name: str, data: st.DataObject) -> None:
    protocol, known = PROTOCOLS[name], MessageCache()
    messages: list[Any] = []

    for _ in range(data.draw(st.integers(1, 5))):
        how = data.draw(st.sampled_from(["go on", "go on", "shift", "anew"]))
        messages = {"go on": messages, "shift": messages[1:], "anew": []}[how]
        messages = messages + data.draw(st.lists(st.sampled_from(CASES[name][1]), max_size=4))
        extras: dict[str, Any] = data.draw(st.sampled_from(EXTRAS))
        body = {"model": "m", "max_tokens": 9, "messages": messages, **extras}

        assert repr(parsed(protocol, body, known)) == repr(parsed(protocol, body, None))


@pytest.mark.parametrize("name", CASES)
def test_messages_of_the_last_request_are_the_same_objects(name: str) -> None:
    protocol, known = PROTOCOLS[name], MessageCache()
    talk = [CASES[name][1][1], CASES[name][1][0]]
    bodies = [
        {"model": "m", "max_tokens": 9, "messages": messages}
        for messages in (talk, [*talk, talk[0]], [talk[1], talk[0]])
    ]

    first, second, third = [parsed(protocol, body, known) for body in bodies]

    assert isinstance(first, ParsedRequest)
    assert isinstance(second, ParsedRequest)
    assert isinstance(third, ParsedRequest)
    assert [a is b for a, b in zip(first.messages, second.messages, strict=False)] == [True, True]
    assert third.messages[0] is first.messages[1]


INVALID: dict[str, bytes] = {
    "not UTF-8": b'{"role": "user", "content": "\xff"}',
    "a key that is not UTF-8": b'{"role": "user", "content": "Bern?", "\xff": 1}',
    "half a surrogate pair": b'{"role": "user", "content": "\\ud800"}',
    "a number out of range": b'{"role": "user", "content": "Bern?", "size": 1e999}',
    "no JSON number": b'{"role": "user", "content": "Bern?", "size": NaN}',
    "nested too deep": b'{"role": "user", "content": ' + b"[" * 5000 + b"]" * 5000 + b"}",
}


@pytest.mark.parametrize("item", INVALID.values(), ids=INVALID)
@pytest.mark.parametrize("name", CASES)
def test_a_message_that_is_no_json_is_refused_as_any_other(name: str, item: bytes) -> None:
    protocol, known = PROTOCOLS[name], MessageCache()
    body = b'{"model": "m", "max_tokens": 9, "messages": [%s]}' % item
    request = HttpRequest("POST", f"https://localhost{CASES[name][0]}", (), body)

    with pytest.raises(WireInvalid) as plain:
        protocol.parse_request(request)
    assert protocol.parse_again is not None
    for _ in range(2):
        with pytest.raises(WireInvalid) as again:
            protocol.parse_again(request, known)
        assert str(again.value) == str(plain.value)


def test_fields_are_read_by_their_kind() -> None:
    record = record_of('{"text":"a","number":1,"half":0.5,"null":null,"list":[{"b":[]}]}')

    assert need(record, "text", str) == "a"
    assert need(record, "number", float) == 1
    assert maybe(record, "half", 0.0) == 0.5
    assert maybe(record, "null", "usual") == "usual"
    assert maybe(record, "missing", False) is False
    assert records(record, "list") == [({"b": []}, "list[0]")]
    assert records(record, "missing") == []


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda: record_of(b"[1]"), "body: should be an object, is a list"),
        (lambda: record_of(b"\xff\xff", "events[2]"), "events[2]: is not JSON: "),
        (lambda: record_of(b'{"a":"\\ud800"}'), "body: is not JSON: "),
        (lambda: record_of(b"[" * 100_000), "body: is nested too deep"),
        (lambda: need({}, "model", str), "model: is missing"),
        (lambda: need({"model": None}, "model", str, "a"), "a.model: should be a text, is null"),
        (lambda: maybe({"n": True}, "n", 1), "n: should be a whole number, is true or false"),
        (lambda: typed(1.5, int, "n"), "n: should be a whole number, is a number"),
        (lambda: records({"a": [{}, 1]}, "a", "b"), "b.a[1]: should be an object, is a whole"),
    ],
)
def test_what_is_wrong_names_the_field(read: Callable[[], Any], message: str) -> None:
    with pytest.raises(WireInvalid) as refused:
        read()

    assert str(refused.value).startswith(message)


def test_an_unknown_word_is_named_with_those_known() -> None:
    error = unknown("part", "txt", ["text", "refusal"], "messages[2].content[0].type")

    assert str(error) == (
        "messages[2].content[0].type: unknown part 'txt'; did you mean 'text'? known: text, refusal"
    )


def test_json_is_compact_and_keeps_the_order() -> None:
    assert json_text({"b": [1, None], "a": "ü"}) == '{"b":[1,null],"a":"ü"}'
