"""Changes: how a large value comes from the value before it, so that growth is written once.

A channel that each update replaces as a whole would write all of a growing list again and again.
Where it is shorter, its update says how the value comes from the one in the channel's last update:

    {"$more": [item, …]}                      a list with more items, or a text with more letters
    {"$with": {"notes": {"$more": [item]}}}   a mapping with new or other values under these keys

``$with`` also stands for a list, with its places as keys (``"7"``), where old items change. Values
in ``$with`` are changes or whole values. A change refers to the last update of the same session,
state and channel: a reader that takes the updates in order has all values (`apply_change`).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from simkit.core.errors import TraceError
from simkit.core.messages import JsonValue
from simkit.language.json_schema import is_array, is_object
from simkit.trace.events import ChannelFacts, StateUpdated
from simkit.trace.reducers import BUILT_IN, DECLARED_RESET, Appended, Keyed, is_reset
from simkit.trace.store import MORE, WITH, is_reference

UPDATE: Final = "update"
VALUES: Final = "values"
"""The fields of an event that may hold changes."""
WHOLE_MAX: Final = 256
"""The bytes, in MessagePack, up to which a value is written whole."""


class Addition(msgspec.Struct, frozen=True, gc=False):
    """Items, or letters, at the end of a list or a text."""

    items: list[JsonValue] | str


class Revision(msgspec.Struct, frozen=True, gc=False):
    """New or other values in a mapping, by key, or in a list, by place."""

    parts: Mapping[str, Any]


Change: TypeAlias = Addition | Revision
NOTHING: Final = (Addition([]), Addition(""), Revision({}))
"""Changes that leave a value as it is."""


class NextValue(msgspec.Struct, frozen=True, gc=False):
    """A value, and how it comes from the value before it."""

    value: JsonValue
    change: Change
    before: JsonValue
    """The value from which it comes: this very object must be the one written last."""


class Reader(msgspec.Struct, frozen=True):
    """How values are read that may not be plain data yet."""

    plain: Callable[[Any, int], JsonValue]
    """Returns a value at a depth as plain data."""
    mark: Callable[[Any], bytes]
    """Returns a value in MessagePack, or nothing if that is not possible."""
    mapping: Callable[[Any], Mapping[str, Any] | None]
    """Returns a mapping, or an object's fields; None for anything else."""
    encode: Callable[[JsonValue], bytes]
    """Returns bytes that are equal exactly for equal data."""

    def compare(
        self, old: JsonValue, was: bytes, value: Any, mark: bytes, depth: int = 0
    ) -> tuple[JsonValue, Any]:
        """Return a value as plain data, and the change from ``old`` if that is much shorter.

        Otherwise both are the value. ``was`` and ``mark`` are the marks of both values.
        """
        now, change = self._compare(old, was, value, mark, depth)
        return now, shorter(now, change, len(mark))

    def _compare(
        self, old: JsonValue, was: bytes, value: Any, mark: bytes, depth: int
    ) -> tuple[JsonValue, Change | None]:
        if type(old) is str and type(value) is str and value.startswith(old):
            return value, Addition(value[len(old) :])
        if type(old) is list and isinstance(value, (list, tuple)) and len(value) >= len(old):
            return self._compare_lists(old, was, value, mark, depth)
        if type(old) is dict:
            mapping = self.mapping(value)
            names = [*mapping] if mapping is not None else []
            is_atom = mapping is None or is_reference(old) or is_reference(mapping)
            if mapping is not None and not is_atom and names[: len(old)] == [*old]:
                return self._compare_mappings(old, was, mapping, mark, depth, names[len(old) :])
        return self.plain(value, depth), None

    def _compare_lists(
        self, old: list[JsonValue], was: bytes, value: Sequence[Any], mark: bytes, depth: int
    ) -> tuple[JsonValue, Change]:
        """Compare lists of which the second is at least as long as the first."""
        size = len(old)
        parts: dict[int, Any] = {}
        if not _continues(mark, len(value), was, size):
            parts = self._parts(enumerate(old), value, depth)
        items = [parts[index][0] if index in parts else item for index, item in enumerate(old)]
        more = [self.plain(item, depth + 1) for item in value[size:]]
        if not parts:
            return [*items, *more], Addition(more)
        revisions = {str(index): change for index, (_, change) in parts.items()}
        additions = {str(index): item for index, item in enumerate(more, size)}
        return [*items, *more], Revision({**revisions, **additions})

    def _compare_mappings(
        self,
        old: dict[str, JsonValue],
        was: bytes,
        value: Mapping[str, Any],
        mark: bytes,
        depth: int,
        names: list[str],
    ) -> tuple[JsonValue, Change]:
        """Compare mappings of which the second has the keys of the first, and then ``names``."""
        parts: dict[str, Any] = {}
        if type(value) is not dict or not _continues(mark, len(value), was, len(old)):
            parts = self._parts(old.items(), value, depth)
        additions = {name: self.plain(value[name], depth + 1) for name in names}
        revisions = {name: change for name, (_, change) in parts.items()}
        now = {**old, **{name: part for name, (part, _) in parts.items()}, **additions}
        return now, Revision({**revisions, **additions})

    def _parts(self, old: Any, value: Any, depth: int) -> dict[Any, tuple[JsonValue, Any]]:
        """Return the parts that differ from the ``old`` ones, each with its change."""
        parts = {}
        for key, before in old:
            was, mark = self.mark(before), self.mark(value[key])
            if mark and mark == was:
                continue
            now, change = self.compare(before, was, value[key], mark, depth + 1)
            if self.encode(now) != self.encode(before):
                parts[key] = now, change
        return parts


def _continues(mark: bytes, size: int, was: bytes, old_size: int) -> bool:
    """Return whether a list or mapping begins with an older one, by their marks."""
    return bool(was) and mark.startswith(was[head_of(old_size) :], head_of(size))


def shorter(value: JsonValue, change: Change | None, size: int) -> Any:
    """Return a change if it is much shorter than its value of ``size`` bytes, else the value."""
    is_large = change is not None and size > WHOLE_MAX
    return change if is_large and 2 * len(_encode(change)) <= size else value


def head_of(size: int) -> int:
    """Return the bytes before the first item of a list or mapping of this size in MessagePack."""
    return 1 if size < 1 << 4 else 3 if size < 1 << 16 else 5


_encode: Final = msgspec.json.Encoder().encode
_pack: Final = msgspec.msgpack.Encoder().encode


def _mark(value: JsonValue) -> bytes:
    try:
        return _pack(value)
    except (TypeError, ValueError, OverflowError):
        return b""  # MessagePack has no numbers of more than 64 bits.


def _mapping(value: JsonValue) -> Mapping[str, JsonValue] | None:
    return value if type(value) is dict else None


_PLAIN: Final = Reader(lambda value, depth: value, _mark, _mapping, _encode)
"""Reads what is plain data."""


class _Last(msgspec.Struct, frozen=True):
    source: Any
    """The value as it was given."""
    raw: JsonValue
    """The value as it is written; None if only a change of it was."""
    mark: bytes


def partial_channels(channels: Mapping[str, ChannelFacts]) -> frozenset[str]:
    """Return the channels of which an update is only what joins their value."""
    joins = BUILT_IN.keys() - {"replace"}
    return frozenset(name for name, channel in channels.items() if channel.reducer in joins)


class LastValues:
    """The values that updates wrote last, from which the next ones come."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, ...], _Last] = {}

    def shorten_all(
        self,
        session: str,
        state: str,
        update: Mapping[str, Any],
        values: Mapping[str, Any] | None,
        partial_channels: Container[str],
        plain: Callable[[Any], JsonValue],
    ) -> tuple[dict[str, JsonValue], dict[str, JsonValue] | None]:
        """Return the updates and new values of channels as they are written.

        Updates of channels in ``partial_channels`` are parts already, but for resets.
        """
        new_update = {}
        for name in update:
            value, key = update[name], (session, state, UPDATE, name)
            if name in partial_channels and (type(value) is list or not is_reset(value)):
                if key in self._last:
                    del self._last[key]
                new_update[name] = plain(value)
            else:
                new_update[name] = self.shorten(key, value, plain)
        if not values:
            return new_update, None
        places = {name: (session, state, VALUES, name) for name in values}
        return new_update, {
            name: self.shorten(places[name], values[name], plain) for name in values
        }

    def shorten(
        self, path: tuple[str, ...], value: Any, plain: Callable[[Any], JsonValue]
    ) -> JsonValue:
        """Return how a value is written after the last one at its place.

        ``plain`` returns a value in the form of the trace.
        """
        if is_reset(value):
            return {DECLARED_RESET: self.shorten(path, value[DECLARED_RESET], plain)}
        last = self._last.pop(path, None)
        if type(value) is NextValue:
            self._last[path] = _Last(value.value, None, b"")
            is_next = last is not None and last.source is value.before
            return _as_recorded(value.change if is_next else value.value, plain)
        raw = plain(value)
        if type(raw) not in (list, dict, str):
            return raw
        mark = _mark(raw)
        self._last[path] = _Last(value, raw, mark)
        if last is None or last.raw is None or len(mark) <= WHOLE_MAX:
            return raw
        return _as_recorded(_PLAIN.compare(last.raw, last.mark, raw, mark)[1], lambda part: part)


def _as_recorded(change: Any, plain: Callable[[Any], JsonValue]) -> JsonValue:
    """Return a change, or a value, as it is written."""
    if type(change) is Addition:
        return {MORE: plain(change.items)}
    if type(change) is Revision:
        return {WITH: {key: _as_recorded(part, plain) for key, part in change.parts.items()}}
    return plain(change)


def is_change(raw: JsonValue) -> bool:
    """Return whether an update says how its value comes from the one before it."""
    if is_reset(raw):
        raw = raw[DECLARED_RESET]
    return type(raw) is dict and len(raw) == 1 and (MORE in raw or WITH in raw)


def has_changes(event: StateUpdated) -> bool:
    """Return whether an event has changes in place of whole values."""
    parts = (event.update, event.values or {})
    return any(is_change(raw) for raws in parts for raw in raws.values())


def new_parts(raw: Any, value: Any) -> Any:
    """Return what an update adds to the value before it; ``value`` is its whole value.

    Of a text that became longer, that is the whole text.
    """
    if not is_change(raw):
        return value
    if is_reset(raw):
        return new_parts(raw[DECLARED_RESET], value[DECLARED_RESET])
    if MORE in raw:
        return value if isinstance(value, str) else value[len(value) - len(raw[MORE]) :]
    parts = raw[WITH].items()
    if is_object(value):
        return {key: new_parts(part, value[key]) for key, part in parts}
    return [new_parts(part, value[int(key)]) for key, part in parts]


def apply_change(before: Any, raw: Any, resolved: Callable[[JsonValue], Any]) -> Any:
    """Return the value that a change, or a whole value, makes of the one before it.

    It shares its parts with that value, which stays as it is. ``resolved`` returns a whole value.
    Raise TraceError if no such value came before.
    """
    if not is_change(raw) or is_reset(raw):
        return resolved(raw)
    if WITH in raw:
        return _apply_parts(before, raw[WITH], resolved)
    more: Any = resolved(raw[MORE])
    if isinstance(before, str) and isinstance(more, str):
        return before + more
    if not is_array(before) or not is_array(more):
        raise _missing_base(raw)
    return (before if type(before) is Appended else Appended([*before])).extended(more)


def _apply_parts(before: Any, parts: Any, resolved: Callable[[JsonValue], Any]) -> Any:
    if is_object(before):
        new = {key: apply_change(before.get(key), part, resolved) for key, part in parts.items()}
        return (before if type(before) is Keyed else Keyed(before)).extended(new)
    if not is_array(before):
        raise _missing_base(parts)
    items = [*before]
    for key, part in parts.items():
        index = int(key)
        items[index : index + 1] = [apply_change(next(iter(items[index:]), None), part, resolved)]
    return Appended(items)


def _missing_base(change: JsonValue) -> TraceError:
    return TraceError(f"no earlier event of the trace wrote the value that {change!r} changes")
