"""A request whose messages were parsed before is parsed as any other."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.core.errors import WireInvalid
from simkit.providers.http import HttpRequest
from simkit.providers.message_cache import MessageCache
from simkit.providers.protocols import PROTOCOLS
from simkit.providers.values import ParsedRequest, Protocol
from tests.providers.openai.test_fuzz import CHAT_BODY

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
