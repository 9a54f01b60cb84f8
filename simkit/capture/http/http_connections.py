"""Interception of `http.client` and all that uses it: urllib, `urllib3`, `requests`, `botocore`.

An intercepted connection gets an object in place of its socket. It collects the client's bytes
until the client asks for the response; then the router decides, and the client's own parser reads
either the answer or, on a real socket that is opened only now, the bytes that the server sends.

*Not seen*: connection classes with a ``connect`` of their own (refused as connections), and
``Expect: 100-continue`` of botocore's uploads to S3, which waits for a real socket.
"""

from __future__ import annotations

import io
import re
from collections.abc import Generator, Iterator
from http import HTTPStatus
from types import ModuleType
from typing import Any, Final, TypeAlias, TypeVar

from simkit.capture.http import compat, request_router
from simkit.capture.http.connections import seconds, wait
from simkit.capture.http.installing import Replacement, Row
from simkit.providers.http import Headers, HttpRequest, HttpResponse, NoResponse, header

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

    def __init__(self, tap: request_router.ChunkRecorder | None, method: str) -> None:
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
        if (tap := self._tap) is not None:
            if self._message.start and not self._has_begun:
                self._has_begun = True
                tap.response_started(self._message.status, self._message.headers)
            for piece in pieces:
                tap.chunk(piece)
        if self._message.is_over or (not data and self._message.ends_with_connection):
            self.ended("")
        elif not data:
            self.ended("the connection was closed before the response was whole")

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
    if len(answer.chunks) > 1 or answer.ends or answer.is_open:
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


def rows(library: ModuleType) -> list[Row]:
    """Return the replacements for `http.client`, or for a module that extends it."""
    connects: list[Row] = [(*slot, _connect) for slot in compat.connects(library)]
    if library.__name__ == "http.client":
        return [(*compat.putrequest(), _putrequest), *connects]
    return connects


def _putrequest(before: Replacement) -> Replacement:
    def putrequest(connection: Any, *args: Any, **options: Any) -> None:
        # Also if a connection from before the run is still open.
        if request_router.is_intercepted():
            connection.sock = _Door(connection, connection.sock)
        before(connection, *args, **options)

    return putrequest


def _connect(before: Replacement) -> Replacement:
    def connect(connection: Any) -> None:
        if not request_router.is_intercepted():
            before(connection)
            return
        connection.sock = _Door(connection, None)
        if hasattr(connection, "is_verified"):
            connection.is_verified = True  # Without it urllib3 warns about a missing certificate.

    return connect


class _Door:
    """The object in place of a connection's socket while a request is written."""

    def __init__(self, connection: Any, real: Any) -> None:
        self.real: Any = real.real if isinstance(real, _Door) else real
        self.connection = connection
        self.output = bytearray()
        self.timeout = seconds(connection.timeout)
        self.was_timed = False

    def sendall(self, data: Any) -> None:
        self.output += data

    def settimeout(self, value: float | None) -> None:
        self.timeout, self.was_timed = value, True

    def gettimeout(self) -> float | None:
        return self.timeout

    def setsockopt(self, *option: Any) -> None:
        """Ignore the option; a real connection sets its own."""

    def close(self) -> None:
        if self.real is not None:
            self.real.close()

    def shutdown(self, how: int) -> None:
        if self.real is not None:
            self.real.shutdown(how)

    def makefile(self, *args: Any, **options: Any) -> io.BufferedReader:
        """Return the file from which the client reads the response."""
        try:
            return io.BufferedReader(self._response())
        except BaseException as problem:
            # Raised on reading: a response must get its file, so that it can close it.
            return io.BufferedReader(_Failing(problem))

    def _response(self) -> io.RawIOBase:
        request = self._request()
        router = request_router.current_router(request)
        decision = (
            request_router.Forward(None)
            if router is None
            else request_router.decide(router, request)
        )
        if isinstance(decision, request_router.Forward):
            return self._forwarded(Listening(decision.tap, request.method))
        self.close()
        if isinstance(decision, NoResponse):
            error = TimeoutError if decision.kind == "timeout" else ConnectionRefusedError
            raise request_router.failing_with(decision, error(decision.message))
        # The connection is closed for its user: the next request connects again.
        self.connection.sock = None
        return _Answered(decision, request.method, self.timeout)

    def _request(self) -> HttpRequest:
        message = Message()
        body = b"".join(message.feed(bytes(self.output)))
        method, _, target = message.start.rpartition(" ")[0].partition(" ")
        url = target if "://" in target else f"{self._origin()}{target}"
        return HttpRequest(method.upper(), url, message.headers, body)

    def _origin(self) -> str:
        host, port = compat.target_of(self.connection)
        standard = self.connection.default_port
        host_text = f"[{host}]" if ":" in host else host
        scheme = "https" if standard == 443 else "http"
        return (
            f"{scheme}://{host_text}"
            if port in (standard, None)
            else f"{scheme}://{host_text}:{port}"
        )

    def _forwarded(self, listening: Listening) -> io.RawIOBase:
        with request_router.forwarding(listening):
            self.connection.sock = self.real
            if self.real is None:
                self.connection.connect()
                self.real = self.connection.sock
            if self.was_timed:
                self.real.settimeout(self.timeout)
            self.real.sendall(bytes(self.output))
            return _Tapped(self.real.makefile("rb", buffering=0), listening)


class _Readable(io.RawIOBase):
    """A file for a client's parser."""

    def readable(self) -> bool:
        return True


class _Failing(_Readable):
    """A file that raises, because there is no response."""

    def __init__(self, problem: BaseException) -> None:
        self.problem = problem

    def readinto(self, buffer: Any) -> int:
        raise self.problem


class _Answered(_Readable):
    """A file with an answer, one piece a read."""

    def __init__(self, answer: HttpResponse, method: str, timeout_s: float | None) -> None:
        self.answer, self.timeout_s = answer, timeout_s
        self.pieces: Iterator[tuple[int, bytes]] = response_bytes(answer, method)
        self.piece = b""

    def readinto(self, buffer: Any) -> int:
        if not self.piece:
            self.piece = self._next()
        size = min(len(buffer), len(self.piece))
        buffer[:size], self.piece = self.piece[:size], self.piece[size:]
        return size

    def _next(self) -> bytes:
        wait_ms, piece = next(self.pieces, (0, b""))
        if (wait_ms and not wait(wait_ms, self.timeout_s)) or (
            not piece and self.answer.ends == "timeout"
        ):
            raise TimeoutError("timed out")
        return piece


class _Tapped(_Readable):
    """A file with a server's bytes, which are observed."""

    def __init__(self, real: Any, listening: Listening) -> None:
        self.real, self.listening = real, listening

    def readinto(self, buffer: Any) -> int | None:
        try:
            size: int | None = self.real.readinto(buffer)
        except Exception as problem:
            self.listening.ended(request_router.problem_text(problem))
            raise
        if size is not None:
            self.listening.feed_answer(bytes(memoryview(buffer)[:size]))
        return size

    def close(self) -> None:
        if not self.closed:
            self.listening.ended(request_router.CLOSED_EARLY)
            self.real.close()
        super().close()
