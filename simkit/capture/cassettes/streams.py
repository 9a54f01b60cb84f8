"""Secrets that are split over a stream's events: each field of the events is read as one text.

This works for every protocol: texts at the same place in the events of one stream continue each
other, whatever they are (text, reasoning, arguments of a tool in partial JSON). A place is the path
in the event, with the fields that distinguish parallel parts: ``index``, ``item_id``, ``type`` and
the like.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, TypeAlias

import msgspec

from simkit.core.redact import Redactor

_NAMING: Final = (
    "index",
    "output_index",
    "content_index",
    "summary_index",
    "contentBlockIndex",
    "item_id",
    "type",
)
"""Keys that say to which part of the answer an event belongs."""
_OPENING: Final = (b"{", b"[")

_Place: TypeAlias = tuple[Any, ...]
_Holder: TypeAlias = dict[str, Any] | list[Any]


def redacted_events(body: bytes, redactor: Redactor) -> bytes:
    """Return server-sent events with every secret replaced, also split ones.

    The number of lines stays. A line without secrets is unchanged.
    """
    lines = [_Line(line) for line in body.split(b"\n")]
    _join(lines, redactor)
    return b"\n".join(line.redacted(redactor) for line in lines)


def redacted_lines(body: bytes, redactor: Redactor) -> bytes:
    """Return a body with every secret replaced, for JSON lines or a list of objects."""
    if body.lstrip()[:1] == b"[" and (items := _decoded(body)) is not None:
        if isinstance(items, list) and _join_values(items, redactor):
            body = msgspec.json.encode(items)
    elif b"\n{" in body.strip():
        lines = [_Line(line) for line in body.split(b"\n")]
        if all(line.is_json or not line.value for line in lines):
            _join(lines, redactor)
            body = b"\n".join(line.redacted(redactor) for line in lines)
    return redactor.line(body)


class _Line:
    """One line of a stream: a field's name, and its value."""

    def __init__(self, line: bytes) -> None:
        self._line = line
        name, mark, value = line.partition(b":")
        if not mark or line[:1] in _OPENING:
            name, mark, value = b"", b"", line
        self.value = self._value = value.strip()
        self._lead = name + mark + value[: len(value) - len(value.lstrip())]
        self._end = value[len(value.rstrip()) :] if self.value else b""
        self.is_data = name == b"data" or not name
        self.json = _decoded(self.value) if self.value[:1] in _OPENING else None
        self.is_json = self.json is not None
        self.is_changed = False

    def redacted(self, redactor: Redactor) -> bytes:
        """Return the line without the secrets that it contains alone."""
        value = _encoded(self.json) if self.is_changed and self.is_json else self.value
        text = redactor.line(value)
        return self._line if text == self._value else self._lead + text + self._end


def _join(lines: list[_Line], redactor: Redactor) -> None:
    """Replace the secrets that continue over several events."""
    events = [line for line in lines if line.is_data and line.is_json]
    for number in _join_values([line.json for line in events], redactor):
        events[number].is_changed = True
    # Lines of text may contain a secret together, for example a key in PEM.
    plain = [line for line in lines if line.is_data and line.value and not line.is_json]
    texts = [line.value.decode("utf-8", "surrogateescape") for line in plain]
    for line, text in zip(plain, redactor.pieces(texts), strict=True):
        line.value = text.encode("utf-8", "surrogateescape")


def _join_values(events: list[Any], redactor: Redactor) -> set[int]:
    """Replace, in place, the secrets that continue over events; return the changed ones."""
    places: dict[_Place, list[tuple[int, _Holder, Any]]] = {}
    for number, event in enumerate(events):
        # An event that is nested too deeply is redacted as one line.
        with suppress(RecursionError):
            for place, holder, key in _texts(event, ()):
                places.setdefault(place, []).append((number, holder, key))
    changed = set()
    for each_place in places.values():
        before = [holder[key] for _, holder, key in each_place]
        if len(set(before)) < 2:
            # A value that every event repeats, such as the model's name, is no split text.
            continue
        for (number, holder, key), old, new in zip(
            each_place, before, _redacted(before, redactor), strict=True
        ):
            if old != new:
                holder[key] = new
                changed.add(number)
    return changed


def _redacted(pieces: list[str], redactor: Redactor) -> list[str]:
    parts_redacted = redactor.pieces(pieces)
    whole = "".join(parts_redacted)
    if whole[:1] not in ("{", "["):
        return parts_redacted
    # JSON in arguments of a tool may escape a secret, so that its text does not show it.
    line = whole.encode("utf-8", "surrogatepass")
    redacted = redactor.line(line)
    if redacted == line:
        return parts_redacted
    return [redacted.decode("utf-8", "surrogatepass"), *[""] * (len(parts_redacted) - 1)]


def _texts(value: Any, place: _Place) -> Iterator[tuple[_Place, _Holder, Any]]:
    """Yield each text of an event: its place, and its container."""
    if isinstance(value, dict):
        named = tuple(value[key] for key in _NAMING if isinstance(value.get(key), int | str))
        items: Iterator[tuple[Any, Any]] = iter(value.items())
        place = (*place, named)
    elif isinstance(value, list):
        items = iter(enumerate(value))
    else:
        return
    for key, below in items:
        if isinstance(below, str):
            yield (*place, key), value, key
        else:
            is_numbered = isinstance(below, Mapping) and "index" in below
            yield from _texts(below, place if is_numbered else (*place, key))


def _decoded(value: bytes) -> Any:
    for decode in (msgspec.json.decode, json.loads):
        try:
            return decode(value)
        except (ValueError, RecursionError):
            continue
    return None


def _encoded(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value)
    except (ValueError, UnicodeEncodeError):
        return json.dumps(value, separators=(",", ":")).encode()
