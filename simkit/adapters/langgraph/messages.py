"""LangChain's messages as simkit's, and a graph's state as plain data."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter, itemgetter
from typing import Any, Final

from langchain_core.messages import BaseMessage, RemoveMessage

from simkit.adapters.api import (
    ROLE_ALIASES,
    GrowingLists,
    Message,
    ToolCall,
    copy_plain,
    leading_equal,
    names_of,
)
from simkit.adapters.langgraph.channels import told_write

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
