"""Reducers: pure functions (current, update) → value, and the list that appends without copying."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from operator import itemgetter
from typing import Any, Final, overload

from simkit.core.errors import WriteInvalid
from simkit.core.messages import JsonValue, Message, message_field
from simkit.language.json_schema import equal, is_number, is_object
from simkit.language.paths import as_text

_SPENT_MAX: Final = 64
"""The number of dropped items that a list with ``last`` may keep, beside four times ``last``."""
_COPIED_MAX: Final = 64
"""The number of items up to which an older list is copied instead of shared."""


class Appended(Sequence[Any]):
    """An immutable list that shares its items with the lists that it grew from.

    Lists that grew from each other form a family. Appending to the newest list costs the new items
    only; appending to an older one, as parallel branches do, starts a new family with it. So
    snapshots of a channel after every turn are linear in the turns.
    """

    __slots__ = ("_head", "_hi", "_items", "_lo")

    def __init__(
        self,
        items: list[Any] | None = None,
        lo: int = 0,
        hi: int | None = None,
        head: Appended | None = None,
    ) -> None:
        """Take ownership of ``items``, which come after those of ``head``."""
        self._items = [] if items is None else items
        self._lo = lo
        self._hi = len(self._items) if hi is None else hi
        self._head = head

    def extended(self, more: Sequence[Any], last: int = 0) -> Appended:
        """Return this list with ``more`` appended, cut to its ``last`` items if given."""
        items, size = self._items, len(self._items)
        if self._hi == size and not last:
            items += more
            return Appended(items, self._lo, len(items), self._head)
        head = self._head
        if self._hi != size or (last and head is not None):
            if not last and len(self) > _COPIED_MAX and (head is None or head._head is None):
                return Appended(list(more), head=self)
            items, head = list(self), None
            lo, size = 0, len(items)
        else:
            lo = self._lo
        items += more
        size = len(items)
        if last and size - lo > last:
            lo = size - last
            if lo > _SPENT_MAX + 4 * last:
                return Appended(items[lo:])
        return Appended(items, lo, size, head)

    @property
    def family(self) -> int:
        """Return the family: equal for two lists if the longer begins with the shorter.

        This holds for lists that keep all items.
        """
        return id(self._items)

    @property
    def start(self) -> int:
        """Return the index of the first item within the family."""
        return self._lo

    def continues(self, older: Any) -> bool:
        """Return whether this list is the older one with items appended."""
        return type(older) is Appended and older._items is self._items and older._lo == self._lo

    def __len__(self) -> int:
        size = self._hi - self._lo
        return size if self._head is None else size + len(self._head)

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        head, size = self._head, len(self)
        before = 0 if head is None else len(head)
        if isinstance(index, slice):
            start, stop, step = index.indices(size)
            if step != 1:
                return [self[position] for position in range(start, stop, step)]
            lo = self._lo - before
            own = self._items[lo + max(start, before) : lo + max(stop, before)]
            return [*head[start:stop], *own] if head is not None and start < before else own
        if index < 0:
            index += size
        if not 0 <= index < size:
            raise IndexError(index)
        if head is not None and index < before:
            return head[index]
        return self._items[self._lo + index - before]

    def __iter__(self) -> Iterator[Any]:
        if self._head is not None:
            yield from self._head
        items = self._items
        for index in range(self._lo, self._hi):
            yield items[index]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Appended):
            return list(self) == list(other)
        if isinstance(other, list):
            return list(self) == other
        return NotImplemented

    def __repr__(self) -> str:
        return repr(list(self))


class Keyed(Mapping[str, Any]):
    """An immutable mapping that shares its values with the mappings that it grew from.

    As with `Appended`, extending the newest mapping of a family costs its new values only.
    """

    __slots__ = ("_histories", "_size", "_version", "_versions")

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._histories = {key: [(0, value)] for key, value in values.items()}
        """Key to its values in the family, each with the version from which on it holds."""
        self._versions = [0]
        """The family's newest version."""
        self._version, self._size = 0, len(values)

    def extended(self, more: Mapping[str, Any]) -> Keyed:
        """Return this mapping with new keys, or other values of its own."""
        if self._versions[0] != self._version:
            return Keyed({**self, **more})
        version = self._version + 1
        for key, value in more.items():
            self._histories.setdefault(key, []).append((version, value))
        self._versions[0] = version
        new = Keyed.__new__(Keyed)
        new._histories, new._versions, new._version = self._histories, self._versions, version
        new._size = len(self._histories)
        return new

    def __getitem__(self, key: str) -> Any:
        history = self._histories[key]
        count = len(history)
        if history[-1][0] > self._version:
            count = bisect_right(history, self._version, key=itemgetter(0))
            if not count:
                raise KeyError(key)
        return history[count - 1][1]

    def __iter__(self) -> Iterator[str]:
        return iter([*islice(self._histories, self._size)])

    def __len__(self) -> int:
        return self._size

    def __repr__(self) -> str:
        return repr(dict(self))


Reducer = Callable[[Any, Any], Any]

DECLARED_RESET: Final = "$set"


def is_reset(update: JsonValue) -> bool:
    """Return whether an update is ``{$set: value}``, which replaces the value with any reducer."""
    return type(update) is dict and len(update) == 1 and DECLARED_RESET in update


def replace(_current: Any, update: Any) -> Any:
    """Return the update."""
    return update


def append(current: Any, update: Any, last: int = 0) -> Any:
    """Return the list with the update appended: a list extends it, null is skipped."""
    if update is None:
        return current
    is_list = type(update) is list or isinstance(update, (list, tuple, Appended))
    more = update if is_list else [update]
    if type(current) is not Appended:
        current = Appended([] if current is None else list(current))
    return current.extended(more, last)


def merge(current: Any, update: Any) -> Any:
    """Return the mapping with the update's keys."""
    return current if update is None else {**(current or {}), **update}


def merge_deep(current: Any, update: Any) -> Any:
    """Return the mapping with the update merged in, mapping by mapping."""
    if update is None:
        return current
    merged = dict(current or {})
    for key, value in update.items():
        old = merged.get(key)
        both = isinstance(old, Mapping) and isinstance(value, Mapping)
        merged[key] = merge_deep(old, value) if both else value
    return merged


def add(current: Any, update: Any) -> Any:
    """Return the sum."""
    return current if update is None else (current or 0) + update


def union(current: Any, update: Any) -> Any:
    """Return the list with the items of the update that it does not contain yet."""
    if update is None:
        return current
    items = _items_of(current)
    for item in _items_of(update):
        # Python finds True in [1]; if Python finds nothing, there is nothing.
        if item not in items or not any(equal(item, known_item) for known_item in items):
            items.append(item)
    return items


def by_id(current: Any, update: Any) -> Any:
    """Return the list with the update's items in place of those with their ``id``, or appended."""
    if update is None:
        return current
    items = _items_of(current)
    places = {_id_of(item): index for index, item in enumerate(items)}
    for item in _items_of(update):
        identity = _id_of(item)
        if identity is not None and identity in places:
            items[places[identity]] = item
        else:
            places[identity] = len(items)
            items.append(item)
    return items


def _items_of(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple, Appended)) else [value]


def _id_of(item: Any) -> Any:
    """Return an item's id, such that ``true`` is not ``1``; None if it has none."""
    if isinstance(item, Message):
        return message_field(item, "id") or None
    identity = item.get("id") if isinstance(item, Mapping) else None
    if identity is None or isinstance(identity, str):
        return identity
    return (identity,) if is_number(identity) else (as_text(identity), type(identity).__name__)


BUILT_IN: Final[Mapping[str, Reducer]] = {
    "replace": replace,
    "append": append,
    "merge": merge,
    "merge_deep": merge_deep,
    "add": add,
    "union": union,
    "by_id": by_id,
}

_EMPTY: Final[Mapping[str, Callable[[], Any]]] = {
    "replace": type(None),
    "append": Appended,
    "merge": dict,
    "merge_deep": dict,
    "add": int,
    "union": list,
    "by_id": list,
}


def initial(reducer: str, default: JsonValue) -> Callable[[], Any]:
    """Return a function that makes the initial value of a channel."""
    make = _EMPTY.get(reducer) if default is None else None
    return make or partial(empty_value, reducer, default)


def empty_value(reducer: str, default: JsonValue) -> Any:
    """Return the initial value of a channel: its default, else its reducer's empty value."""
    if default is not None:
        if reducer == "append":
            return Appended(_items_of(default))
        return _items_of(default) if reducer in ("union", "by_id") else default
    make = _EMPTY.get(reducer)
    return make() if make else None


def changes_nothing(reducer: str, update: Any) -> bool:
    """Return whether a built-in reducer joins this update without a change to any value."""
    make = None if reducer == "replace" else _EMPTY.get(reducer)
    return make is not None and (update is None or update == make())


def problem_of(reducer: str, update: JsonValue, current: JsonValue = None) -> str:
    """Return why a built-in reducer cannot join this update with the value; empty if it can."""
    particular = _PARTICULAR.get(reducer)
    if particular is None or update is None or is_reset(update):
        return ""
    noun, fits = particular
    named = reducer.partition("_")[0]
    if not fits(update):
        return f"reducer `{named}` takes {noun}, not {_update_text(update)}"
    if current is not None and not fits(current):
        value = _update_text(current)
        return f"reducer `{named}` joins {noun} to another, but the channel holds {value}"
    return ""


def _update_text(update: JsonValue) -> str:
    if isinstance(update, Message):
        return f"the message {update.content!r}"
    if isinstance(update, (list, tuple, Appended)):
        return f"a list of {len(update)}"
    return repr(update)


_PARTICULAR: Final[Mapping[str, tuple[str, Callable[[Any], bool]]]] = {
    "add": ("a number", is_number),
    "merge": ("a mapping", is_object),
    "merge_deep": ("a mapping", is_object),
}
"""Reducers that do not accept every value, with the values that they accept."""


def reducer_of(name: str, last: int = 0) -> Reducer:
    """Return a built-in reducer that also applies the declared reset ``{$set: value}``."""
    built_in: Reducer = partial(append, last=last) if name == "append" else BUILT_IN[name]

    def reduced(current: Any, update: Any) -> Any:
        if is_reset(update):
            return empty_value(name, update[DECLARED_RESET])
        return built_in(current, update)

    return reduced


def channel_reducer(channel: str, reducer: str, last: int = 0) -> Reducer:
    """Return a channel's built-in reducer; it raises WriteInvalid for what it cannot join."""
    reduce = reducer_of(reducer, last)
    if reducer not in _PARTICULAR:
        return reduce

    def checked(current: Any, update: Any) -> Any:
        problem = problem_of(reducer, update, current)
        if problem:
            raise WriteInvalid(f"channel `{channel}`: {problem}")
        return reduce(current, update)

    return checked
