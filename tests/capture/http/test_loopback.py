"""The loopback server: what goes over the wire, whole, in pieces, cut, or not at all."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable

import h11
import pytest

from simkit.capture.http import loopback
from simkit.capture.http.loopback import listening
from simkit.capture.http.request_router import Decision
from simkit.providers.http import HttpRequest, HttpResponse, NoResponse
from tests.capture.http.gates import EVENTS, JSON, json_answer

POST = b"POST /v1/x?a=1 HTTP/1.1\r\nhost: here\r\ncontent-length: 3\r\n\r\nabc"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Answers:
    """Decides in turn, and remembers what was asked."""

    def __init__(self, *decisions: Decision) -> None:
        self.decisions = list(decisions)
        self.requests: list[HttpRequest] = []

    def take(self, request: HttpRequest) -> Decision:
        self.requests.append(request)
        return self.decisions[min(len(self.requests), len(self.decisions)) - 1]


def talking(answers: Answers, talk: Callable[[Streams], Awaitable[bytes]]) -> bytes:
    """Returns what one connection to a server reads that answers so."""

    async def run() -> bytes:
        async with listening(answers.take) as server, asyncio.timeout(30):
            host, _, port = server.url.removeprefix("http://").partition(":")
            streams = await asyncio.open_connection(host, int(port))
            try:
                return await talk(streams)
            finally:
                streams[1].close()

    return asyncio.run(run())


def sending(data: bytes) -> Callable[[Streams], Awaitable[bytes]]:
    """Sends bytes and then no more; reads to the end."""

    async def talk(streams: Streams) -> bytes:
        reader, writer = streams
        writer.write(data)
        writer.write_eof()
        return await reader.read()

    return talk


def whole(body: bytes, status: bytes = b"200") -> bytes:
    head = b"HTTP/1.1 " + status + b" \r\ncontent-type: application/json\r\ncontent-length: "
    return head + str(len(body)).encode() + b"\r\n\r\n" + body


def test_a_request_is_handed_over_whole() -> None:
    answers = Answers(json_answer("{}"))

    talking(answers, sending(POST))

    assert answers.requests == [
        HttpRequest(
            "POST", "http://here/v1/x?a=1", (("host", "here"), ("content-length", "3")), b"abc"
        )
    ]


def test_a_request_to_a_proxy_keeps_its_whole_address() -> None:
    answers = Answers(json_answer("{}"))

    talking(answers, sending(b"GET http://there/x HTTP/1.1\r\nhost: there\r\n\r\n"))

    assert answers.requests[0].url == "http://there/x"


def test_requests_that_come_at_once_are_answered_in_order_on_one_connection() -> None:
    answers = Answers(json_answer("1"), json_answer("2"), json_answer("3"))

    read = talking(answers, sending(POST * 3))

    assert read == whole(b"1") + whole(b"2") + whole(b"3")


def test_a_stream_goes_out_chunk_by_chunk() -> None:
    answers = Answers(HttpResponse(200, EVENTS, (b"data: 1\n\n", b"", b"data: 2\n\n")))

    read = talking(answers, sending(POST))

    assert read == (
        b"HTTP/1.1 200 \r\ncontent-type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"9\r\ndata: 1\n\n\r\n9\r\ndata: 2\n\n\r\n0\r\n\r\n"
    )


def test_a_chunk_is_sent_before_the_next_one_is_waited_for() -> None:
    hour = 3_600_000
    answers = Answers(HttpResponse(200, EVENTS, (b"first", b"last"), waits_ms=(0, hour)))

    async def talk(streams: Streams) -> bytes:
        reader, writer = streams
        writer.write(POST)
        return await reader.readuntil(b"first\r\n")

    assert talking(answers, talk).endswith(b"\r\n\r\n5\r\nfirst\r\n")


def test_waiting_for_a_chunk_is_real(monkeypatch: pytest.MonkeyPatch) -> None:
    slept = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(f"{loopback.__name__}.asyncio.sleep", sleep)

    talking(Answers(HttpResponse(200, JSON, (b"{}",), waits_ms=(1_500,))), sending(POST))

    assert slept == [1.5]


def test_a_cut_response_ends_without_its_end() -> None:
    answers = Answers(HttpResponse(200, EVENTS, (b"data: 1\n\n",), "cut"))

    read = talking(answers, sending(POST + POST))

    assert read.endswith(b"\r\n\r\n9\r\ndata: 1\n\n\r\n")
    assert len(answers.requests) == 1


def test_a_lost_connection_has_no_response() -> None:
    async def talk(streams: Streams) -> bytes:
        reader, writer = streams
        writer.write(POST)
        return await reader.read()

    assert talking(Answers(NoResponse("connection", "gone")), talk) == b""


@pytest.mark.parametrize(
    ("decision", "before"),
    [
        (NoResponse("timeout", "late"), b""),
        (HttpResponse(200, EVENTS, (b"data: 1\n\n",), "timeout"), b"9\r\ndata: 1\n\n\r\n"),
    ],
    ids=["no response", "half a response"],
)
def test_a_timeout_says_nothing_more_until_the_client_gives_up(
    decision: Decision, before: bytes
) -> None:
    async def talk(streams: Streams) -> bytes:
        reader, writer = streams
        writer.write(POST)
        read = await reader.readuntil(before) if before else b""
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(1), 0.05)
        return read

    assert talking(Answers(decision), talk).endswith(before)


def test_a_server_that_ends_does_not_wait_for_idle_or_silent_clients() -> None:
    async def run() -> tuple[bytes, bytes]:
        answers = Answers(json_answer("{}"), NoResponse("timeout", "late"))
        async with asyncio.timeout(30):
            async with listening(answers.take) as server:
                where = server.url.removeprefix("http://").split(":")
                idle, silent = [await asyncio.open_connection(*where) for _ in range(2)]
                for reader, writer in (idle, silent):
                    writer.write(POST)
                    if (reader, writer) == idle:
                        await reader.readuntil(b"{}")
                while len(answers.requests) < 2:
                    await asyncio.sleep(0)
            read = await idle[0].read(), await silent[0].read()
            for _, writer in (idle, silent):
                writer.close()
            return read

    assert asyncio.run(run()) == (b"", b"")


def test_connections_are_served_beside_one_another() -> None:
    async def run() -> list[bytes]:
        answers = Answers(
            HttpResponse(200, JSON, (b"1", b"2"), waits_ms=(0, 3_600_000)), json_answer("{}")
        )
        async with listening(answers.take) as server, asyncio.timeout(30):
            where = server.url.removeprefix("http://").split(":")
            slow, quick = [await asyncio.open_connection(*where) for _ in range(2)]
            slow[1].write(POST)
            first = await slow[0].readuntil(b"1\r\n1\r\n")
            quick[1].write(POST)
            second = await quick[0].readuntil(b"{}")
            for _, writer in (slow, quick):
                writer.close()
            return [first, second]

    first, second = asyncio.run(run())

    assert first.endswith(b"1\r\n1\r\n")
    assert second == whole(b"{}")


def test_a_big_body_arrives_whole() -> None:
    size = 20_000_000
    head = f"POST / HTTP/1.1\r\nhost: h\r\ncontent-length: {size}\r\n\r\n".encode()
    answers = Answers(json_answer("{}"))

    read = talking(answers, sending(head + b"x" * size))

    assert read == whole(b"{}")
    assert answers.requests[0].body == b"x" * size


def test_a_client_that_waits_for_leave_to_send_gets_it() -> None:
    head = b"POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 3\r\nexpect: 100-continue\r\n\r\n"

    async def talk(streams: Streams) -> bytes:
        reader, writer = streams
        writer.write(head)
        leave = await reader.readuntil(b"\r\n\r\n")
        writer.write(b"abc")
        writer.write_eof()
        return leave + await reader.read()

    assert talking(Answers(json_answer("{}")), talk) == b"HTTP/1.1 100 \r\n\r\n" + whole(b"{}")


def test_a_chunked_request_is_put_together() -> None:
    answers = Answers(json_answer("{}"))
    head = b"POST / HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n"

    talking(answers, sending(head + b"2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"))

    assert answers.requests[0].body == b"abc"


def test_a_head_request_gets_no_body() -> None:
    read = talking(Answers(json_answer("{}")), sending(b"HEAD / HTTP/1.1\r\nhost: h\r\n\r\n"))

    assert read == whole(b"{}").removesuffix(b"{}")


def test_a_head_request_for_a_stream_gets_no_body_and_the_connection_goes_on() -> None:
    answers = Answers(HttpResponse(200, EVENTS, (b"1", b"2")), json_answer("{}"))

    read = talking(answers, sending(b"HEAD / HTTP/1.1\r\nhost: h\r\n\r\n" + POST))

    assert read.endswith(b"Transfer-Encoding: chunked\r\n\r\n" + whole(b"{}"))


def test_an_old_client_gets_a_stream_that_ends_with_the_connection() -> None:
    answers = Answers(HttpResponse(200, EVENTS, (b"1", b"2")))

    read = talking(answers, sending(b"GET / HTTP/1.0\r\n\r\n"))

    assert read.endswith(b"Connection: close\r\n\r\n12")


@pytest.mark.parametrize(
    ("data", "status", "problem"),
    [
        (b"hello\r\n\r\n", b"400", "no HTTP request: illegal request line"),
        (b"GET / HTTP/1.1\r\n\r\n", b"400", "no HTTP request: Missing mandatory Host: header"),
        (b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 99_999, b"431", "no HTTP request: Receive buffer "
         "too long"),
    ],
    ids=["no HTTP", "no host", "an endless head"],
)  # fmt: skip
def test_what_is_no_request_is_told_so(data: bytes, status: bytes, problem: str) -> None:
    answers = Answers(json_answer("{}"))

    head, _, body = talking(answers, sending(data)).partition(b"\r\n\r\n")

    assert head.startswith(b"HTTP/1.1 " + status)
    assert b"connection: close" in head
    assert json.loads(body) == {"error": {"type": "simkit", "message": problem}}
    assert answers.requests == []


def test_a_body_beyond_the_limit_is_refused_and_the_client_can_read_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loopback, "BODY_MAX", 10)
    data = b"POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 1000000\r\n\r\n" + b"x" * 1_000_000

    head, _, body = talking(Answers(json_answer("{}")), sending(data)).partition(b"\r\n\r\n")

    assert head.startswith(b"HTTP/1.1 413 ")
    assert json.loads(body)["error"]["message"] == "a request has at most 10 bytes"


def test_a_refusal_ends_for_a_client_that_keeps_its_side_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loopback, "_LINGER_S", 3_600)

    async def talk(streams: Streams) -> bytes:
        reader, writer = streams
        writer.write(b"hello\r\n\r\n")
        return await reader.read()

    assert talking(Answers(json_answer("{}")), talk).startswith(b"HTTP/1.1 400 ")


def test_a_request_that_breaks_off_is_nobodys() -> None:
    answers = Answers(json_answer("{}"))

    talking(answers, sending(POST[:-1]))

    assert answers.requests == []


def test_a_handler_that_fails_is_told_to_the_client_and_kept() -> None:
    def fail(request: HttpRequest) -> Decision:
        raise KeyError("oh")

    async def run() -> tuple[bytes, Exception | None]:
        async with listening(fail) as server:
            where = server.url.removeprefix("http://").split(":")
            reader, writer = await asyncio.open_connection(*where)
            writer.write(POST)
            read = await reader.read()
            writer.close()
            return read, server.problem

    read, problem = asyncio.run(run())

    assert read.startswith(b"HTTP/1.1 500 ")
    assert b"simkit failed: KeyError: 'oh'" in read
    assert repr(problem) == "KeyError('oh')"


def test_a_port_in_use_is_an_error() -> None:
    async def run(port: int) -> None:
        async with listening(Answers(json_answer("{}")).take, port):
            pass

    with socket.create_server(("127.0.0.1", 0)) as server, pytest.raises(OSError, match="in use"):
        asyncio.run(run(server.getsockname()[1]))


def test_what_is_sent_is_what_h11_reads() -> None:
    client = h11.Connection(h11.CLIENT)
    client.send(h11.Request(method="GET", target="/", headers=[("host", "h")]))
    client.send(h11.EndOfMessage())
    answers = Answers(HttpResponse(200, EVENTS, ("ü€".encode(), b"\r\n\r\n")))

    client.receive_data(talking(answers, sending(POST)))
    result = bytearray()
    while not isinstance(event := client.next_event(), h11.EndOfMessage):
        if isinstance(event, h11.Data):
            result += event.data

    assert result.decode() == "ü€\r\n\r\n"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ("host: 127.0.0.1:8000", 200),
        ("host: localhost:8000\r\norigin: http://localhost:3000", 200),
        ("host: [::1]:8000", 200),
        ("host: host.docker.internal", 200),
        ("host: evil.example:8000", 403),
        ("host: 127.0.0.1\r\norigin: https://evil.example", 403),
        ("host: 127.0.0.1\r\norigin: null", 403),
        ("host: 192.168.1.7", 403),
    ],
)
def test_pages_of_other_sites_are_refused(headers: str, status: int) -> None:
    request = POST.replace(b"host: here", headers.encode())
    answers = Answers(json_answer("{}"))

    got = talking(answers, sending(request))

    assert got.startswith(f"HTTP/1.1 {status} ".encode())
    assert len(answers.requests) == (status == 200)
