"""Schemas as the pipeline names them, looked up."""

from __future__ import annotations

from collections.abc import Mapping

from simkit.errors import Unsupported
from simkit.messages import JsonValue
from simkit.runtime.functions import function_named


def schema_of(schema: JsonValue, named: Mapping[str, JsonValue]) -> JsonValue:
    """Returns a schema with ``{$ref: Name}`` looked up, and ``module:Model`` asked."""
    if isinstance(schema, dict) and set(schema) == {"$ref"}:
        return named.get(schema["$ref"], schema)
    if isinstance(schema, str):
        model = function_named(schema)
        describe = getattr(model, "model_json_schema", None)
        if describe is None:
            raise Unsupported(f"`{schema}` is no pydantic model")
        return describe()
    return schema
