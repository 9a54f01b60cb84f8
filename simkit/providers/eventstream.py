"""Amazon's event streams: binary frames, each with headers, a payload and two checksums.

Source of the format: https://smithy.io/2.0/aws/amazon-eventstream.html
"""

from __future__ import annotations

import re
import struct
from base64 import b64decode, b64encode
from collections.abc import Iterator
from typing import Final, NamedTuple
from zlib import crc32

import msgspec

from simkit.core.errors import WireInvalid
from simkit.providers.body_reader import json_bytes

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
