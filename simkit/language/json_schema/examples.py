"""A value that a JSON Schema allows: small, and the same every time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_DEEP: Final = 20
"""How far a schema that speaks of itself is followed."""
_FORMATS: Final[Mapping[str, str]] = {
    "date": "2026-01-05",
    "date-time": "2026-01-05T09:00:00Z",
    "email": "ada@example.com",
    "ipv4": "192.0.2.1",
    "time": "09:00:00Z",
    "uri": "https://example.com",
    "uuid": "00000000-0000-4000-8000-000000000000",
}


def example_of(schema: Any, name: str = "value") -> Any:
    """Return a value that a schema allows, as far as its simple keywords say what that is.

    Of objects it has what is required, of unions the first member that is not null. Texts say
    ``name``, the key under which they stand.

    >>> example_of({"type": "object", "properties": {"order_id": {"type": "string"}},
    ...     "required": ["order_id"]})
    {'order_id': 'order_id'}
    """
    return _example(schema, schema, name, 0)


def _example(schema: Any, root: Any, name: str, depth: int) -> Any:
    if not isinstance(schema, Mapping) or depth > _DEEP:
        return name
    if "$ref" in schema:
        return _example(schema_at(root, str(schema["$ref"])), root, name, depth + 1)
    for key in ("const", "default"):
        if schema.get(key) is not None:
            return schema[key]
    for key in ("enum", "examples"):
        if schema.get(key):
            return schema[key][0]
    if schema.get("allOf"):
        merged: dict[str, Any] = {}
        for part in schema["allOf"]:
            example = _example(part, root, name, depth + 1)
            if not isinstance(example, dict):
                return example
            merged |= example
        return merged
    members = schema.get("anyOf") or schema.get("oneOf")
    if members:
        member = next((one_of for one_of in members if not _is_null(one_of)), members[0])
        return _example(member, root, name, depth + 1)
    return _of_type(type_of(schema), schema, root, name, depth)


def _of_type(kind: str, schema: Mapping[str, Any], root: Any, name: str, depth: int) -> Any:
    if kind == "object":
        inner = schema.get("properties") or {}
        required = schema.get("required") or ()
        return {key: _example(inner.get(key, {}), root, key, depth + 1) for key in required}
    if kind == "array":
        count = schema.get("minItems", 0)
        return [_example(schema.get("items", {}), root, name, depth + 1) for _ in range(count)]
    if kind in ("integer", "number"):
        least = schema.get("minimum", schema.get("exclusiveMinimum", 0))
        number = least + 1 if "exclusiveMinimum" in schema and "minimum" not in schema else least
        return min(max(number, 1), schema.get("maximum", max(number, 1)))
    if kind == "boolean":
        return True
    if kind == "null":
        return None
    text = _FORMATS.get(str(schema.get("format", "")), name)
    text = text.ljust(schema.get("minLength", 0), "-")
    return text[: schema.get("maxLength", len(text))]


def type_of(schema: Mapping[str, Any]) -> str:
    """Return a schema's type: of several the first that is not null, a text if it names none."""
    kinds = schema.get("type", "object" if "properties" in schema else "string")
    if isinstance(kinds, str):
        return kinds
    return next((kind for kind in kinds if kind != "null"), "null")


def _is_null(schema: Any) -> bool:
    return isinstance(schema, Mapping) and schema.get("type") == "null"


def schema_at(root: Any, reference: str) -> Any:
    """Return the part of a schema that a reference names; nothing is demanded of one elsewhere."""
    place = root
    for step in reference.removeprefix("#").strip("/").split("/"):
        if not isinstance(place, Mapping):
            return {}
        place = place.get(step.replace("~1", "/").replace("~0", "~"), {}) if step else place
    return place
