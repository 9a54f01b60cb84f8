"""Gemini's schemas as JSON Schema.

``parameters`` and ``responseSchema`` are a dialect of OpenAPI 3.0: types in capitals, ``nullable``,
counts as texts, and keys in camel or snake case.
"""

from __future__ import annotations

import re
from typing import Any, Final

from simkit.core.errors import WireInvalid
from simkit.core.messages import JsonValue
from simkit.providers.body_reader import Record, maybe, typed, under

_COUNTS: Final = (
    *("minItems", "maxItems", "minLength", "maxLength"),
    *("minProperties", "maxProperties"),
)
_LISTS: Final = ("anyOf", "prefixItems")
_NO_SCHEMA: Final = ("nullable", "propertyOrdering", "example")
"""Keys that are not part of JSON Schema."""

_HUMP: Final = re.compile(r"_([a-z0-9])")


def camel(key: str) -> str:
    """Return ``maxItems`` for ``max_items``."""
    return _HUMP.sub(lambda match: match[1].upper(), key)


def spelled(record: Record, key: str) -> str:
    """Return the spelling of a camel-case key in a record."""
    if key in record:
        return key
    snake = re.sub(r"[A-Z]", lambda match: f"_{match[0].lower()}", key)
    return snake if snake in record else key


def json_schema(schema: Record, at: str) -> JsonValue:
    """Return a schema as JSON Schema; raise WireInvalid for an invalid one."""
    schema_out: dict[str, Any] = {}
    for key_, value in schema.items():
        key, place = camel(key_), under(at, key_)
        if key not in _NO_SCHEMA and value is not None:
            schema_out[key] = _keyword(key, value, place)
    if schema_out.get("type") == "type_unspecified":
        del schema_out["type"]
    if maybe(schema, "nullable", False, at):
        _allow_null(schema_out)
    return schema_out


def _keyword(key: str, value: JsonValue, at: str) -> JsonValue:
    if key == "type":
        return typed(value, str, at).lower()
    if key in _COUNTS:
        return _count(value, at)
    if key == "items":
        return json_schema(typed(value, dict, at), at)
    if key == "properties":
        properties = typed(value, dict, at)
        return {
            name: json_schema(typed(inner, dict, under(at, name)), under(at, name))
            for name, inner in properties.items()
        }
    if key in _LISTS:
        return [
            json_schema(typed(inner, dict, f"{at}[{number}]"), f"{at}[{number}]")
            for number, inner in enumerate(typed(value, list, at))
        ]
    return value


def _count(value: JsonValue, at: str) -> int:
    """Parse a count; 64-bit integers are texts in Google's JSON."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 19:
        return int(value)
    if type(value) is int:
        return value
    raise WireInvalid("should be a whole number", at)


def _allow_null(schema: dict[str, Any]) -> None:
    if "type" in schema:
        schema["type"] = [schema["type"], "null"]
    if "anyOf" in schema:
        schema["anyOf"] = [*schema["anyOf"], {"type": "null"}]
    if isinstance(schema.get("enum"), list):
        schema["enum"] = [*schema["enum"], None]
