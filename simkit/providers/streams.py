"""Streams of events, however they are framed: server-sent events, JSON lines, Amazon's frames."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from simkit.core.errors import WireInvalid
from simkit.core.messages import JsonValue
from simkit.providers import eventstream, sse
from simkit.providers.body_reader import json_bytes
from simkit.providers.http import HttpResponse, header

LINES: Final = "application/x-ndjson"


def line(data: JsonValue) -> bytes:
    """Return one event of a stream of JSON lines."""
    return json_bytes(data) + b"\n"


def is_framed(response: HttpResponse) -> bool:
    """Return whether a body consists of Amazon's binary frames."""
    return eventstream.CONTENT_TYPE in header(response.headers, "content-type")


def is_stream(response: HttpResponse) -> bool:
    """Return whether a body is a stream."""
    kind = header(response.headers, "content-type")
    return LINES in kind or is_framed(response) or sse.is_stream(response)


def events(response: HttpResponse) -> Iterator[tuple[str, str]]:
    """Yield each event's name, empty for none, and its data; an incomplete last one is dropped.

    Raise WireInvalid for a frame that is none.
    """
    if is_framed(response):
        for frame in eventstream.frames(response.body):
            yield frame.name, frame.content.decode("utf-8", "replace")
    elif LINES in header(response.headers, "content-type"):
        *lines, last = response.body.decode("utf-8", "replace").split("\n")
        lines += [last] if sse.is_whole(last) else []
        yield from (("", data) for data in lines if data.strip())
    else:
        yield from sse.events(response.body)


def frames_of(response: HttpResponse) -> list[eventstream.Frame]:
    """Return the frames in a body; none if its kind has none, or if it is damaged."""
    try:
        return [*eventstream.frames(response.body)] if is_framed(response) else []
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
