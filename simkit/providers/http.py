"""One HTTP exchange as plain values: what a client sent, and what it is answered."""

from __future__ import annotations

import re
from typing import Final, TypeAlias
from urllib.parse import unquote

import msgspec

Headers: TypeAlias = tuple[tuple[str, str], ...]


_HOST: Final = re.compile(r"^[a-z][a-z0-9+.-]*://[^/?#]*", re.IGNORECASE)
_SLASHES: Final = re.compile(r"/{2,}")


def path_of(url: str) -> str:
    """Return the path of a URL as servers read it: decoded, without fragment, query, empty parts.

    This is the one door at which requests are recognised: every protocol looks at this path.
    """
    path = _HOST.sub("", url).partition("#")[0].partition("?")[0]
    return _SLASHES.sub("/", unquote(path)).rstrip("/")


def header(headers: Headers, name: str) -> str:
    """Return the first header of a name, in any case of letters; empty if there is none."""
    lower_name = name.lower()
    return next((value for key, value in headers if key.lower() == lower_name), "")


class HttpRequest(msgspec.Struct, frozen=True, gc=False):
    """What a client sent."""

    method: str
    """In capitals."""
    url: str
    """Whole: scheme, host, path, query."""
    headers: Headers = ()
    body: bytes = b""


class HttpResponse(msgspec.Struct, frozen=True, gc=False):
    """What a client is answered."""

    status: int
    headers: Headers
    """Without ``content-length`` and ``transfer-encoding``: a transport knows how it frames."""
    chunks: tuple[bytes, ...]
    """The body in the pieces in which it arrives; one where nothing is streamed."""
    ends: str = ""
    """How it ends after the chunks: empty for well, ``cut`` (the connection is lost), ``timeout``
    (nothing more comes)."""
    waits_ms: tuple[int, ...] = ()
    """How long each chunk lets wait for it; empty for not at all."""

    @property
    def body(self) -> bytes:
        """The whole body."""
        return b"".join(self.chunks)


def bytewise(response: HttpResponse) -> HttpResponse:
    """Return a response that comes byte by byte: characters, lines and events in pieces."""
    chunks = tuple(bytes((byte,)) for byte in response.body)
    return HttpResponse(response.status, response.headers, chunks, response.ends)


class NoResponse(msgspec.Struct, frozen=True, gc=False):
    """The client is not answered at all."""

    kind: str
    """``timeout`` or ``connection``."""
    message: str


HttpAnswer: TypeAlias = HttpResponse | NoResponse
