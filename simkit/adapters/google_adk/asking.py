"""Tool calls that wait for the user: their questions, and the answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from google.genai import types

from simkit.adapters.api import JsonValue, plain_or_text

CONFIRM: Final = "adk_request_confirmation"
"""The call by which the ADK asks whether a tool may be executed."""


def question_of(call: Any) -> JsonValue:
    """Return a call's question to the user: its tool, and the arguments."""
    args = call.args or {}
    if call.name != CONFIRM:
        return {"tool": call.name, "args": plain_or_text(args)}
    original, confirmation = (
        args.get("originalFunctionCall") or {},
        args.get("toolConfirmation") or {},
    )
    question = {"tool": original.get("name"), "args": plain_or_text(original.get("args") or {})}
    for key in ("hint", "payload"):
        if confirmation.get(key):
            question[key] = plain_or_text(confirmation[key])
    return question


def answer_to(calls: Mapping[str, Any], value: JsonValue) -> types.Content:
    """Return the message that answers calls: a list with one value each, or one value for all."""
    many = isinstance(value, list) and len(value) == len(calls) > 1
    values = value if isinstance(value, list) and many else [value] * len(calls)
    parts = [
        types.Part(
            function_response=types.FunctionResponse(
                id=call.id, name=call.name, response=_response(call, answer)
            )
        )
        for call, answer in zip(calls.values(), values, strict=True)
    ]
    return types.Content(role="user", parts=parts)


def _response(call: Any, value: JsonValue) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    return {"confirmed": bool(value)} if call.name == CONFIRM else {"result": value}
