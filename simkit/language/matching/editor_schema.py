"""The JSON Schema of a matcher, so that an editor knows the operators."""

from __future__ import annotations

from typing import Any

from simkit.language.matching.operators import OPERATORS


def matcher_json_schema() -> dict[str, Any]:
    """Return the ``$defs`` that describe a matcher; refer to it as ``#/$defs/matcher``."""
    operators = {
        name: {**operator.takes, "description": operator.says}
        for name, operator in OPERATORS.items()
    }
    matcher = {"$ref": "#/$defs/matcher"}
    plain = {"^(\\$\\$|[^$]|$)": matcher}
    operators["$exact"] = {
        "description": OPERATORS["$exact"].says,
        "type": "object",
        "patternProperties": plain,
        "additionalProperties": False,
    }
    return {
        "matcher": {
            "description": "A scalar is equal, a list whole and in order, a mapping partial.",
            "anyOf": [
                {"type": ["string", "number", "boolean", "null"]},
                {"type": "array", "items": matcher},
                {"$ref": "#/$defs/mapping_matcher"},
            ],
        },
        "mapping_matcher": {
            "type": "object",
            "minProperties": 1,
            "properties": operators,
            "patternProperties": plain,
            "additionalProperties": False,
        },
    }
