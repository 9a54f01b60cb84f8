"""Server-sent events: frames to bytes, and bytes to events."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import repeat
from typing import Final

import msgspec

from simkit.core.messages import JsonValue
from simkit.providers.http import HttpResponse, header

CONTENT_TYPE: Final = "text/event-stream; charset=utf-8"
DONE: Final = "[DONE]"
"""The data of the last event of protocols that have one, such as OpenAI's chat."""

_LINE_END: Final = re.compile(r"\r\n|\n|\r")
_EVENT_END: Final = re.compile(rb"(?:\r\n|\n|\r(?!\n)){2}")
_encode = msgspec.json.Encoder().encode


def frame(data: JsonValue | str, event: str = "") -> bytes:
    """Return one event as bytes; a text is sent as it is, any other value as compact JSON."""
    if isinstance(data, str):
        lines = b"".join(b"data: %s\n" % line.encode() for line in _LINE_END.split(data))
    else:
        lines = b"data: %s\n" % _encode(data)
    return (b"event: %s\n" % event.encode() if event else b"") + lines + b"\n"


def events(body: bytes) -> Iterator[tuple[str, str]]:
    """Yield each event's name, empty for none, and its data, as the HTML standard reads a stream.

    Two rules are milder. Bytes that are not UTF-8, as in a stream that was cut inside a character,
    are replaced. And the last event needs no blank line after it if its data is complete, because
    servers forget that line; an incomplete event, as in a cut stream, is dropped.
    """
    event, data = "", list[str]()
    for line in _LINE_END.split(body.decode("utf-8-sig", "replace")):
        if not line:
            if data:
                yield event, "\n".join(data)
            event, data = "", []
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            event = value
        elif field == "data":
            data.append(value)
    if data and is_whole("\n".join(data)):
        yield event, "\n".join(data)


class Reader:
    """Reads a stream piece by piece."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[tuple[str, str]]:
        """Return the events that are whole now."""
        *whole, self._rest = _EVENT_END.split(self._rest + data)
        return (event for each in whole for event in events(each + b"\n\n"))


def is_stream(response: HttpResponse) -> bool:
    """Return whether a body is a stream: by its header, else by its first word."""
    if "text/event-stream" in header(response.headers, "content-type"):
        return True
    return response.body.lstrip().startswith((b"data:", b"event:", b"id:", b":"))


def is_whole(data: str) -> bool:
    """Return whether the data of an event is complete."""
    if data == DONE:
        return True
    try:
        return isinstance(msgspec.json.decode(data), dict)
    except (msgspec.DecodeError, RecursionError):
        return False


_DEFAULT_SIZE: Final = 20
"""The default size of a piece in characters: small enough that a stream is visible as one, large
enough that a long text is not too many pieces."""


def pieces(text: str, chunks: tuple[int, ...] | int | None = None) -> list[str]:
    """Return the text in non-empty pieces; no piece for an empty text.

    ``chunks`` are sizes in characters, the last of which repeats; or the number of pieces, the
    longer ones first. A text with fewer characters than pieces has one piece for each character.
    """
    if isinstance(chunks, int):
        number = max(1, min(chunks, len(text)))
        size, longer = divmod(len(text), number)
        sizes: Iterator[int] = (size + (index < longer) for index in range(number))
    else:
        sizes = _endless(chunks or (_DEFAULT_SIZE,))
    pieces_out, start = [], 0
    while start < len(text):
        end = start + next(sizes)
        if end > start:
            pieces_out.append(text[start:end])
        start = end
    return pieces_out


def _endless(sizes: tuple[int, ...]) -> Iterator[int]:
    yield from sizes
    yield from repeat(max(sizes[-1], 1))
