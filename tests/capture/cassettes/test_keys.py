from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.capture.cassettes import Keying
from simkit.core.errors import ReferenceInvalid
from simkit.core.redact import Redactor
from simkit.providers.http import HttpRequest
from tests.capture.cassettes.requests import CHAT_URL, JSON, KEYING, chat, post

CLAUDE_URL = "https://api.anthropic.com/v1/messages"
GEMINI_URL = "https://generativelanguage.googleapis.com/v1beta/models/g:generateContent"
RESPONSES_URL = "https://api.openai.com/v1/responses"


def key(request: HttpRequest, keying: Keying = KEYING, agent: str = "billing") -> str:
    return keying.question(request).key(agent)


def called(number: str, result: str = "12") -> list[dict[str, Any]]:
    """A call and its result in chat's words."""
    function = {"name": "price", "arguments": "{}"}
    call = {"id": number, "type": "function", "function": function}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": number, "content": result},
    ]


def claude(number: str, **more: Any) -> HttpRequest:
    block = {"type": "tool_use", "id": number, "name": "price", "input": {"id": "x"}, **more}
    result = {"type": "tool_result", "tool_use_id": number, "content": "12"}
    messages = [{"role": "assistant", "content": [block]}, {"role": "user", "content": [result]}]
    return post({"model": "c", "messages": messages}, CLAUDE_URL)


def gemini(number: str) -> HttpRequest:
    call = {"functionCall": {"id": number, "name": "price", "args": {"id": "x"}}}
    return post({"contents": [{"role": "model", "parts": [call]}]}, GEMINI_URL)


def responses(item: str, call: str, kind: str = "function_call") -> HttpRequest:
    return post({"model": "g", "input": [{"type": kind, "id": item, "call_id": call}]},
                RESPONSES_URL)  # fmt: skip


EQUAL = {
    "headers": (
        chat("hi"),
        HttpRequest("POST", CHAT_URL, (("x-stainless-lang", "js"),), chat("hi").body),
    ),
    "host": (chat("hi"), chat("hi", url="http://127.0.0.1:8123/v1/chat/completions")),
    "order of parameters": (
        chat("hi", url=f"{CHAT_URL}?b=1&a=2"), chat("hi", url=f"{CHAT_URL}?a=2&b=1"),
    ),
    "key in the address": (
        post({}, f"{GEMINI_URL}?key=one"), post({}, f"{GEMINI_URL}?key=two"),
    ),
    "project of a cloud": (
        post({}, "https://a/v1/projects/p1/locations/eu/x"),
        post({}, "https://b/v1/projects/p2/locations/us/x"),
    ),
    "whole number": (chat("hi", temperature=0), chat("hi", temperature=0.0)),
    "who asks": (chat("hi", user="a", metadata={"n": 1}), chat("hi", user="b")),
    "what to count": (chat("hi", stream_options={"include_usage": True}), chat("hi")),
    "ids of calls in chat": (chat(*called("call_a")), chat(*called("call_b"))),
    "ids of calls in messages": (claude("toolu_a"), claude("toolu_b")),
    "marks of a cache": (claude("a"), claude("a", cache_control={"type": "ephemeral"})),
    "ids of calls in contents": (gemini("a"), gemini("b")),
    "ids of items": (responses("fc_1", "call_1"), responses("fc_2", "call_2")),
    "a secret": (
        post({"password": "abc"}, "https://x.com"), post({"password": "xyz"}, "https://x.com"),
    ),
}  # fmt: skip
DIFFERENT = {
    "model": (chat("hi"), post({**json.loads(chat("hi").body), "model": "gpt-6"})),
    "what is said": (chat("hi"), chat("ho")),
    "order of messages": (chat("a", "b"), chat("b", "a")),
    "tools": (chat("hi"), chat("hi", tools=[])),
    "parameters": (chat("hi", temperature=0.5), chat("hi", temperature=1)),
    "limit": (chat("hi", max_tokens=5), chat("hi", max_tokens=6)),
    "streamed": (chat("hi", stream=True), chat("hi", stream=False)),
    "result of a call": (chat(*called("a")), chat(*called("a", "13"))),
    "which call a result is of": (
        chat(*called("a"), *called("b"), {"role": "tool", "tool_call_id": "a", "content": ""}),
        chat(*called("a"), *called("b"), {"role": "tool", "tool_call_id": "b", "content": ""}),
    ),
    "reference to an item": (
        responses("a", "", "item_reference"), responses("b", "", "item_reference"),
    ),
    "path": (chat("hi"), chat("hi", url="https://api.openai.com/v2/chat/completions")),
    "method": (HttpRequest("GET", "/a"), HttpRequest("POST", "/a")),
    "user of what is no model call": (
        post({"user": "a"}, "https://x.com/orders"), post({"user": "b"}, "https://x.com/orders"),
    ),
    "true and 1": (chat("hi", logprobs=True), chat("hi", logprobs=1)),
    "text that is no JSON": (HttpRequest("POST", "/a", (), b"a"), HttpRequest("POST", "/a")),
}  # fmt: skip

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=3), below),
    max_leaves=9,
)


def reordered(value: Any) -> Any:
    """The same JSON value with the keys of its mappings in the opposite order."""
    if isinstance(value, dict):
        return {name: reordered(value[name]) for name in reversed(value)}
    return [reordered(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize(("question", "other"), EQUAL.values(), ids=EQUAL)
def test_key_does_not_depend_on_what_is_not_the_question(
    question: HttpRequest, other: HttpRequest
) -> None:
    assert key(question) == key(other)


@pytest.mark.parametrize(("question", "other"), DIFFERENT.values(), ids=DIFFERENT)
def test_key_depends_on_the_question(question: HttpRequest, other: HttpRequest) -> None:
    assert key(question) != key(other)


def test_key_depends_on_who_asks() -> None:
    assert key(chat("hi"), agent="a") != key(chat("hi"), agent="b")


@pytest.mark.slow
@given(values)
def test_key_does_not_depend_on_the_order_of_keys_or_on_spaces(value: Any) -> None:
    spaced = json.dumps(reordered(value), indent=2).encode()

    assert key(post(value)) == key(HttpRequest("POST", CHAT_URL, JSON, spaced))


@given(values)
def test_key_of_what_was_redacted_is_the_key_of_what_was_sent(value: Any) -> None:
    secret = "aB3dE6gH9jK2mN5p"
    redactor = Redactor({"MY_TOKEN": secret})
    keying = Keying(redactor)
    body = json.dumps({"note": f"it is {secret}", "password": "x", "value": value}).encode()

    sent_messages, remaining = (
        HttpRequest("POST", "/a", (), text) for text in (body, redactor.line(body))
    )

    assert sent_messages != remaining
    assert key(sent_messages, keying) == key(remaining, keying)


@pytest.mark.parametrize(
    ("volatile", "question", "other"),
    [
        (["messages[1].content"], chat("at 12:30"), chat("at 12:31")),
        (["messages.*.name"], chat({"role": "user", "content": "", "name": "a"}),
         chat({"role": "user", "content": "", "name": "b"})),
        (["seed"], chat("hi", seed=1), chat("hi", seed=2)),
        ([r"/\d\d:\d\d/"], chat("at 12:30"), chat("at 12:31")),
        (["/^run-.*/", "seed"], chat("run-1", seed=1), chat("run-2", seed=2)),
        ([r"/agents\/\w+/"], chat(url="http://x/agents/a/v1"), chat(url="http://x/agents/b/v1")),
    ],
)  # fmt: skip
def test_key_does_not_depend_on_what_is_declared_volatile(
    volatile: list[str], question: HttpRequest, other: HttpRequest
) -> None:
    keying = Keying(Redactor({}), volatile)

    assert key(question) != key(other)
    assert key(question, keying) == key(other, keying)


def test_what_is_volatile_may_not_be_there() -> None:
    keying = Keying(Redactor({}), ["messages[9].content", "a.b", "messages.a", "model.x"])

    assert key(chat("hi"), keying) == key(chat("hi"))


def test_captured_values_count_by_their_order() -> None:
    keying = Keying(Redactor({}), capture={"order": r"ORD-\d+"})

    assert key(chat("ORD-1, ORD-2, ORD-1"), keying) == key(chat("ORD-8, ORD-9, ORD-8"), keying)
    assert key(chat("ORD-1, ORD-2, ORD-1"), keying) != key(chat("ORD-8, ORD-9, ORD-9"), keying)
    assert keying.question(chat("ORD-8, ORD-9, ORD-8")).captured == {"order": ("ORD-8", "ORD-9")}


@pytest.mark.parametrize(
    ("volatile", "capture", "message"),
    [
        (["/(/"], {}, "the pattern `(` cannot be read: missing ), unterminated subpattern at"
         " position 0"),
        ([], {"a": "["}, "the pattern `[` cannot be read: unterminated character set at"
         " position 0"),
        (["a..b"], {}, "the path `a..b` has no key where one should stand; keys are joined by"
         " single dots: `state.count`"),
    ],
)  # fmt: skip
def test_path_or_pattern_that_is_none_is_refused(
    volatile: list[str], capture: dict[str, str], message: str
) -> None:
    with pytest.raises(ReferenceInvalid) as caught:
        Keying(Redactor({}), volatile, capture)

    assert str(caught.value) == message


@pytest.mark.parametrize(
    "body",
    [b"[" * 5_000, b'{"a": ' * 900 + b"1" + b"}" * 900, b"\xff", b'{"a": "\\ud800"}', b"1e999",
     b"9" * 5_000, b'{"a": NaN}', b""],
    ids=["open", "deep", "bytes", "half surrogate", "infinite", "long", "NaN", "empty"],
)  # fmt: skip
def test_body_that_is_hardly_json_has_a_key(body: bytes) -> None:
    request = HttpRequest("POST", CHAT_URL, (), body)

    assert len(key(request)) == 32
    assert key(request) == key(request)
