"""Changes of a channel by a write: compares values, and joins several writes. Pure."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, Final

from simkit.adapters.api import (
    DECLARED_RESET,
    is_equal,
    leading_same,
)
from simkit.adapters.langgraph.messages import (
    are_messages,
    has_messages,
)

_JOINS: Final = {"add": operator.add, "merge": operator.or_, "union": operator.or_}


UNKNOWN: Final = object()


def as_held(update: Any, current: Any) -> Any:
    """Return a given value as the channel holds it, with the graph's messages."""
    return current[: len(update)] if isinstance(update, list) and has_messages(current) else update


def begins_with(value: Any, before: Any) -> bool:
    """Return whether a value equals another, or is a list that continues it."""
    if value is before:
        return True
    if isinstance(value, list) and isinstance(before, Sequence) and len(value) >= len(before):
        return leading_same(_listed(before), value) == len(before) > 0
    return False


def _listed(values: Sequence[Any]) -> list[Any]:
    """Return a sequence as a list: itself if it is one."""
    return values if type(values) is list else [*values]


def is_held(value: Any, current: Any) -> bool:
    """Return whether a node's input equals the recorded value."""
    if value is current:
        return True
    if isinstance(value, list) and isinstance(current, Sequence) and not isinstance(current, str):
        return len(value) == len(current) and (
            leading_same(listed := _listed(current), value) == len(value) or is_equal(listed, value)
        )
    return type(value) is type(current) and is_equal(value, current)


def is_several(update: Any) -> bool:
    """Return whether a node wrote a channel several times in one step."""
    return type(update) is dict and len(update) == 1 and "$writes" in update


def together(reducer: str, writes: Sequence[Any], after: Any) -> Any:
    """Return a node's writes to a channel in one step as one; ``after`` may be unknown."""
    if reducer in _JOINS:
        return reduce(_JOINS[reducer], writes)
    return {DECLARED_RESET: writes[-1] if after is UNKNOWN else after}


def is_override(update: Any, after: Any) -> bool:
    """Return whether a write tells a user's reducer to take its ``value``."""
    if type(update) is list:
        return False
    is_said = isinstance(update, Mapping) and "value" in update and isinstance(after, list)
    return is_said and is_equal(update["value"], after)


def is_unchanged(value: Any, before: Any) -> bool:
    """Return whether a channel has its old value, though it was saved and read again."""
    if isinstance(value, list) and isinstance(before, list):
        return is_equal(_identities(value), _identities(before))
    return is_same(value, before)


def is_same(value: Any, before: Any) -> bool:
    """Return whether a value equals the channel's."""
    if before is None:
        return value is None or (isinstance(value, (list, dict, set)) and not value)
    return value is before or (not has_messages(value) and is_equal(value, before))


def appended(before: Any, update: Any, after: Any) -> tuple[Any, Any]:
    """Return the update to record for a write to a list, and the resulting list.

    If the old items have changed too (a message replaced by its id, or removed), the whole list is
    recorded as a reset. ``after`` is unknown if another node writes the list later in the step.
    """
    is_list = type(before) is list or (before is not None and isinstance(before, Sequence))
    items: list[Any] = []
    if is_list:
        items = before if type(before) is list else [*before]
    if after is UNKNOWN:
        added = [item for write in _writes_in(update) for item in _items_of(write)]
        return added, [*items, *added]
    if type(after) is not list and not isinstance(after, Sequence):
        return {DECLARED_RESET: after}, after
    size = len(items)
    start = leading_same(items, after) if size else 0
    same = start == size or (
        len(after) >= size and is_equal(_identities(items[start:]), _identities(after[start:size]))
    )
    return (list(after[size:]) if same else {DECLARED_RESET: list(after)}), after


def _writes_in(update: Any) -> list[Any]:
    return list(update["$writes"]) if is_several(update) else [update]


def _items_of(update: Any) -> list[Any]:
    if update is None:
        return []
    return list(update) if isinstance(update, (list, tuple)) else [update]


def _identities(items: Sequence[Any]) -> list[Any]:
    """Return the identities of items: of messages, their ids and contents."""
    if all(map(are_messages, set(map(type, items)))):
        return [(item.id, item.content) for item in items]
    return [
        item
        if getattr(item, "content", None) is None
        else (getattr(item, "id", None), item.content)
        for item in items
    ]
