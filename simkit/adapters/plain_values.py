"""Values of a pipeline's own types as plain data, and what of them changed between two looks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, Final

import msgspec

from simkit.messages import JsonValue
from simkit.trace import canonical

DEPTH_MAX: Final = 12
"""Values nested deeper are no state: a graph of objects that may lead back to itself."""
_encode: Final = msgspec.json.Encoder(order="sorted").encode


class NotPlain(Exception):
    """A value holds what is no data: a client, a lock, a function."""


def plain(value: Any, depth: int = 0) -> JsonValue:
    """Returns what a value holds, models and dataclasses as mappings; raises NotPlain."""
    if value is None or type(value) in (bool, int, str):
        return value
    if depth > DEPTH_MAX:
        raise NotPlain
    if isinstance(value, Mapping):
        return {str(key): plain(one, depth + 1) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one, depth + 1) for one in value]
    names = names_of(value)
    if names is not None:
        return {name: plain(getattr(value, name, None), depth + 1) for name in names}
    found = canonical(value)
    if isinstance(found, dict) and set(found) == {"$object"}:
        raise NotPlain
    if isinstance(value, Enum):
        return plain(value.value, depth + 1)
    if isinstance(found, dict) and "value" in found:
        return found["value"]
    return found


def fields_of(thing: Any, otherwise: str) -> Iterator[tuple[str, JsonValue]]:
    """Yields the public fields of an object that hold plain data.

    What has no fields is one itself, by the name ``otherwise``.
    """
    if thing is None:
        return
    held: Mapping[str, Any]
    names = names_of(thing)
    if names is not None:
        held = {name: getattr(thing, name, None) for name in names}
    elif isinstance(thing, Mapping):
        held = {str(key): value for key, value in thing.items()}
    elif hasattr(thing, "__dict__"):
        held = vars(thing)
    else:
        held = {otherwise: thing}
    for name, value in held.items():
        if name.startswith("_"):
            continue
        try:
            yield name, plain(value)
        except NotPlain:
            continue


def names_of(value: Any) -> tuple[str, ...] | None:
    """Returns the fields of a model, a dataclass or a struct; None for anything else."""
    for place in ("model_fields", "__dataclass_fields__", "__struct_fields__"):
        names = getattr(type(value), place, None)
        if names is not None:
            return tuple(names)
    return None


class Snapshots:
    """What objects held when they were last looked at."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, int], tuple[Any, dict[str, bytes]]] = {}
        """By session and identity; the object is kept, so that its identity stays its own."""

    def changes(self, session: str, thing: Any, otherwise: str) -> tuple[dict[str, Any], bool]:
        """Returns the fields with new values, and whether the object is seen for the first time."""
        _, before = self._seen.setdefault((session, id(thing)), (thing, {}))
        is_new = not before
        changed = {}
        for name, value in fields_of(thing, otherwise):
            encoded = _encode(value)
            if before.get(name) != encoded:
                before[name] = encoded
                changed[name] = value
        return changed, is_new
