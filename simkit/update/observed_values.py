"""Observed values as claims that a person would write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from simkit.core.errors import SimkitError
from simkit.core.messages import ABSENT, Dropped, Message, ToolCall
from simkit.language.matching import compile_matcher
from simkit.language.matching.mappings import CALL_FIELDS
from simkit.language.matching.values import Content, is_list


def claim_of(value: Any) -> Any:
    """Return a claim that holds for a value: plain data, messages in their short form."""
    if value is ABSENT:
        return {"$absent": True}
    if isinstance(value, Content):
        return claim_of(value.data) if isinstance(value.data, dict | list) else value.text
    if isinstance(value, Dropped):
        return {**claim_of(value.message), "what": value.what, "by": value.by}
    if isinstance(value, Message):
        return _claim_of_message(value)
    if isinstance(value, ToolCall):
        if value.name in CALL_FIELDS:
            return {"name": value.name, "args": claim_of(value.args)}
        return {value.name: claim_of(value.args)}
    if isinstance(value, Mapping):
        return claim_of_mapping(value) or {"$exact": {}}
    if is_list(value):
        return [claim_of(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return claim_of(msgspec.to_builtins(value))


def claim_of_mapping(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return claims on all keys; a key that would be an operator is written with ``$$``."""
    return {(f"${k}" if k.startswith("$") else k): claim_of(v) for k, v in value.items()}


def _claim_of_message(message: Message) -> dict[str, Any]:
    message_claim = Content(message.content, message.data or None)
    structure = message_claim.structure
    # JSON reads better as its value, and matches like that.
    content = claim_of(structure) if isinstance(structure, dict | list) else message_claim.text
    claim: dict[str, Any] = {message.role: content}
    if message.calls:
        claim["calls"] = [claim_of(call) for call in message.calls]
    return claim


def claim_of_handoff(handoff: Mapping[str, Any]) -> dict[str, Any]:
    """Return the usual claim on a handoff: the mode if it is not the default, and so on."""
    fields = {
        key: claim_of(handoff[key])
        for key in ("from", "to", "type", "mode", "query", "payload", "outcome", "reason")
        if handoff.get(key)
    }
    for key, default in (("mode", "transfer"), ("outcome", "made")):
        if fields.get(key) == default:
            del fields[key]
    return fields


def claim_of_tool_call(call: Mapping[str, Any]) -> dict[str, Any]:
    """Return the usual claim on a tool call: without ids and times."""
    answer = "error" if call["error"] is not None else "result"
    claim = {key: claim_of(call[key]) for key in ("agent", "tool", "args") if call[key]}
    return {**claim, answer: claim_of(call[answer])}


def holds(matcher: Any, value: Any) -> bool:
    """Return whether a matcher holds; an invalid one does not."""
    try:
        return compile_matcher(matcher).holds(value)
    except SimkitError:
        return False
