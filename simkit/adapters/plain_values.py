"""Plain values: a pipeline's own types as plain data, and their changes between two calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, Final

import msgspec

from simkit.core.messages import JsonValue
from simkit.trace.changes import NOTHING, NextValue, Reader
from simkit.trace.store import canonical

DEPTH_MAX: Final = 12
"""Values nested deeper are no state: a graph of objects, which may be circular."""
_FIELDS: Final = (
    "__pydantic_fields__",
    "model_fields",
    "__dataclass_fields__",
    "__struct_fields__",
)
"""Attributes with a type's fields; Pydantic from 2.10 on has two, one of them fast."""
_encode: Final = msgspec.json.Encoder(order="sorted").encode


class NotPlain(Exception):
    """A value contains something that is no data: a client, a lock, a function."""


def plain(value: Any, depth: int = 0) -> JsonValue:
    """Return a value as plain data, models and dataclasses as mappings; raise NotPlain."""
    if value is None or type(value) in (bool, int, str):
        return value
    if depth > DEPTH_MAX:
        raise NotPlain
    if isinstance(value, Mapping):
        return {str(key): plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item, depth + 1) for item in value]
    if (fields := _declared(value)) is not None:
        return {name: plain(item, depth + 1) for name, item in fields.items()}
    plain_value = canonical(value)
    if isinstance(plain_value, dict) and set(plain_value) == {"$object"}:
        raise NotPlain
    if isinstance(value, Enum):
        return plain(value.value, depth + 1)
    if isinstance(plain_value, dict) and "value" in plain_value:
        return plain_value["value"]
    return plain_value


def is_equal(value: Any, other: Any) -> bool:
    """Return whether a pipeline's values are equal; values that cannot be compared are not.

    Arrays and tables compare their elements, and have no single truth value.
    """
    try:
        return value is other or bool(value == other)
    except Exception:
        return False


def fields_of(thing: Any, otherwise: str) -> Iterator[tuple[str, JsonValue]]:
    """Yield the public fields of an object that hold plain data.

    An object without fields is one field with the name ``otherwise``.
    """
    for name, value in _held_by(thing, otherwise):
        try:
            yield name, plain(value)
        except NotPlain:
            continue


def _held_by(thing: Any, otherwise: str) -> Iterator[tuple[str, Any]]:
    """Yield the public fields of an object as they are."""
    if thing is None:
        return
    fields = _declared(thing)
    if fields is None and isinstance(thing, Mapping):
        fields = {str(key): value for key, value in thing.items()}
    elif fields is None:
        fields = vars(thing) if hasattr(thing, "__dict__") else {otherwise: thing}
    for name, value in fields.items():
        if not name.startswith("_"):
            yield name, value


def names_of(value: Any) -> tuple[str, ...] | None:
    """Return the fields of a model, a dataclass or a struct; None for anything else."""
    for attribute in _FIELDS:
        names = getattr(type(value), attribute, None)
        if names is not None:
            return tuple(names)
    return None


def _declared(value: Any) -> Mapping[str, Any] | None:
    """Return the fields of a model, a dataclass or a struct; None for anything else."""
    names = names_of(value)
    return {name: getattr(value, name, None) for name in names} if names is not None else None


def _mark(value: Any) -> bytes:
    """Return bytes that differ if plain data does, much cheaper than the data itself.

    They are empty for values without a mark. Only these pairs share a mark: a time without a zone
    and its ISO text, an instant in two zones, a set and the list of its items.
    """
    try:
        return _pack(value)
    except Exception:
        return b""  # Any problem with it shows when it is converted.


def _parts_of(value: Any) -> Any:
    """Return the content of an object that msgspec cannot look into; raise NotPlain."""
    names = names_of(value)
    if names is None:
        return plain(value)
    fields = getattr(value, "__dict__", {})
    if tuple(fields) == names:
        return fields
    return {name: getattr(value, name, None) for name in names}


_pack: Final = msgspec.msgpack.Encoder(enc_hook=_parts_of).encode


def _mapping(value: Any) -> Mapping[str, Any] | None:
    """Return a mapping with texts as keys, or an object's fields; None for anything else."""
    fields = _declared(value)
    if fields is None and isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return value
    return fields


_READER: Final = Reader(plain, _mark, _mapping, _encode)


class _Field(msgspec.Struct, frozen=True):
    """The last value of a field."""

    mark: bytes
    order: bytes
    """The same for a value whose items are in the order of its plain data; else empty."""
    value: JsonValue
    """The value as plain data."""


class Snapshots:
    """The last values of objects.

    A pipeline may change anything in place, so each look marks all values of an object; only those
    with another mark are converted.
    """

    def __init__(self) -> None:
        self._snapshots: dict[tuple[str, int], tuple[Any, dict[str, _Field]]] = {}
        """Values by session and identity; the object is kept, so that no other gets its id."""

    def changes(self, session: str, thing: Any, otherwise: str) -> tuple[dict[str, Any], bool]:
        """Return the fields with new values, and whether the object is new.

        Of a large value that comes from the one before, a field has the `NextValue`, which
        `TraceRecorder.wrote` takes. Values share their items with earlier results: the caller must
        not change them.
        """
        _, before = self._snapshots.setdefault((session, id(thing)), (thing, {}))
        is_new = not before
        changed: dict[str, Any] = {}
        for name, value in _held_by(thing, otherwise):
            earlier, mark = before.get(name), _mark(value)
            if earlier is not None and mark and mark == earlier.mark:
                continue
            try:
                if earlier is None:
                    now = change = plain(value)
                else:
                    now, change = _READER.compare(earlier.value, earlier.order, value, mark)
            except NotPlain:
                continue
            if earlier is None:
                changed[name] = now
            elif change in NOTHING or (change is now and _encode(earlier.value) == _encode(now)):
                now = earlier.value  # Another form of the same data.
            else:
                changed[name] = now if change is now else NextValue(now, change, earlier.value)
            is_ordered = isinstance(value, (list, tuple, dict))
            before[name] = _Field(mark, mark if is_ordered else b"", now)
        return changed, is_new


def plain_or_text(value: Any) -> JsonValue:
    """Return a value as plain data, or else as a text."""
    try:
        return plain(value)
    except NotPlain:
        return str(value)
