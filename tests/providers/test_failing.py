"""Replies that do not come through whole, in the words of every protocol."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from simkit.core.errors import WireInvalid
from simkit.core.messages import Fails, Message, Usage
from simkit.providers.failures import FAILURES, ON_THE_WAY, patience_ms
from simkit.providers.http import HttpRequest, HttpResponse, NoResponse, bytewise
from simkit.providers.protocols import PROTOCOLS
from simkit.providers.streams import frames_of, is_framed
from simkit.providers.values import Offer, OutgoingReply, ParsedRequest, Protocol
from tests.golden import assert_file_is

GOLDEN = Path(__file__).parent / "golden"
LONG = "Take two pills a day, but never with milk or on an empty stomach, and rest."


@pytest.fixture(params=[*PROTOCOLS.values()], ids=[*PROTOCOLS])
def protocol(request: pytest.FixtureRequest) -> Protocol:
    result: Protocol = request.param
    return result


def failed(protocol: Protocol, kind: str, *, is_streamed: bool = True) -> HttpResponse:
    parsed_request = ParsedRequest(protocol.name, "m", (), is_streamed=is_streamed)
    answer = protocol.failed("c1", Fails(kind, FAILURES[kind].status, LONG), parsed_request)
    assert isinstance(answer, HttpResponse)
    return answer


def whole(protocol: Protocol, *, is_streamed: bool = True) -> HttpResponse:
    reply = OutgoingReply("c1", Message("assistant", LONG), Usage(0, 0))
    return protocol.served(reply, ParsedRequest(protocol.name, "m", (), is_streamed=is_streamed))


def outcome(protocol: Protocol, kind: str, request: ParsedRequest) -> Iterator[str]:
    """Yield what a failure sends, and what is heard of it, line by line."""
    # Of an overload, a stream tells after it has begun.
    status = 200 if request.is_streamed else FAILURES[kind].status
    answer = protocol.failed("c1", Fails(kind, status, FAILURES[kind].message), request)
    if isinstance(answer, NoResponse):
        yield f"{kind}: {answer}"
        return
    is_streamed = request.is_streamed and answer.status == 200
    yield f"{kind}{', streamed' if is_streamed else ''}: {answer.status} {answer.ends}".rstrip()
    if answer.status != 200 or kind == "overloaded":
        yield from (f"  {name}: {value}" for name, value in answer.headers)
        frames = [f"{frame.name}: {frame.content.decode()}" for frame in frames_of(answer)]
        yield f"  {' | '.join(frames) or answer.body.decode()}"
    try:
        parsed = protocol.parse_response(answer, request)
    except WireInvalid as problem:
        yield f"  refused: {problem}"
        return
    yield f"  message: {parsed.message.content!r} {parsed.message.data or ''}".rstrip()
    yield from (f"  call: {call}" for call in parsed.message.calls)
    if parsed.finish:
        yield f"  finish: {parsed.finish}"
    if parsed.error is not None:
        error = parsed.error
        yield f"  error: {error.kind} {error.status} {error.message!r}"


@pytest.mark.golden
def test_failures_are_each_providers_own_and_are_heard(protocol: Protocol) -> None:
    offers = (Offer("search"), Offer("book", {"type": "object", "properties": {}}))
    plain = ParsedRequest(protocol.name, "m", ())
    requests = (
        plain,
        msgspec.structs.replace(plain, is_streamed=True),
        msgspec.structs.replace(plain, offers=offers),
        msgspec.structs.replace(plain, offers=offers, is_streamed=True),
        msgspec.structs.replace(plain, offers=offers, output={"type": "object"}),
    )
    kinds = ["malformed_json" if request.offers else "" for request in requests]

    lines = [
        line
        for request, only in zip(requests, kinds, strict=True)
        for kind in FAILURES
        if only in ("", kind)
        and (not request.is_streamed or FAILURES[kind].status == 200 or kind == "overloaded")
        for line in outcome(protocol, kind, request)
    ]

    assert_file_is(GOLDEN / f"{protocol.name}.txt", "\n".join([*lines, ""]))


def test_a_streams_failure_before_it_begins_is_as_without_a_stream(protocol: Protocol) -> None:
    for kind in FAILURES:
        if FAILURES[kind].status >= 400 and kind != "content_filter":
            assert failed(protocol, kind) == failed(protocol, kind, is_streamed=False)


def test_a_proxys_error_page_is_a_failure_by_its_status(protocol: Protocol) -> None:
    response = HttpResponse(503, (), (b"<html>busy</html>",))

    parsed = protocol.parse_response(response, ParsedRequest(protocol.name, "m", ()))

    assert parsed.error == Fails("unavailable", 503, "<html>busy</html>")


@pytest.mark.parametrize(
    ("kind", "ends"), [("cut_stream", "cut"), ("stall", "timeout"), ("truncated", "")]
)
def test_half_a_stream_comes_and_then_it_ends_as_its_kind_says(
    protocol: Protocol, kind: str, ends: str
) -> None:
    answer, good = failed(protocol, kind), whole(protocol)

    assert answer.ends == ends
    assert answer.chunks == good.chunks[: len(good.chunks) // 2]


@pytest.mark.parametrize("kind", ["cut_stream", "stall", "truncated"])
def test_what_came_of_half_a_stream_is_the_beginning_of_the_text(
    protocol: Protocol, kind: str
) -> None:
    parsed_request = ParsedRequest(protocol.name, "m", (), is_streamed=True)

    parsed = protocol.parse_response(failed(protocol, kind), parsed_request)

    assert parsed.error is not None
    assert parsed.message.content != LONG
    assert LONG.startswith(parsed.message.content)
    assert parsed.message.content
    assert parsed.id == protocol.parse_response(whole(protocol), parsed_request).id


def test_a_malformed_frame_stands_in_the_middle_and_keeps_its_name(protocol: Protocol) -> None:
    answer, good = failed(protocol, "malformed_frame"), whole(protocol)
    differing = [
        (bad, sound)
        for bad, sound in zip(answer.chunks, good.chunks, strict=True)
        if bad != sound
    ]  # fmt: skip

    ((bad, sound),) = differing
    if is_framed(good):
        with pytest.raises(WireInvalid, match=r"events\[\d+\]: is no frame: its checksum is wrong"):
            protocol.parse_response(answer, ParsedRequest(protocol.name, "m", ()))
        return
    if protocol.name == "ollama":
        assert bad == b'{"value": }\n'
        return
    name = sound[: sound.index(b"data: ")]
    assert bad == name + b'data: {"value": }\n\n'


@pytest.mark.parametrize("kind", ["cut_stream", "stall", "truncated", "malformed_frame"])
def test_a_body_that_is_damaged_is_no_json(protocol: Protocol, kind: str) -> None:
    body = failed(protocol, kind, is_streamed=False).body

    with pytest.raises(json.JSONDecodeError):
        json.loads(body)


LISTS = {
    "openai-chat": ["choices"],
    "openai-responses": ["output"],
    "anthropic": ["content"],
    "anthropic-bedrock": ["content"],
    "bedrock": ["output", "message", "content"],
    "cohere": ["message", "content"],
    "gemini": ["candidates"],
    "ollama": ["message", "content"],
}


def test_a_reply_without_choices_has_an_empty_list_of_them(protocol: Protocol) -> None:
    body: Any = json.loads(failed(protocol, "empty_choices", is_streamed=False).body)

    for key in LISTS[protocol.name]:
        body = body[key]
    assert body == ("" if protocol.name == "ollama" else [])


def test_a_stream_without_choices_says_nothing(protocol: Protocol) -> None:
    parsed_request = ParsedRequest(protocol.name, "m", (), is_streamed=True)

    parsed = protocol.parse_response(failed(protocol, "empty_choices"), parsed_request)

    assert parsed.message == Message("assistant")


def test_all_kinds_that_damage_a_reply_are_failures_of_the_vocabulary() -> None:
    assert [FAILURES[kind].status for kind in ON_THE_WAY] == [200] * len(ON_THE_WAY)


def test_a_response_may_come_byte_by_byte() -> None:
    answer = bytewise(HttpResponse(200, (("a", "b"),), ("ü".encode(), b"x")))

    assert answer == HttpResponse(200, (("a", "b"),), (b"\xc3", b"\xbc", b"x"))


@pytest.mark.parametrize(
    ("reply", "expected"), [("600", 600_000), ("0.5", 500), ("None", None), ("", None)]
)
def test_clients_say_how_long_they_wait(reply: str, expected: int | None) -> None:
    headers = (("X-Stainless-Read-Timeout", reply),) if reply else ()

    assert patience_ms(HttpRequest("POST", "https://a.test", headers)) == expected
