"""Whether a value is what a schema makes of another: texts become numbers, dates, objects. Pure.

Values are canonical (`simkit.trace.store.canonical`): objects are tagged with what they hold.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from typing import Any

import msgspec

from simkit.core.messages import JsonValue


def lost_in(requested: Mapping[str, JsonValue], args: Mapping[str, JsonValue]) -> Iterator[str]:
    """Yield the arguments that were said and did not arrive, under their name or any other."""
    others = [value for name, value in args.items() if name not in requested]
    for name, value in requested.items():
        if name in args:
            if not is_same(value, args[name]):
                yield name
        elif value not in (None, "", [], {}) and not _is_within(value, others):
            yield name


def _is_within(value: JsonValue, places: Collection[JsonValue]) -> bool:
    """Return whether a value stands somewhere, or may: inside an object nobody can look."""
    for place in places:
        if _is_opaque(place) or is_same(value, place):
            return True
        inner = _plain(place)
        if isinstance(inner, Mapping) and _is_within(value, inner.values()):
            return True
    return False


def _is_opaque(value: JsonValue) -> bool:
    return isinstance(value, Mapping) and "$object" in value and "value" not in value


def _plain(value: JsonValue) -> JsonValue:
    """Return what an object holds: a model's fields, an enumeration's value, a date's text."""
    while isinstance(value, Mapping) and "$object" in value and "value" in value:
        value = value["value"]
    return value


def is_same(requested: JsonValue, received: JsonValue) -> bool:
    """Return whether a value arrived, be it as what a schema makes of it."""
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
            place = next((n for n, other in enumerate(rest) if is_same(key, other)), None)
            if place is None:
                return False
            del rest[place]
        return not rest
    if isinstance(requested, Mapping | list):
        return bool(_read(received) == requested)
    return _plain_value(requested) == _plain_value(received)


def _read(value: JsonValue) -> Any:
    """Return the JSON that a text is, else the value; too deep is no JSON."""
    if not isinstance(value, str):
        return value
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return value


def _plain_value(value: JsonValue) -> object:
    """Return a scalar as schemas read it: numbers, truth and dates that are texts too."""
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
