"""LangChain's messages as ours, and what stands in a graph's state as plain data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from langchain_core.messages import BaseMessage, RemoveMessage

from simkit.adapters.langgraph.overwriting import told_write
from simkit.adapters.plain_values import names_of
from simkit.adapters.streams import leading_equal, leading_same
from simkit.messages import ROLE_ALIASES, Message, ToolCall
from simkit.trace import copied

REMOVED: Final = "a message is removed"
"""Stands for LangGraph's order to remove a message; what is left is told with the state."""


def as_message(said: BaseMessage) -> Message:
    """Returns a message in our words; its text is what a provider would be sent."""
    if said.type == "tool":
        return Message("tool", text_of(said), call_id=said.tool_call_id or "", tool=said.name or "")
    # Asked for what it has not, a message of LangChain's takes long to say so.
    fields = vars(said)
    role = ROLE_ALIASES.get(said.type) or ROLE_ALIASES.get(fields.get("role", ""), "user")
    calls = tuple(
        ToolCall(call["id"] or "", call["name"], copied(call["args"]))
        for call in fields.get("tool_calls") or ()
    )
    agent = said.name if role == "assistant" else None
    return Message(role, text_of(said), calls=calls, agent=agent)


class _Batch:
    """Messages that were converted, and what they said then."""

    __slots__ = ("looks", "ours", "said")

    def __init__(self) -> None:
        self.said: list[BaseMessage] = []
        self.looks: tuple[list[Any], ...] = ([], [], [])
        """Their contents, names and tool calls, as copies."""
        self.ours: list[Message] = []

    def go_on(self, said: list[BaseMessage]) -> None:
        """Takes the list as it is now."""
        held = [one.__dict__ for one in said]
        looks = (
            [one["content"] for one in held],
            [one["name"] for one in held],
            [one.get("tool_calls") for one in held],
        )
        size = leading_same(self.said, said)
        for then, now in zip(self.looks, looks, strict=True):
            size = leading_equal(then[:size], now)
        self.said[size:] = said[size:]
        self.ours[size:] = map(as_message, said[size:])
        for then, now in zip(self.looks, looks, strict=True):
            then[size:] = [one if type(one) is str else copied(one) for one in now[size:]]


class Conversions:
    """Messages as ours; of a list that has grown, only what is new is converted.

    Nodes may change a message in place, so what each says is compared with what it said.
    """

    def __init__(self) -> None:
        self._last: dict[str, _Batch] = {}

    def of(self, whose: str, said: Sequence[BaseMessage]) -> list[Message]:
        """Returns messages in our words; ``whose`` tells lists apart of which each grows."""
        # Instructions are mostly made anew for each call.
        front = next((n for n, one in enumerate(said) if one.type != "system"), len(said))
        batch = self._last.setdefault(whose, _Batch())
        batch.go_on([*said[front:]])
        return [*map(as_message, said[:front]), *batch.ours]


def text_of(said: BaseMessage) -> str:
    """Returns a message's text, of several parts those that are text."""
    content = said.content
    if isinstance(content, str):
        return content
    parts = (part if isinstance(part, str) else part.get("text", "") for part in content)
    return "".join(part for part in parts if isinstance(part, str))


def messages_in(value: Any) -> list[BaseMessage]:
    """Returns the messages of a channel; empty for one that holds none."""
    if not isinstance(value, list):
        return []
    return [one for one in value if isinstance(one, BaseMessage)]


def plain(value: Any, known: Callable[[Sequence[BaseMessage]], list[Any]]) -> Any:
    """Returns a value in which messages are what ``known`` makes of them, list by list."""
    if isinstance(value, RemoveMessage):
        return REMOVED
    if isinstance(value, BaseMessage):
        return known([value])[0]
    value = told_write(value)
    if isinstance(value, Mapping):
        return {key: plain(inner, known) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        if value and all(map(_is_said, set(map(type, value)))):
            return known(value)
        return [plain(inner, known) for inner in value]
    names = None if value is None or isinstance(value, str) else names_of(value)
    if names is not None:
        return {name: plain(getattr(value, name, None), known) for name in names}
    return value


def _is_said(kind: type) -> bool:
    return issubclass(kind, BaseMessage) and not issubclass(kind, RemoveMessage)
