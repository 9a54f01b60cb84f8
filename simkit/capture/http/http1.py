"""HTTP/1.1 as bytes: parse requests and responses, and write responses.

For clients that are intercepted below their own parser, so that they treat the bytes as always. RFC
9112; trailers are read and dropped. It accepts what clients and servers accept, so it is no parser
for a server: docs/decisions/033.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from http import HTTPStatus
from typing import Final, TypeAlias, TypeVar

from simkit.capture.http.request_router import StreamObserver
from simkit.providers.http import Headers, HttpResponse, header

_HEAD_ENDS: Final = re.compile(rb"(?<=[^\r\n])\r?\n\r?\n")
_BODILESS: Final = frozenset({204, 304})

T = TypeVar("T")
Steps: TypeAlias = Generator[None, None, T]


class Message:
    """A parser of one message; bytes after it are kept in ``rest``."""

    def __init__(self, answers: str | None = None) -> None:
        """``answers`` is the method of a response's request; None to read a request."""
        self.answers = answers
        self.start = ""
        """The first line; empty until the head is complete."""
        self.headers: Headers = ()
        self.is_over = False
        self.ends_with_connection = False
        """Whether only the end of the connection ends the body."""
        self.rest = bytearray()
        self._pieces: list[bytes] = []
        self._parser = self._parse()

    @property
    def status(self) -> int:
        """Return a response's status; 0 until its head is complete."""
        parts = self.start.split(" ", 2)
        return int(parts[1]) if len(parts) > 1 and parts[1].isdecimal() else 0

    def feed(self, data: bytes) -> list[bytes]:
        """Add the next bytes; return the pieces of the body in them."""
        self.rest += data
        self._pieces = []
        next(self._parser, None)
        return self._pieces

    def _parse(self) -> Steps[None]:
        """Parse the message; yield where more bytes are needed."""
        yield from self._read_head()
        while self.answers is not None and 100 <= self.status < 200 and self.status != 101:
            self.start = ""  # The final response has not come yet.
            yield from self._read_head()
        length = header(self.headers, "content-length")
        if self.answers is None or not self._has_no_body():
            if "chunked" in header(self.headers, "transfer-encoding").lower():
                yield from self._read_chunks()
            elif length.isdecimal() or self.answers is None:
                yield from self._read_body(int(length) if length.isdecimal() else 0)
            else:
                yield from self._read_body(None)
        self.is_over = True

    def _read_head(self) -> Steps[None]:
        while (end := _HEAD_ENDS.search(self.rest)) is None:
            yield
        head, self.rest = self.rest[: end.start()], self.rest[end.end() :]
        self.start, *lines = head.decode("latin-1").lstrip("\r\n").replace("\r\n", "\n").split("\n")
        fields = (line.partition(":") for line in lines)
        self.headers = tuple((name.strip(), value.strip()) for name, _, value in fields)

    def _has_no_body(self) -> bool:
        return self.answers == "HEAD" or self.status in _BODILESS or self.status == 101

    def _read_chunks(self) -> Steps[None]:
        while True:
            line = yield from self._read_line()
            try:
                size: int | None = int(line.partition(b";")[0], 16)
            except ValueError:
                size = None  # The client's parser reports it.
            if size == 0:
                break
            yield from self._read_body(size)
            while len(self.rest) < 2:
                yield
            del self.rest[:2]
        while (yield from self._read_line()):
            pass  # Trailers are dropped.

    def _read_line(self) -> Steps[bytes]:
        while b"\n" not in self.rest:
            yield
        line, _, self.rest = self.rest.partition(b"\n")
        return bytes(line).rstrip(b"\r")

    def _read_body(self, size: int | None) -> Steps[None]:
        """Read that many bytes; for None, until the connection ends."""
        self.ends_with_connection = size is None
        while size is None or size > 0:
            piece = bytes(self.rest[:size])
            if not piece:
                yield
                continue
            self._pieces.append(piece)
            del self.rest[: len(piece)]
            size = None if size is None else size - len(piece)


class Listening:
    """Reports a response to an observer, from the bytes of a server."""

    def __init__(self, tap: StreamObserver | None, method: str) -> None:
        self._message = Message(answers=method)
        self._tap = tap
        self._has_begun = False
        self._is_over = False
        self._has_more = False

    @property
    def is_whole(self) -> bool:
        """Return whether the response is complete, with nothing after it."""
        return self._message.is_over and not self._message.rest and not self._has_more

    def feed_answer(self, data: bytes) -> None:
        """Observe the next bytes; none means that the server has closed."""
        if self._is_over:
            self._has_more = self._has_more or bool(data)
            return
        pieces = self._message.feed(data)
        if self._tap is not None:
            self._tell(self._tap, pieces)
        if self._message.is_over or (not data and self._message.ends_with_connection):
            self.ended("")
        elif not data:
            self.ended("the connection was closed before the response was whole")

    def _tell(self, tap: StreamObserver, pieces: list[bytes]) -> None:
        if self._message.start and not self._has_begun:
            self._has_begun = True
            tap.response_started(self._message.status, self._message.headers)
        for piece in pieces:
            tap.chunk(piece)

    def ended(self, problem: str = "") -> None:
        """Observe the end, unless the response is complete already."""
        if not self._is_over:
            self._is_over = True
            if self._tap is not None:
                self._tap.ended(problem)


def framing(answer: HttpResponse, method: str) -> Headers:
    """Return the headers for the end of the body: a length, or chunks for a stream."""
    if answer.status in _BODILESS or (method == "HEAD" and not answer.body):
        return ()
    if len(answer.chunks) > 1 or answer.ends:
        return (("transfer-encoding", "chunked"),)
    return (("content-length", str(len(answer.body))),)


def response_bytes(answer: HttpResponse, method: str) -> Iterator[tuple[int, bytes]]:
    """Yield a response as a server sends it, in pieces, each with its delay in milliseconds."""
    frames = framing(answer, method)
    try:
        reason = HTTPStatus(answer.status).phrase
    except ValueError:
        reason = ""
    lines = [f"HTTP/1.1 {answer.status} {reason}"]
    lines += [f"{name}: {value}" for name, value in (*answer.headers, *frames)]
    yield 0, ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace")
    if method == "HEAD" or answer.status in _BODILESS:
        return
    is_chunked = frames == (("transfer-encoding", "chunked"),)
    for wait_ms, chunk in answer.timed_chunks:
        if chunk:
            yield wait_ms, b"%x\r\n%b\r\n" % (len(chunk), chunk) if is_chunked else chunk
    if is_chunked and not answer.ends:
        yield 0, b"0\r\n\r\n"
