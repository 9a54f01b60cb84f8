"""Messages in files and functions: `{user: …}`, or `role`, `content` and other fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from simkit.core.errors import MessageInvalid
from simkit.core.messages import ROLE_ALIASES, Message, ToolCall
from simkit.language.yaml import SourcePath
from simkit.trace.store import canonical

SHORT: Final = ("user", "assistant", "system", "developer", "human", "ai")
"""Roles that may be a key, with the content as the value."""
FIELDS: Final = ("content", "agent", "calls", "call_id", "tool")
"""Fields of a message beside its role."""
_OWN: Final = ("id", "turn", "section", "data")
"""Fields that the log adds to a message; functions see them and may return them."""
_CALL_FIELDS: Final = ("id", "tool", "name", "args")
_CALL: Final = "A call is written `{id: c1, tool: find_order, args: {order: 4711}}`."
_MESSAGE: Final = (
    "A message is a text, `{user: …}`, or `{role: …, content: …}`; other values are said as "
    "`{assistant: {…}}`."
)


def is_written_message(value: Any) -> bool:
    """Return whether a value of code or of a model is meant as a message, not as content."""
    if not isinstance(value, Mapping):
        return False
    if "role" in value:
        is_known = isinstance(value["role"], str) and value["role"] in ROLE_ALIASES
        return is_known and ("content" in value or "calls" in value)
    roles = [key for key in value if key in SHORT]
    return len(roles) == 1 and set(value) <= {*roles, *FIELDS}


def message_of(value: Any, agent: str | None = None) -> Message:
    """Return the message for a value; ``agent`` wrote it if the value names no other agent.

    Raise MessageInvalid for anything that would be lost, such as an unknown key.
    """
    if isinstance(value, Message):
        return value
    if not isinstance(value, Mapping):
        if value is None or isinstance(value, (list, tuple)):
            problem = "nothing" if value is None else "a list"
            raise MessageInvalid(
                (), f"a message must be a text or a mapping, not {problem}", advice=_MESSAGE
            )
        return message_from("assistant", value, agent)
    role, content = _role_and_content(value)
    _check_fields(value)
    speaker = value.get("agent", agent if "role" in value or role == "assistant" else None)
    message = message_from(role, content, speaker)
    return msgspec.structs.replace(
        message,
        calls=_calls(value.get("calls")),
        call_id=value.get("call_id") or "",
        tool=value.get("tool") or "",
    )


def message_from(role: str, content: Any, agent: str | None) -> Message:
    """Return a message with this content: a text as it is, any other value as JSON."""
    if isinstance(content, str):
        return Message(role, content, agent=agent)
    value = canonical(content)
    return Message(role, msgspec.json.encode(value).decode(), agent=agent, data=value)


def _role_and_content(value: Mapping[str, Any]) -> tuple[str, Any]:
    if "role" in value:
        role = value["role"]
        if not isinstance(role, str) or role not in ROLE_ALIASES:
            raise MessageInvalid(
                ("role",),
                f"unknown role `{role}`",
                str(role),
                ("user", "assistant", "system", "tool"),
            )
        return ROLE_ALIASES[role], value.get("content", "")
    roles = [key for key in value if key in SHORT]
    if len(roles) == 1 and "content" not in value:
        return ROLE_ALIASES[roles[0]], value[roles[0]]
    if roles:
        raise MessageInvalid((), "a message has one role and one content", advice=_MESSAGE)
    strange = next((str(key) for key in value if key not in FIELDS), "")
    raise MessageInvalid((), "this says no role, so it is no message", strange, SHORT, _MESSAGE)


def _check_fields(value: Mapping[str, Any]) -> None:
    roles = ("role",) if "role" in value else SHORT
    for key in value:
        if key not in roles and key not in FIELDS:
            raise MessageInvalid(
                (key,), f"unknown key of a message `{key}`", str(key), ("role", *FIELDS)
            )
    for key in ("agent", "call_id", "tool"):
        if value.get(key) is not None and not isinstance(value[key], str):
            raise MessageInvalid((key,), f"`{key}` must be a text")


def _calls(value: Any) -> tuple[ToolCall, ...]:
    if value is None:
        return ()
    if not isinstance(value, (list, tuple)):
        raise MessageInvalid(("calls",), "`calls` must be a list", advice=_CALL)
    return tuple(_call(call, ("calls", index)) for index, call in enumerate(value))


def _call(value: Any, at: SourcePath) -> ToolCall:
    if isinstance(value, ToolCall):
        return value
    if not isinstance(value, Mapping):
        raise MessageInvalid(at, "a call must be a mapping", advice=_CALL)
    for key in value:
        if key not in _CALL_FIELDS:
            raise MessageInvalid(
                (*at, key), f"unknown key of a call `{key}`", str(key), _CALL_FIELDS, _CALL
            )
    name, identity = value.get("tool", value.get("name")), value.get("id")
    if not isinstance(name, str) or not isinstance(identity, str):
        raise MessageInvalid(at, "a call needs `id` and `tool`, both texts", advice=_CALL)
    return ToolCall(identity, name, canonical(value.get("args") or {}))


def without_own(value: Any) -> Any:
    """Return a message from code without the fields that the log had added."""
    if not isinstance(value, Mapping):
        return value
    return {key: value_ for key, value_ in value.items() if key not in _OWN}
