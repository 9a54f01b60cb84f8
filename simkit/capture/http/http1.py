"""HTTP/1.1 as bytes: parse requests and responses, and write responses.

For clients that are intercepted below their own parser, so that they treat the bytes as always. RFC
9112; trailers are read and dropped. It accepts what clients and servers accept, so it is no parser
for a server: docs/decisions/033.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from http import HTTPStatus
from typing import Final

from simkit.capture.http.request_router import StreamObserver
from simkit.providers.http import Headers, HttpResponse, header

_HEAD_ENDS: Final = re.compile(rb"(?<=[^\r\n])\r?\n\r?\n")
_BODILESS: Final = frozenset({204, 304})


class Message:
    """A parser of one message; bytes after it are kept in ``rest``."""

    def __init__(self, answers: str | None = None) -> None:
        """``answers`` is the method of a response's request; None to read a request."""
        self.answers = answers
        self.start = ""
        """The first line; empty until the head is complete."""
        self.headers: Headers = ()
        self.is_over = False
        self.rest = bytearray()
        self._left: int | None = None  # Bytes left; None: until the connection ends
        self._is_chunked = False
        self._state = "head"

    @property
    def status(self) -> int:
        """Return a response's status; 0 until its head is complete."""
        parts = self.start.split(" ", 2)
        return int(parts[1]) if len(parts) > 1 and parts[1].isdecimal() else 0

    def feed(self, data: bytes) -> list[bytes]:
        """Add the next bytes; return the pieces of the body in them."""
        self.rest += data
        requests: list[bytes] = []
        while not self.is_over and self._step(requests):
            pass
        return requests

    def _step(self, requests: list[bytes]) -> bool:
        """Parse one part of the message; return False if more bytes are needed."""
        if self._state == "head":
            return self._read_head()
        if self._state == "size":
            return self._read_size()
        if self._state == "trailers":
            self.is_over = (line := self._line()) == b""
            return line is not None
        if self._state == "after":
            if len(self.rest) < 2:
                return False
            del self.rest[:2]
            self._state = "size"
            return True
        return self._read_body(requests)

    def _line(self) -> bytes | None:
        line, end, _ = self.rest.partition(b"\n")
        if not end:
            return None
        del self.rest[: len(line) + 1]
        return bytes(line).rstrip(b"\r")

    def _read_head(self) -> bool:
        end = _HEAD_ENDS.search(self.rest)
        if end is None:
            return False
        head, self.rest = self.rest[: end.start()], self.rest[end.end() :]
        self.start, *lines = head.decode("latin-1").lstrip("\r\n").replace("\r\n", "\n").split("\n")
        fields = (line.partition(":") for line in lines)
        self.headers = tuple((name.strip(), value.strip()) for name, _, value in fields)
        if self.answers is not None and 100 <= self.status < 200 and self.status != 101:
            self.start = ""  # The final response has not come yet.
            return True
        self._read_framing()
        return True

    def _read_framing(self) -> None:
        length = header(self.headers, "content-length")
        self._state = "body"
        if self.answers is not None and self._has_no_body():
            self.is_over = True
        elif "chunked" in header(self.headers, "transfer-encoding").lower():
            self._is_chunked, self._state = True, "size"
        elif length.isdecimal() or self.answers is None:
            self._left = int(length) if length.isdecimal() else 0
            self.is_over = not self._left

    def _has_no_body(self) -> bool:
        return self.answers == "HEAD" or self.status in _BODILESS or self.status == 101

    def _read_size(self) -> bool:
        line = self._line()
        if line is None:
            return False
        try:
            self._left = int(line.partition(b";")[0], 16)
        except ValueError:
            self._is_chunked, self._left = False, None  # The client's parser reports it.
        self._state = "body" if self._left != 0 else "trailers"
        return True

    def _read_body(self, requests: list[bytes]) -> bool:
        size = len(self.rest) if self._left is None else min(self._left, len(self.rest))
        if not size:
            return False
        requests.append(bytes(self.rest[:size]))
        del self.rest[:size]
        if self._left is not None:
            self._left -= size
            if self._left == 0:
                self.is_over, self._state = not self._is_chunked, "after"
        return True

    @property
    def ends_with_connection(self) -> bool:
        """Return whether only the end of the connection ends the body."""
        return self._state == "body" and self._left is None and not self._is_chunked


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
