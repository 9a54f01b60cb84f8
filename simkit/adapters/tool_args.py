"""The arguments with which a tool was really called, as far as they are the tool's own. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simkit.core.messages import JsonValue


def received(
    args: Mapping[str, Any], request_args: JsonValue, schema: JsonValue
) -> Mapping[str, Any]:
    """Returns a call's arguments without those that a framework injects: state, a context object.

    Injected is what the schema, with which the model was offered the tool, does not name and the
    model did not say. A function that takes the model's arguments under other names, or whole, has
    no such schema: all of its arguments count.
    """
    values = request_args if isinstance(request_args, Mapping) else {}
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping) or not {*values} <= {*args}:
        return args
    return {name: value for name, value in args.items() if name in properties or name in values}
