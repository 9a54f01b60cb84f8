"""Coercion: whether a value is another one after a schema was applied (text to number or date).

Values are canonical (`simkit.trace.store.canonical`): objects are tagged with their contents.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from typing import Any

import msgspec

from simkit.core.messages import JsonValue


def lost_in(requested: Mapping[str, JsonValue], args: Mapping[str, JsonValue]) -> Iterator[str]:
    """Yield the requested arguments that are missing in the received ones, under any name."""
    others = [value for name, value in args.items() if name not in requested]
    for name, value in requested.items():
        if name in args:
            if not is_same(value, args[name]):
                yield name
        elif value not in (None, "", [], {}) and not _is_within(value, others):
            yield name


def _is_within(value: JsonValue, options: Collection[JsonValue]) -> bool:
    """Return whether a value is in one of the places, or may be hidden inside an object."""
    for option in options:
        if _is_opaque(option) or is_same(value, option):
            return True
        inner = _plain(option)
        if isinstance(inner, Mapping) and _is_within(value, inner.values()):
            return True
    return False


def _is_opaque(value: JsonValue) -> bool:
    return isinstance(value, Mapping) and "$object" in value and "value" not in value


def _plain(value: JsonValue) -> JsonValue:
    """Return the content of an object: a model's fields, an enumeration's value, a date's text."""
    while isinstance(value, Mapping) and "$object" in value and "value" in value:
        value = value["value"]
    return value


def is_same(requested: JsonValue, received: JsonValue) -> bool:
    """Return whether a value was received, perhaps coerced by a schema."""
    received = _plain(received)
    if requested == received and isinstance(requested, bool) == isinstance(received, bool):
        return True
    if _is_opaque(received) or requested is None:
        return True
    if isinstance(received, Mapping):
        requested = _read(requested)
        if isinstance(requested, Mapping):
            return not [*lost_in(requested, received)]
        return _is_within(requested, received.values())
    if isinstance(received, list):
        requested = _read(requested)
        if not isinstance(requested, list):
            return any(is_same(requested, key) for key in received)
        rest = [*received]
        for key in requested:
            index = next((n for n, other in enumerate(rest) if is_same(key, other)), None)
            if index is None:
                return False
            del rest[index]
        return not rest
    if isinstance(requested, Mapping | list):
        return bool(_read(received) == requested)
    return _plain_value(requested) == _plain_value(received)


def _read(value: JsonValue) -> Any:
    """Return a text parsed as JSON, else the value; JSON that is too deep stays text."""
    if not isinstance(value, str):
        return value
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return value


def _plain_value(value: JsonValue) -> object:
    """Return a scalar as schemas read it: texts may be numbers, booleans or dates."""
    text = str(value).strip()
    if text.lower() in ("true", "yes", "on", "false", "no", "off"):
        return text.lower() in ("true", "yes", "on")
    try:
        return float(text)
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return text
