"""LangChain's messages as ours, and what stands in a graph's state as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from langchain_core.messages import BaseMessage, RemoveMessage

from simkit.messages import ROLE_ALIASES, Message, ToolCall

REMOVED: Final = "a message is removed"
"""Stands for LangGraph's order to remove a message; what is left is told with the state."""


def as_message(said: BaseMessage) -> Message:
    """Returns a message in our words; its text is what a provider would be sent."""
    if said.type == "tool":
        return Message("tool", text_of(said), call_id=said.tool_call_id or "", tool=said.name or "")
    role = ROLE_ALIASES.get(said.type, ROLE_ALIASES.get(getattr(said, "role", ""), "user"))
    calls = tuple(
        ToolCall(call["id"] or "", call["name"], call["args"])
        for call in getattr(said, "tool_calls", ())
    )
    agent = said.name if role == "assistant" else None
    return Message(role, text_of(said), calls=calls, agent=agent)


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


def plain(value: Any, known: Any) -> Any:
    """Returns a value in which messages are what ``known`` makes of them."""
    if isinstance(value, RemoveMessage):
        return REMOVED
    if isinstance(value, BaseMessage):
        return known(as_message(value))
    if isinstance(value, Mapping):
        return {key: plain(inner, known) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(inner, known) for inner in value]
    return value
