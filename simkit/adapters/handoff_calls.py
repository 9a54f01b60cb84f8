"""Handoffs as tool calls: the call that makes a handoff, and the handoff in a call.

A tool that takes ``payload`` gets type, query and payload under their names, as in a declared
pipeline; for any other tool the arguments are the payload.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from simkit.core.messages import Handoff, JsonValue
from simkit.language.json_schema import place_text, schema_errors

MISFITS_MAX: Final = 3
"""The number of rejected fields in a message."""
_PARTS: Final = ("type", "query", "payload")
_DEFINED: Final = "#/$defs/"


class HandoffFields(msgspec.Struct, frozen=True):
    """The fields of a handoff in a call."""

    payload: JsonValue = None
    type: str | None = None
    query: str | None = None


def told_by(args: JsonValue) -> HandoffFields:
    """Return the handoff fields in the arguments of a call."""
    if not isinstance(args, dict) or "payload" not in args or not {*args} <= {*_PARTS}:
        return HandoffFields(args or None)
    return HandoffFields(args["payload"], _text(args.get("type")), _text(args.get("query")))


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def args_for(line: Handoff, schema: JsonValue) -> dict[str, Any]:
    """Return the arguments with which a model would make the handoff of a line.

    Raise ValueError for a payload that cannot be a tool's arguments. Fields with only one possible
    value in the tool's schema (a ``const``) are filled in.
    """
    whole = schema if isinstance(schema, dict) else {}
    payload: Any = {} if line.payload is None else line.payload
    if "payload" in _properties(whole):
        fields = {"type": line.type, "query": line.query, "payload": payload}
        args = {name: value for name, value in fields.items() if value is not None}
    elif not isinstance(payload, Mapping):
        raise ValueError("the tool takes the payload's keys as its arguments, and it has none")
    else:
        args = {**payload} if line.query is None else {**payload, "query": line.query}
    completed: dict[str, Any] = _completed(args, whole, whole)
    return completed


def misfit_of(args: JsonValue, schema: JsonValue) -> str:
    """Return the errors of a call's arguments by its tool's schema, field by field."""
    if not isinstance(schema, dict):
        return ""
    errors = schema_errors(schema, args)
    lines = [f"{place_text(path)[1:]}: {text}" if path else text for path, text in errors]
    more = f"; and {len(lines) - MISFITS_MAX} more" if len(lines) > MISFITS_MAX else ""
    return "; ".join(lines[:MISFITS_MAX]) + more


def agents_named(schema: JsonValue, argument: str | None) -> tuple[str, ...]:
    """Return the agents that a tool's schema allows as an argument; none if it lists none."""
    values = _properties(schema if isinstance(schema, dict) else {}).get(argument or "")
    names = values.get("enum") if isinstance(values, dict) else None
    return tuple(name for name in names or () if isinstance(name, str))


def passes_to(schema: JsonValue, argument: str | None, agent: str) -> bool:
    """Return whether a tool with an agent argument accepts an agent."""
    named = agents_named(schema, argument)
    return argument is not None and (not named or agent in named)


def _properties(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    properties = schema.get("properties")
    return properties if isinstance(properties, dict) else {}


def _completed(value: Any, schema: Any, whole: Mapping[str, Any]) -> Any:
    reference = schema.get("$ref") if isinstance(schema, dict) else None
    if isinstance(reference, str) and reference.startswith(_DEFINED):
        schema = whole.get("$defs", {}).get(reference.removeprefix(_DEFINED))
    if not isinstance(value, dict) or not isinstance(schema, dict):
        return value
    properties = _properties(schema)
    required = schema.get("required") or ()
    fixed = {
        name: properties[name]["const"]
        for name in required
        if name not in value and "const" in properties.get(name, ())
    }
    values = {name: _completed(item, properties.get(name), whole) for name, item in value.items()}
    return {**fixed, **values}
