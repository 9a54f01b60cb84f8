"""Interception of `http.client` and all that uses it: urllib, `urllib3`, `requests`, `botocore`.

An intercepted connection gets an object in place of its socket. It collects the client's bytes
until the client asks for the response; then the router decides, and the client's own parser reads
either the answer or, on a real socket that is opened only now, the bytes that the server sends.

*Not seen*: connection classes with a ``connect`` of their own (refused as connections), and
``Expect: 100-continue`` of botocore's uploads to S3, which waits for a real socket.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from simkit.capture.http import compat
from simkit.capture.http.connections import seconds, wait
from simkit.capture.http.http1 import Listening, Message, response_bytes
from simkit.capture.http.installing import Replacement, Row
from simkit.capture.http.request_router import (
    CLOSED_EARLY,
    Forward,
    current_gate,
    decide,
    forwarding,
    is_intercepted,
    problem_text,
)
from simkit.providers.http import HttpRequest, HttpResponse, NoResponse


def rows(library: ModuleType) -> list[Row]:
    """Return the replacements for `http.client`, or for a module that extends it."""
    connects: list[Row] = [(*slot, _connect) for slot in compat.connects(library)]
    if library.__name__ == "http.client":
        return [(*compat.putrequest(), _putrequest), *connects]
    return connects


def _putrequest(before: Replacement) -> Replacement:
    def putrequest(connection: Any, *args: Any, **options: Any) -> None:
        # Also if a connection from before the run is still open.
        if is_intercepted():
            connection.sock = _Door(connection, connection.sock)
        before(connection, *args, **options)

    return putrequest


def _connect(before: Replacement) -> Replacement:
    def connect(connection: Any) -> None:
        if not is_intercepted():
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
        gate = current_gate(request)
        decision = Forward(None) if gate is None else decide(gate, request)
        if isinstance(decision, Forward):
            return self._forwarded(Listening(decision.tap, request.method))
        self.close()
        if isinstance(decision, NoResponse):
            error = TimeoutError if decision.kind == "timeout" else ConnectionRefusedError
            raise error(decision.message)
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
        with forwarding(listening):
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
            self.listening.ended(problem_text(problem))
            raise
        if size is not None:
            self.listening.feed_answer(bytes(memoryview(buffer)[:size]))
        return size

    def close(self) -> None:
        if not self.closed:
            self.listening.ended(CLOSED_EARLY)
            self.real.close()
        super().close()
