"""Fields of foreign JSON: every invalid field is a WireInvalid that names it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, TypeAlias, TypeVar

import msgspec

from simkit.core.errors import WireInvalid
from simkit.core.messages import JsonValue, Message
from simkit.core.text import guess, short

Record: TypeAlias = Mapping[str, JsonValue]

T = TypeVar("T")

_KINDS: Final[Mapping[type, str]] = {
    dict: "an object",
    list: "a list",
    str: "a text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    type(None): "null",
}
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


def record_of(body: bytes | str, field: str = "body") -> Record:
    """Return the object in a JSON text; raise WireInvalid for anything else."""
    try:
        value = _decode(body)
    except RecursionError:
        raise WireInvalid("is nested too deep", field) from None
    # A body that is not UTF-8, or has half a surrogate pair, raises no DecodeError.
    except (msgspec.DecodeError, UnicodeError) as problem:
        raise WireInvalid(f"is not JSON: {problem}", field) from None
    return typed(value, dict, field)


def json_bytes(value: JsonValue) -> bytes:
    """Return compact JSON in the order of the keys."""
    try:
        return _encode(value)
    except RecursionError:
        raise WireInvalid("is nested too deep") from None


def json_text(value: JsonValue) -> str:
    """Return ``json_bytes`` as a text."""
    return json_bytes(value).decode()


def typed(value: JsonValue, kind: type[T], field: str) -> T:
    """Return the value if it has this JSON type; a whole number also counts as a number."""
    if type(value) is kind:
        return value
    if kind is float and type(value) is int:
        return value  # type: ignore[return-value]  # int passes for float in every annotation
    raise WireInvalid(f"should be {_KINDS[kind]}, is {_KINDS[type(value)]}", field)


def need(record: Record, key: str, kind: type[T], at: str = "") -> T:
    """Return a required field; ``at`` is the path of the record."""
    value = record.get(key)
    if type(value) is kind:
        return value
    if value is None and key not in record:
        raise WireInvalid("is missing", under(at, key))
    return typed(value, kind, under(at, key))


def maybe(record: Record, key: str, default: T, at: str = "") -> T:
    """Return an optional field of the default's type; the default if it is missing or null."""
    value = record.get(key)
    return default if value is None else typed(value, type(default), under(at, key))


def records(record: Record, key: str, at: str = "") -> list[tuple[Record, str]]:
    """Return the objects of a list with their paths; none if the list is missing or null."""
    path = under(at, key)
    return [
        (typed(item, dict, f"{path}[{number}]"), f"{path}[{number}]")
        for number, item in enumerate(maybe(record, key, list[JsonValue](), at))
    ]


def under(at: str, key: str) -> str:
    """Return the path of a key in the record at a path."""
    return f"{at}.{key}" if at else key


def unknown(subject: str, value: str, known: Collection[str], field: str) -> WireInvalid:
    """Return the error for an unknown word: ``unknown part 'txt'``."""
    hint = guess(value, known, "did you mean '{}'? ")
    return WireInvalid(
        f"unknown {subject} {short(value, 60)!r}; {hint}known: {', '.join(known)}", field
    )


# Messages that were parsed before: clients send a whole conversation with each request


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
        for index in range(start, len(items)):
            encoded = bytes(items[index])
            inner = self._by_json.get(encoded)
            if inner is None or not _fits(inner, tools):
                where = f"{at}[{index}]"
                record = record_of(encoded, where)  # It may be no JSON.
                inner = parse(record, where, index, tools)
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
