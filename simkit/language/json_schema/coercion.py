"""Whether a value is what a schema makes of another: texts become numbers, dates, objects. Pure.

Values are canonical (`simkit.trace.store.canonical`): objects are tagged with what they hold.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from typing import Any

import msgspec

from simkit.core.messages import JsonValue


def lost_in(asked: Mapping[str, JsonValue], args: Mapping[str, JsonValue]) -> Iterator[str]:
    """Yields the arguments that were said and did not arrive, under their name or any other."""
    others = [value for name, value in args.items() if name not in asked]
    for name, value in asked.items():
        if name in args:
            if not is_same(value, args[name]):
                yield name
        elif value not in (None, "", [], {}) and not _is_within(value, others):
            yield name


def _is_within(value: JsonValue, places: Collection[JsonValue]) -> bool:
    """Whether a value stands somewhere, or may: inside an object nobody can look."""
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
    """Returns what an object holds: a model's fields, an enumeration's value, a date's text."""
    while isinstance(value, Mapping) and "$object" in value and "value" in value:
        value = value["value"]
    return value


def is_same(said: JsonValue, came: JsonValue) -> bool:
    """Whether a value arrived, be it as what a schema makes of it."""
    came = _plain(came)
    if said == came and isinstance(said, bool) == isinstance(came, bool):
        return True
    if _is_opaque(came) or said is None:
        return True
    if isinstance(came, Mapping):
        said = _read(said)
        if isinstance(said, Mapping):
            return not [*lost_in(said, came)]
        return _is_within(said, came.values())
    if isinstance(came, list):
        said = _read(said)
        if not isinstance(said, list):
            return any(is_same(said, one) for one in came)
        rest = [*came]
        for one in said:
            place = next((n for n, other in enumerate(rest) if is_same(one, other)), None)
            if place is None:
                return False
            del rest[place]
        return not rest
    if isinstance(said, Mapping | list):
        return bool(_read(came) == said)
    return _spoken(said) == _spoken(came)


def _read(value: JsonValue) -> Any:
    """Returns the JSON that a text is, else the value; too deep is no JSON."""
    if not isinstance(value, str):
        return value
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return value


def _spoken(value: JsonValue) -> object:
    """Returns a scalar as schemas read it: numbers, truth and dates that are texts too."""
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
