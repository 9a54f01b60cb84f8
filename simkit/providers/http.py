"""One HTTP exchange as plain values: a client's request, and its response."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain, repeat
from typing import ClassVar, Final, TypeAlias
from urllib.parse import unquote

import msgspec

from simkit.core.text import late_pattern

Headers: TypeAlias = tuple[tuple[str, str], ...]


_HOST: Final = late_pattern(r"^[a-z][a-z0-9+.-]*://[^/?#]*", re.IGNORECASE)
_SLASHES: Final = late_pattern(r"/{2,}")


def path_of(url: str) -> str:
    """Return the path of a URL as servers read it: decoded, without fragment, query, empty parts.

    Every protocol recognizes its requests by this path.
    """
    path = _HOST.sub("", url).partition("#")[0].partition("?")[0]
    return _SLASHES.sub("/", unquote(path)).rstrip("/")


def header(headers: Headers, name: str) -> str:
    """Return the first header of a name, in any case; empty if there is none."""
    lower_name = name.lower()
    return next((value for key, value in headers if key.lower() == lower_name), "")


class HttpRequest(msgspec.Struct, frozen=True, gc=False):
    """A client's request."""

    method: str
    """The method in capitals."""
    url: str
    """The complete URL: scheme, host, path, query."""
    headers: Headers = ()
    body: bytes = b""


class HttpResponse(msgspec.Struct, frozen=True, gc=False):
    """The response that a client gets."""

    status: int
    headers: Headers
    """Headers without ``content-length`` and ``transfer-encoding``, which depend on the
    transport."""
    chunks: tuple[bytes, ...]
    """The body in the pieces in which it arrives; one piece without a stream."""
    ends: str = ""
    """The end after the chunks: empty if normal, ``cut`` (lost connection) or ``timeout``
    (nothing more comes)."""
    waits_ms: tuple[int, ...] = ()
    """The delay before each chunk in milliseconds; empty for no delays."""
    is_open: ClassVar[bool] = False
    """Whether further pieces may come."""

    @property
    def body(self) -> bytes:
        """Return the whole body."""
        return b"".join(self.chunks)

    @property
    def timed_chunks(self) -> Iterator[tuple[int, bytes]]:
        """Return each chunk after the milliseconds before it."""
        return zip(chain(self.waits_ms, repeat(0)), self.chunks)  # noqa: B905


def bytewise(response: HttpResponse) -> HttpResponse:
    """Return a response that comes byte by byte, so that characters, lines and events are split."""
    chunks = tuple(bytes((byte,)) for byte in response.body)
    return HttpResponse(response.status, response.headers, chunks, response.ends)


class NoResponse(msgspec.Struct, frozen=True, gc=False):
    """The client gets no response."""

    kind: str
    """``timeout`` or ``connection``."""
    message: str


HttpAnswer: TypeAlias = HttpResponse | NoResponse
