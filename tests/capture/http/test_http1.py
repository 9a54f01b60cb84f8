from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.capture.http.http_connections import Listening, Message, response_bytes
from simkit.providers.http import HttpResponse
from tests.capture.http.gates import ObservedResponse

CHUNKED = b"transfer-encoding: chunked\r\n\r\n"
LENGTH = b"content-length: 5\r\n\r\n"

REQUESTS = {
    "no body": (b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n", b""),
    "a length": (b"POST /a HTTP/1.1\r\nHost: x\r\n" + LENGTH + b"hello", b"hello"),
    "no length at all": (b"POST /a HTTP/1.1\r\ncontent-length: 0\r\n\r\n", b""),
    "chunks": (
        b"POST /a HTTP/1.1\r\n" + CHUNKED + b"3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\n\r\n",
        b"hello",
    ),
    "lines that end with a line feed": (
        b"POST /a HTTP/1.1\nHost: x\ncontent-length: 5\n\nhello", b"hello",
    ),
    "blank lines before it": (b"\r\n\r\nGET /a HTTP/1.1\r\nHost: x\r\n\r\n", b""),
    "trailers": (b"POST /a HTTP/1.1\r\n" + CHUNKED + b"5\r\nhello\r\n0\r\na: b\r\n\r\n", b"hello"),
}  # fmt: skip


def fed(message: Message, data: bytes, cuts: list[int]) -> bytes:
    """The body out of data that comes in the pieces between the cuts."""
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return b"".join(b"".join(message.feed(data[a:b])) for a, b in pairwise(places))


@given(name=st.sampled_from(sorted(REQUESTS)), cuts=st.lists(st.integers(0, 200), max_size=8))
def test_request_is_read_however_it_is_cut(name: str, cuts: list[int]) -> None:
    data, body = REQUESTS[name]
    message = Message()

    assert fed(message, data, cuts) == body
    assert (message.is_over, message.start.split(" ")[1], bytes(message.rest)) == (True, "/a", b"")


@pytest.mark.parametrize("name", REQUESTS)
def test_request_is_not_over_before_its_last_byte(name: str) -> None:
    data, _ = REQUESTS[name]
    message = Message()
    message.feed(data[:-1])

    assert not message.is_over


@given(st.lists(st.integers(0, 200), max_size=8))
def test_what_was_written_is_read_again(cuts: list[int]) -> None:
    answer = HttpResponse(200, (("X-A", "b: c"),), (b"one", b"", b"three"))
    data = b"".join(piece for _, piece in response_bytes(answer, "POST"))
    message = Message(answers="POST")

    assert fed(message, data, cuts) == b"onethree"
    assert (message.is_over, message.status) == (True, 200)
    assert message.headers == (("X-A", "b: c"), ("transfer-encoding", "chunked"))


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (HttpResponse(200, (), (b"abc",)), [b"content-length: 3\r\n\r\n", b"abc"]),
        (HttpResponse(200, (), ()), [b"content-length: 0\r\n\r\n"]),
        (HttpResponse(204, (), ()), [b"\r\n"]),
        (
            HttpResponse(200, (), (b"abc", b"d")),
            [CHUNKED, b"3\r\nabc\r\n", b"1\r\nd\r\n", b"0\r\n\r\n"],
        ),
        (HttpResponse(200, (), (b"abc",), ends="cut"), [CHUNKED, b"3\r\nabc\r\n"]),
    ],
)
def test_answer_is_framed_as_a_server_would(answer: HttpResponse, expected: list[bytes]) -> None:
    head, *pieces = (piece for _, piece in response_bytes(answer, "POST"))

    assert [head.partition(b"\r\n")[2], *pieces] == expected


def test_head_is_answered_without_a_body() -> None:
    pieces = [piece for _, piece in response_bytes(HttpResponse(200, (), (b"abc",)), "HEAD")]

    assert pieces == [b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n"]


def test_status_that_has_no_name_is_written_without_one() -> None:
    ((_, head),) = response_bytes(HttpResponse(529, (), ()), "GET")

    assert head.startswith(b"HTTP/1.1 529 \r\n")


@pytest.mark.parametrize(
    ("method", "data", "message"),
    [
        ("POST", b"HTTP/1.1 200 OK\r\n" + LENGTH + b"hello", [200, b"hello", "ended: "]),
        ("HEAD", b"HTTP/1.1 200 OK\r\n" + LENGTH, [200, "ended: "]),
        ("GET", b"HTTP/1.1 304 Not Modified\r\n" + LENGTH, [304, "ended: "]),
        ("GET", b"HTTP/1.1 101 Switching\r\nupgrade: websocket\r\n\r\nxx", [101, "ended: "]),
        (
            "POST",
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n" + LENGTH + b"hello",
            [200, b"hello", "ended: "],
        ),
        ("GET", b"HTTP/1.1 200 OK\r\n\r\nabc", [200, b"abc", "ended: "]),
        (
            "GET",
            b"HTTP/1.1 200 OK\r\n" + LENGTH + b"hel",
            [200, b"hel", "ended: the connection was closed before the response was whole"],
        ),
        ("POST", b"HTTP/1.1 200 OK\ncontent-length: 5\n\nhello", [200, b"hello", "ended: "]),
        ("GET", b"", ["ended: the connection was closed before the response was whole"]),
        ("GET", b"HTTP/1.1 200 OK\r\n" + CHUNKED + b"zz\r\nabc", [200, b"abc", "ended: "]),
    ],
)
def test_tap_is_told_what_a_server_sends(method: str, data: bytes, message: list[object]) -> None:
    observed = ObservedResponse()
    listening = Listening(observed, method)
    listening.feed_answer(data)
    listening.feed_answer(b"")

    assert observed.events == message


def test_connection_serves_again_only_after_exactly_one_whole_response() -> None:
    whole = b"HTTP/1.1 200 OK\r\n" + LENGTH + b"hello"
    results = []
    for data in (whole, whole[:-1], whole + b"x"):
        listening = Listening(None, "GET")
        listening.feed_answer(data)
        results.append(listening.is_whole)

    assert results == [True, False, False]


@given(st.binary(max_size=200))
def test_anything_can_be_heard(data: bytes) -> None:
    observed = ObservedResponse()
    listening = Listening(observed, "GET")
    listening.feed_answer(b"HTTP/1.1 200 OK\r\n" + data)
    listening.feed_answer(b"")

    assert str(observed.events[-1]).startswith("ended: ")
