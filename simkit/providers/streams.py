"""Streams of events, however they are framed: server-sent events, JSON lines, Amazon's frames."""

from __future__ import annotations

import re
import struct
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple
from zlib import crc32

import msgspec

from simkit.core.errors import WireInvalid
from simkit.core.messages import JsonValue
from simkit.providers import sse
from simkit.providers.body_reader import json_bytes
from simkit.providers.http import HttpResponse, header

CONTENT_TYPE: Final = "application/vnd.amazon.eventstream"

_PRELUDE: Final = struct.Struct(">II")
_SUM: Final = struct.Struct(">I")
_LEAST: Final = _PRELUDE.size + 2 * _SUM.size
_NAME: Final = re.compile(rb":(?:event|exception)-type\x07(..)", re.DOTALL)
"""The header with the type, before its text."""


class Frame(NamedTuple):
    """One event, or the exception that ends a stream."""

    headers: bytes
    payload: bytes

    @property
    def name(self) -> str:
        """Return the type of the event or exception."""
        match = _NAME.search(self.headers)
        if match is None:
            return ""
        end = match.end() + int.from_bytes(match[1])
        return self.headers[match.end() : end].decode("utf-8", "replace")

    @property
    def content(self) -> bytes:
        """Return its JSON; a model's own JSON (``InvokeModel``) stands there in base64."""
        try:
            return b64decode(msgspec.json.decode(self.payload, type=dict[str, str])["bytes"])
        except (msgspec.MsgspecError, UnicodeError, KeyError, ValueError, RecursionError):
            return self.payload

    def with_content(self, content: bytes) -> bytes:
        """Return its bytes with another JSON."""
        before = self.content
        if content != before:
            payload = content if before == self.payload else chunk_of(content)
            return _encoded(self.headers, payload)
        return _encoded(self.headers, self.payload)

    @property
    def size(self) -> int:
        """Return the number of its bytes."""
        return _LEAST + len(self.headers) + len(self.payload)


def chunk_of(content: bytes) -> bytes:
    """Return a model's own JSON as the payload of an event."""
    return json_bytes({"bytes": b64encode(content).decode()})


def frame(payload: bytes, name: str, kind: str = "event") -> bytes:
    """Return one event, or an ``exception``, as bytes."""
    headers = {f":{kind}-type": name, ":content-type": "application/json", ":message-type": kind}
    encoded = b"".join(
        bytes((len(key),)) + key.encode() + struct.pack(">BH", 7, len(value)) + value.encode()
        for key, value in headers.items()
    )
    return _encoded(encoded, payload)


def _encoded(headers: bytes, payload: bytes) -> bytes:
    size = _LEAST + len(headers) + len(payload)
    prelude = _PRELUDE.pack(size, len(headers))
    checked = prelude + _SUM.pack(crc32(prelude)) + headers + payload
    return checked + _SUM.pack(crc32(checked))


def frames(body: bytes) -> Iterator[Frame]:
    """Yield the frames of a stream without the incomplete one at the end of a cut stream.

    Raise WireInvalid for a frame whose checksum is wrong.
    """
    start = number = 0
    while len(body) - start >= _LEAST:
        size, headers = _PRELUDE.unpack_from(body, start)
        prelude_end = start + _PRELUDE.size
        is_sound = _SUM.unpack_from(body, prelude_end)[0] == crc32(body[start:prelude_end])
        end = start + size - _SUM.size
        if is_sound and len(body) < start + size:
            return
        if (
            not is_sound
            or size < _LEAST + headers
            or _SUM.unpack_from(body, end)[0] != crc32(body[start:end])
        ):
            raise WireInvalid("is no frame: its checksum is wrong", f"events[{number}]")
        middle = prelude_end + _SUM.size + headers
        yield Frame(body[prelude_end + _SUM.size : middle], body[middle:end])
        start, number = start + size, number + 1


LINES: Final = "application/x-ndjson"


def line(data: JsonValue) -> bytes:
    """Return one event of a stream of JSON lines."""
    return json_bytes(data) + b"\n"


def is_framed(response: HttpResponse) -> bool:
    """Return whether a body consists of Amazon's binary frames."""
    return CONTENT_TYPE in header(response.headers, "content-type")


def is_stream(response: HttpResponse) -> bool:
    """Return whether a body is a stream."""
    kind = header(response.headers, "content-type")
    return LINES in kind or is_framed(response) or sse.is_stream(response)


def events(response: HttpResponse) -> Iterator[tuple[str, str]]:
    """Yield each event's name, empty for none, and its data; an incomplete last one is dropped.

    Raise WireInvalid for a frame that is none.
    """
    if is_framed(response):
        for frame in frames(response.body):
            yield frame.name, frame.content.decode("utf-8", "replace")
    elif LINES in header(response.headers, "content-type"):
        *lines, last = response.body.decode("utf-8", "replace").split("\n")
        lines += [last] if sse.is_whole(last) else []
        yield from (("", data) for data in lines if data.strip())
    else:
        yield from sse.events(response.body)


def frames_of(response: HttpResponse) -> list[Frame]:
    """Return the frames in a body; none if its kind has none, or if it is damaged."""
    try:
        return [*frames(response.body)] if is_framed(response) else []
    except WireInvalid:
        return []


def content_of(response: HttpResponse) -> bytes:
    """Return a body as people read it: of binary frames, what they contain."""
    return b"\n".join(frame.content for frame in frames_of(response)) or response.body


def units_of(response: HttpResponse) -> list[int]:
    """Return the sizes of the units that no cut should join: lines, or frames."""
    if is_framed(response):
        return [frame.size for frame in frames_of(response)]
    return [len(line) + 1 for line in response.body.split(b"\n")]


def rewritten(response: HttpResponse, write: Callable[[bytes], bytes]) -> bytes:
    """Return a body that a function rewrites: as a whole, or frame by frame."""
    frames = frames_of(response)
    rest = response.body[sum(frame.size for frame in frames) :]
    whole = b"".join(frame.with_content(write(frame.content)) for frame in frames)
    return whole + (write(rest) if rest or not frames else b"")
