"""LangChain's messages as simkit's, a graph's state as plain data, and changes of a channel."""

from __future__ import annotations

import operator
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, reduce
from operator import attrgetter, itemgetter
from typing import Any, Final

from langchain_core.messages import BaseMessage, RemoveMessage

from simkit.adapters.api import (
    DECLARED_RESET,
    ROLE_ALIASES,
    GrowingLists,
    Message,
    ToolCall,
    copy_plain,
    is_equal,
    leading_equal,
    leading_same,
    names_of,
)
from simkit.adapters.langgraph.graphs import told_write

REMOVED: Final = "a message is removed"
"""Placeholder for LangGraph's order to remove a message; the state shows the result."""

_CONTENT, _NAME, _CALLS = map(itemgetter, ("content", "name", "tool_calls"))
_FIELDS: Final = attrgetter("__dict__")
_TEXTS: Final = {str}
_NOTHING: Final[list[Any]] = []
"""The value in place of missing parts and missing calls of messages."""


def as_message(message: BaseMessage) -> Message:
    """Return a simkit message; its text is what a provider would get."""
    if message.type == "tool":
        return Message(
            "tool", text_of(message), call_id=message.tool_call_id or "", tool=message.name or ""
        )
    # Access to a missing attribute of LangChain's messages is slow.
    fields = message.__dict__
    kind = message.type
    if kind in ROLE_ALIASES:
        role = ROLE_ALIASES[kind]
    else:
        role = ROLE_ALIASES.get(fields.get("role", ""), "user")
    tool_calls = fields.get("tool_calls")
    calls = tuple(map(_as_call, tool_calls)) if tool_calls else ()
    content = message.content
    text = content if type(content) is str else text_of(message)
    return Message(role, text, calls=calls, agent=message.name if role == "assistant" else None)


def _as_call(call: Mapping[str, Any]) -> ToolCall:
    return ToolCall(call["id"] or "", call["name"], copy_plain(call["args"]))


class _Live(dict[str, Any]):
    """A message's fields that change whenever the message does."""

    def __init__(self, message: BaseMessage) -> None:
        super().__init__(message.__dict__)
        self._message = message

    def __getitem__(self, name: str) -> Any:
        return self._message.__dict__[name]


def _held_by(messages: Sequence[BaseMessage]) -> list[dict[str, Any]]:
    """Return the fields of each message, now and later."""
    kinds: set[Any] = set(map(type, messages))
    for kind in kinds:
        if _checks_what_it_is_given(kind):
            renewing = {*filter(_checks_what_it_is_given, kinds)}
            return [
                _Live(message) if type(message) in renewing else message.__dict__
                for message in messages
            ]
    return [*map(_FIELDS, messages)]


@lru_cache(maxsize=64)
def _checks_what_it_is_given(kind: type[BaseMessage]) -> bool:
    return bool(kind.model_config.get("validate_assignment"))


class _Batch:
    """Converted messages, and their contents at that time."""

    __slots__ = (
        "_calling_fields",
        "_calls",
        "_contents",
        "_fields",
        "_names",
        "_places",
        "items",
        "ours",
        "words",
    )

    def __init__(self) -> None:
        self.items: list[BaseMessage] = []
        self.words: object = None
        self._fields: list[dict[str, Any]] = []
        """The fields of each message, which live as long as it, so that comparing all runs at C
        speed."""
        self._contents: list[Any] = []
        self._names: list[Any] = []
        self._places: list[int] = []
        """Indices of messages that can call tools,"""
        self._calling_fields: list[dict[str, Any]] = []
        """their fields,"""
        self._calls: list[Any] = []
        """and their tool calls. These and the contents are copies."""
        self.ours: list[Message] = []

    def unchanged(self, size: int) -> int:
        """Return the number of the first ``size`` messages with unchanged contents."""
        # To cut a list takes as long as to compare it.
        is_whole = size == len(self.items)
        fields = self._fields if is_whole else self._fields[:size]
        calling = bisect_left(self._places, size)
        if (
            (self._contents if is_whole else self._contents[:size]) == [*map(_CONTENT, fields)]
            and (self._names if is_whole else self._names[:size]) == [*map(_NAME, fields)]
            and self._calls[:calling] == [*map(_CALLS, self._calling_fields[:calling])]
        ):
            return size
        size = leading_equal(self._contents[:size], [*map(_CONTENT, fields)])
        size = leading_equal(self._names[:size], [*map(_NAME, fields[:size])])
        calling = bisect_left(self._places, size)
        equal = leading_equal(self._calls[:calling], [*map(_CALLS, self._calling_fields[:calling])])
        return size if equal == calling else self._places[equal]

    def go_on(self, messages: list[BaseMessage], size: int) -> None:
        """Use the current list, whose first ``size`` messages are the same."""
        if size == len(messages) == len(self.items):
            return
        same = self._made_again(messages, size) if len(self.items) > size else size
        new = messages[size:]
        fields = _held_by(new)
        calling = [place for place, field_map in enumerate(fields) if "tool_calls" in field_map]
        self.items[size:], self._fields[size:] = new, fields
        # A checkpointer makes all messages again: most contents are texts, and nearly all have
        # no calls, which is not worth a function.
        contents = [*map(_CONTENT, fields)]
        if {*map(type, contents)} != _TEXTS:
            contents = [*map(_frozen, contents)]
        self._contents[size:] = contents
        self._names[size:] = map(_NAME, fields)
        known = bisect_left(self._places, size)
        del self._places[known:], self._calling_fields[known:], self._calls[known:]
        for place in calling:
            calls = fields[place]["tool_calls"]
            self._places.append(size + place)
            self._calling_fields.append(fields[place])
            self._calls.append(_frozen(calls) if calls else _NOTHING)
        self.ours[same:] = map(as_message, messages[same:])

    def _made_again(self, messages: list[BaseMessage], size: int) -> int:
        """Return the number of first messages that say the same, though they are other objects.

        A checkpointer makes all messages of a session again in each turn.
        """
        if size >= len(messages) or _looks(messages[size : size + 1]) != _looks(
            self.items[size : size + 1]
        ):
            return size
        before = _looks(self.items[size : self.unchanged(len(self.items))])
        return size + leading_equal(before, _looks(messages[size : size + len(before)]))

    def take(self, other: _Batch, size: int) -> None:
        """Copy the first messages of another batch."""
        calling = bisect_left(other._places, size)
        self.items, self._fields = other.items[:size], other._fields[:size]
        self._contents, self._names = other._contents[:size], other._names[:size]
        self._places, self._calling_fields = (
            other._places[:calling],
            other._calling_fields[:calling],
        )
        self._calls, self.ours = other._calls[:calling], other.ours[:size]


def _looks(messages: Sequence[BaseMessage]) -> list[tuple[Any, ...]]:
    """Return what `as_message` reads of each message."""
    return [
        (
            fields["type"],
            fields["content"],
            fields["name"],
            "tool_calls" in fields and fields["tool_calls"],
            "tool_call_id" in fields and fields["tool_call_id"],
            "role" in fields and fields["role"],
        )
        for fields in [message.__dict__ for message in messages]
    ]


def _frozen(value: Any) -> Any:
    return value if type(value) is str else copy_plain(value) if value else _NOTHING


class Conversions:
    """Converted messages; of a list that has grown, only new ones are converted.

    Nodes may change a message in place, so each content is compared with the earlier one.
    """

    def __init__(self) -> None:
        self._batches = GrowingLists(_Batch)

    def of(self, owner: tuple[str, str], messages: Sequence[BaseMessage]) -> list[Message]:
        """Return converted messages; ``owner`` identifies a list that grows."""
        # Instructions are mostly made again for each call.
        front, rest = 0, [*messages]
        while rest and rest[0].type == "system":
            front += 1
            del rest[0]
        batch, size = self._batches.find(owner, rest)
        batch.go_on(rest, batch.unchanged(size))
        return [*map(as_message, messages[:front]), *batch.ours] if front else [*batch.ours]


def text_of(message: BaseMessage) -> str:
    """Return a message's text; of several parts, those that are text."""
    content = message.content
    if isinstance(content, str):
        return content
    parts = (part if isinstance(part, str) else part.get("text", "") for part in content)
    return "".join(part for part in parts if isinstance(part, str))


def has_messages(value: Any) -> bool:
    """Return whether a channel holds messages."""
    if not isinstance(value, list):
        return False
    return any(issubclass(kind, BaseMessage) for kind in set(map(type, value)))


def plain(
    value: Any,
    known: Callable[[Sequence[BaseMessage]], list[Any]],
    listed: Callable[[Sequence[BaseMessage]], list[Any]] | None = None,
) -> Any:
    """Return a value with messages converted by ``known``, and lists of messages by ``listed``."""
    kind: Any = type(value)
    if value is None or kind is str:
        return value
    if isinstance(value, (list, tuple)):
        if _are_all_messages(value):
            return (listed or known)(value)
        return [plain(inner, known, listed) for inner in value]
    if are_messages(kind):
        return known([value])[0]
    if isinstance(value, RemoveMessage):
        return REMOVED
    value = told_write(value)
    if isinstance(value, Mapping):
        return {key: plain(inner, known, listed) for key, inner in value.items()}
    names = None if isinstance(value, str) else names_of(value)
    if names is not None:
        return {name: plain(getattr(value, name, None), known, listed) for name in names}
    return value


def _are_all_messages(values: Sequence[Any]) -> bool:
    return bool(values) and all(map(are_messages, set(map(type, values))))


@lru_cache(maxsize=256)
def are_messages(kind: type) -> bool:
    """Return whether values of a type are messages, and no orders to remove one."""
    return issubclass(kind, BaseMessage) and not issubclass(kind, RemoveMessage)


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
