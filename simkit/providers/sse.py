"""Server-sent events: frames to bytes, and bytes to events."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from simkit.core.messages import JsonValue
from simkit.providers.http import HttpResponse, header

CONTENT_TYPE: Final = "text/event-stream; charset=utf-8"
DONE: Final = "[DONE]"
"""The data of the last event where a protocol, such as OpenAI's chat, says that it is over."""

_LINE_END: Final = re.compile(r"\r\n|\n|\r")
_encode = msgspec.json.Encoder().encode


def frame(data: JsonValue | str, event: str = "") -> bytes:
    """Returns one event as bytes; a text stands as it is, any other value as compact JSON."""
    if isinstance(data, str):
        lines = b"".join(b"data: %s\n" % line.encode() for line in _LINE_END.split(data))
    else:
        lines = b"data: %s\n" % _encode(data)
    return (b"event: %s\n" % event.encode() if event else b"") + lines + b"\n"


def events(body: bytes) -> Iterator[tuple[str, str]]:
    """Yields each event's name, empty for none, and its data, as the HTML standard reads a stream.

    Two things are milder. What is not UTF-8, as where a stream was cut inside a character, is
    replaced. And the last event needs no blank line after it if its data is whole, because servers
    forget that line; half an event, as where a stream was cut, is none.
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
    if data and _is_whole("\n".join(data)):
        yield event, "\n".join(data)


def is_stream(response: HttpResponse) -> bool:
    """Whether a body is a stream; one whose header does not say so is known by its first word."""
    if "text/event-stream" in header(response.headers, "content-type"):
        return True
    return response.body.lstrip().startswith((b"data:", b"event:", b"id:", b":"))


def _is_whole(data: str) -> bool:
    if data == DONE:
        return True
    try:
        return isinstance(msgspec.json.decode(data), dict)
    except (msgspec.DecodeError, RecursionError):
        return False
