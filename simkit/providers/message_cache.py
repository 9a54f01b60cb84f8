"""Messages that were parsed before: clients send a whole conversation with each request."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from simkit.core.messages import Message
from simkit.providers.body_reader import Record, record_of

Parse: TypeAlias = Callable[[Record, str, int, dict[str, str]], Sequence[Message]]
"""Parses the messages in one item of a request.

It gets the item, its path, its index, and the names of the tool calls before it, to which it adds
its own.
"""

_fields_of: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_items_of: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode


class NotSplit(ValueError):
    """A body is not what it should be; parsing it as a whole says why."""


def split(body: bytes, key: str) -> tuple[Record, list[msgspec.Raw]]:
    """Return a body without one of its lists, and the JSON of that list's items.

    Raise NotSplit for a body that has no such list.
    """
    try:
        fields = _fields_of(body)
        items = _items_of(fields.pop(key))
        return record_of(msgspec.json.encode(fields)), items
    except (msgspec.MsgspecError, UnicodeError, RecursionError, KeyError, ValueError) as problem:
        raise NotSplit(str(problem)) from problem


class MessageCache:
    """The messages of one run's requests in one protocol; each is parsed once.

    An item is known by its bytes. Items at the front of the last request are compared as one list.
    """

    def __init__(self) -> None:
        self._by_json: dict[bytes, Sequence[Message]] = {}
        self._items: list[msgspec.Raw] = []
        """The items of the last request,"""
        self._messages: list[Message] = []
        """what they were parsed as,"""
        self._tools: Mapping[str, str] = {}
        """and their tool calls: id to name."""

    def parsed(
        self,
        items: list[msgspec.Raw],
        at: str,
        parse: Parse,
        depends: Callable[[Record], bool] = lambda record: False,
    ) -> list[Message]:
        """Return the messages in the items of a request; ``at`` is the path of their list.

        ``depends`` returns whether the meaning of an item depends on those before it, beside the
        names of the tools whose results it has.
        """
        messages, tools, start = list[Message](), dict[str, str](), len(self._items)
        if items[:start] == self._items:
            messages += self._messages
            tools.update(self._tools)
        else:
            start = 0
        for place in range(start, len(items)):
            encoded = bytes(items[place])
            inner = self._by_json.get(encoded)
            if inner is None or not _fits(inner, tools):
                where = f"{at}[{place}]"
                record = record_of(encoded, where)  # It may be no JSON.
                inner = parse(record, where, place, tools)
                if not depends(record):
                    self._by_json[encoded] = inner
            for message in inner:
                if message.calls:
                    tools.update((call.id, call.name) for call in message.calls)
            messages += inner
        self._items, self._messages, self._tools = items, messages, tools
        return messages


def _fits(messages: Sequence[Message], tools: Mapping[str, str]) -> bool:
    """Return whether results of tools still answer calls of the same tools."""
    for message in messages:
        if message.role == "tool" and tools.get(message.call_id, "") != message.tool:
            return False
    return True
