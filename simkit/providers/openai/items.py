"""Items of OpenAI's Responses interface: the elements of ``input`` and ``output``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from simkit.core.messages import ROLE_ALIASES, JsonValue, Message, ToolCall
from simkit.providers import attachments as extra
from simkit.providers.attachments import REFERENCE
from simkit.providers.body_reader import Record, json_text, maybe, need, under, unknown
from simkit.providers.openai.parts import PART_KINDS, arguments_of, content_of, parts_of

Placed: TypeAlias = tuple[Record, str]
"""An item and its path."""

_ROLES: Final = ("system", "developer", "user", "assistant")
_KNOWN: Final = (
    *("message", "reasoning", "function_call", "function_call_output", "custom_tool_call"),
    *("custom_tool_call_output", REFERENCE, "compaction", "program", "mcp_list_tools"),
    *("mcp_approval_request", "mcp_approval_response"),
)
"""Known kinds; kinds that end in ``_call`` or ``_output`` are accepted too, because OpenAI adds
more."""

_UNSAID: Final = frozenset({"additional_tools", "compaction_trigger", "configuration_update"})
"""Items that change how the provider works, and have no content."""


def messages_of(items: Sequence[Placed]) -> list[Message]:
    """Parse an input. Items of one reply are one message: reasoning, then text, then calls."""
    messages, tools = list[Message](), dict[str, str]()
    group = _Group(tools)

    def flush() -> None:
        nonlocal group
        if not group.is_empty:
            messages.append(group.message())
            group = _Group(tools)

    for item, at in items:
        kind = maybe(item, "type", "message", at)
        role = need(item, "role", str, at) if kind == "message" else "assistant"
        if kind in _UNSAID:
            continue
        if role != "assistant":
            flush()
            messages.append(_parse_message(item, role, at))
        elif kind.endswith("_output"):
            flush()
            messages.append(_result(item, at, tools))
        else:
            if kind in ("message", "reasoning", REFERENCE) and group.has_said:
                flush()
            group.add(item, kind, at)
    flush()
    return messages


def reply_of(items: Sequence[Placed]) -> Message:
    """Parse an output, which is one message."""
    group = _Group({})
    for item, at in items:
        group.add(item, need(item, "type", str, at), at)
    return group.message()


def _parse_message(item: Record, role: str, at: str) -> Message:
    if role not in _ROLES:
        raise unknown("role", role, _ROLES, under(at, "role"))
    content, extras = content_of(item, at)
    return Message(ROLE_ALIASES[role], content, data=extras or None)


def _result(item: Record, at: str, tools: dict[str, str]) -> Message:
    call_id = maybe(item, "call_id", "", at) or maybe(item, "id", "", at)
    text, extras = _output(item.get("output"), under(at, "output"))
    tool = tools.get(call_id) or maybe(item, "name", "", at)
    data = extra.data_of(text, extras)
    return Message("tool", text, call_id=call_id, tool=tool, data=data)


def _output(output: JsonValue, at: str) -> tuple[str, extra.Extras]:
    """Parse a tool's output: a text, content parts, or the output of one of OpenAI's tools."""
    if type(output) is str:
        return output, {}
    if type(output) is dict and output.get("type") in PART_KINDS:
        output = [output]
    if type(output) is list and all(type(part) is dict and "type" in part for part in output):
        return parts_of(output, at)
    return ("" if output is None else json_text(output)), {}


class _Group:
    """The items of one reply as they come, and the message that they make."""

    def __init__(self, tools: dict[str, str]) -> None:
        """``tools`` receives the names of called tools by call id."""
        self._texts, self._calls = list[str](), list[ToolCall]()
        self._extras, self._tools = extra.Extras(), tools

    @property
    def has_said(self) -> bool:
        """Return whether there is more than reasoning and hosted tools."""
        return bool(self._texts or self._calls)

    @property
    def is_empty(self) -> bool:
        """Return whether there are no items."""
        return not self.has_said and not self._extras

    def add(self, item: Record, kind: str, at: str) -> None:
        """Add one item; raise WireInvalid if a reply cannot contain it."""
        if kind == "message":
            text, extras = content_of(item, at, glue="")
            self._texts.append(text)
            self._extras |= extras
        elif kind == "reasoning":
            extra.added(self._extras, extra.REASONING, item)
        elif kind.endswith("_call") and item.get("call_id") is not None:
            self._add_call(item, kind, at)
        elif kind.endswith(("_call", "_output")) or kind in _KNOWN:
            if kind == REFERENCE:
                need(item, "id", str, at)
            # The action of a hosted tool is no text of the model.
            extra.added(self._extras, extra.ITEMS, item)
        else:
            raise unknown("item", kind, _KNOWN, under(at, "type"))

    def _add_call(self, item: Record, kind: str, at: str) -> None:
        call_id = need(item, "call_id", str, at)
        args: JsonValue
        if kind == "function_call":
            name, args = need(item, "name", str, at), arguments_of(need(item, "arguments", str, at))
        elif kind == "custom_tool_call":
            name, args = need(item, "name", str, at), need(item, "input", str, at)
        else:
            # The computer, a shell, a patch: OpenAI's tools that the client runs.
            name = kind.removesuffix("_call")
            args = item.get("action") or item.get("operation") or item.get("arguments") or {}
        self._tools[call_id] = name
        self._calls.append(ToolCall(call_id, name, args))

    def message(self) -> Message:
        """Return the message that the items make."""
        text = "".join(self._texts)
        data = extra.data_of(text, self._extras)
        return Message("assistant", text, calls=tuple(self._calls), data=data)
