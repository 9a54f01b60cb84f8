"""Lookup of schemas that a pipeline names."""

from __future__ import annotations

from collections.abc import Mapping

from simkit.core.errors import Unsupported
from simkit.core.messages import JsonValue
from simkit.runtime.functions import function_named


def schema_of(schema: JsonValue, named: Mapping[str, JsonValue]) -> JsonValue:
    """Return a schema with ``{$ref: Name}`` and ``module:Model`` resolved."""
    if isinstance(schema, dict) and set(schema) == {"$ref"}:
        return named.get(schema["$ref"], schema)
    if isinstance(schema, str):
        model = function_named(schema)
        describe = getattr(model, "model_json_schema", None)
        if describe is None:
            raise Unsupported(f"`{schema}` is no pydantic model")
        return describe()
    return schema


def self_contained(schema: JsonValue, named: Mapping[str, JsonValue]) -> JsonValue:
    """Return a self-contained schema: named schemas are moved under `$defs`."""
    used: dict[str, JsonValue] = {}
    schema_ = _pointing_inside(schema, named, used, "#")
    done: dict[str, JsonValue] = {}
    while left := [name for name in used if name not in done]:
        for name in left:
            done[name] = _pointing_inside(named[name], named, used, _defined(name))
    if not done or not isinstance(schema_, dict):
        return schema_
    return {**schema_, "$defs": {**schema_.get("$defs", {}), **done}}


def refers_inside(schema: JsonValue) -> bool:
    """Return whether a schema has references to its own parts, and so is one document."""
    if isinstance(schema, list):
        return any(map(refers_inside, schema))
    if not isinstance(schema, dict):
        return False
    target = schema.get("$ref")
    is_inside = isinstance(target, str) and target.startswith("#")
    return is_inside or any(map(refers_inside, schema.values()))


def _defined(name: str) -> str:
    return f"#/$defs/{name.replace('~', '~0').replace('/', '~1')}"


def _pointing_inside(
    value: JsonValue, named: Mapping[str, JsonValue], used: dict[str, JsonValue], at: str
) -> JsonValue:
    """Return a schema at a new place, with its references adapted."""
    if isinstance(value, list):
        return [_pointing_inside(item, named, used, at) for item in value]
    if not isinstance(value, dict):
        return value
    mapping = {key: _pointing_inside(item, named, used, at) for key, item in value.items()}
    target = value.get("$ref")
    if isinstance(target, str):
        name, _, pointer = target.partition("#")
        if name in named:
            used[name] = None
            mapping["$ref"] = f"{_defined(name)}{pointer}"
        elif not name:
            mapping["$ref"] = f"{at}{pointer}"
    return mapping
