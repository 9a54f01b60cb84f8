"""Tables of a run's texts and messages, in which each stands once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from simkit.core.messages import JsonValue, Message
from simkit.trace.store import canonical
from simkit.viewer.document import CallLine, MessageData

_encode: Final = msgspec.json.Encoder().encode


class Tables:
    """Texts, messages and lists of tools, each with its index."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.messages: list[MessageData] = []
        self.toolsets: list[list[str]] = []
        self._text_places: dict[str, int] = {}
        self._message_places: dict[bytes, int] = {}
        self._toolset_places: dict[tuple[str, ...], int] = {}
        self._logged: dict[int, tuple[Message, int]] = {}
        """The id of a message object to the object, which keeps the id taken, and its index."""

    def text(self, text: str) -> int:
        """Return the index of a text; -1 for an empty one."""
        if not text:
            return -1
        index = self._text_places.get(text)
        if index is None:
            index = self._text_places[text] = len(self.texts)
            self.texts.append(text)
        return index

    def value(self, value: Any) -> int:
        """Return the index of a value as text: JSON, unless it is a text; -1 for None."""
        if value is None:
            return -1
        return self.text(value_text(value))

    def message(self, message: Message) -> int:
        """Return the index of a message; its section belongs to the context's part."""
        cached = self._logged.get(id(message))
        if cached is not None:
            return cached[1]
        data = MessageData(
            role=message.role,
            text=self.text(message.content),
            id=message.id,
            agent=message.agent or "",
            turn=message.turn,
            tool=message.tool,
            call_id=message.call_id,
            calls=tuple(
                CallLine(call.id, call.name, canonical(call.args), call.target)
                for call in message.calls
            ),
        )
        encoded = _encode(data)
        index = self._message_places.get(encoded)
        if index is None:
            index = self._message_places[encoded] = len(self.messages)
            self.messages.append(data)
        self._logged[id(message)] = message, index
        return index

    def toolset(self, tools: tuple[str, ...]) -> int:
        """Return the index of a list of tools; -1 for an empty one."""
        if not tools:
            return -1
        if tools not in self._toolset_places:
            self._toolset_places[tools] = len(self.toolsets)
            self.toolsets.append(list(tools))
        return self._toolset_places[tools]


def value_text(value: Any) -> str:
    """Return a value as a person reads it: a text as it is, anything else as indented JSON.

    Messages are shown by their number, author and text.
    """
    plain: JsonValue = canonical(_readable(value))
    if isinstance(plain, str):
        return plain
    return msgspec.json.format(_encode(plain), indent=2).decode()


def _readable(value: Any) -> Any:
    """Return a value with its messages as texts."""
    if isinstance(value, Message):
        calls = "".join(f" → {call.name}(…)" for call in value.calls)
        author = value.agent or value.tool or value.role
        return f"{value.id} {author}: {value.content}{calls}".lstrip()
    if isinstance(value, Mapping):
        return {key: _readable(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return [_readable(item) for item in value]
    return value
