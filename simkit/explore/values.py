"""Values that a JSON Schema allows, decided by choices.

The simplest value is that of `simkit.language.json_schema.examples`. Texts are rather one that the
conversation has mentioned, such as an order's number, than noise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from simkit.explore.choices import Choices
from simkit.language.json_schema import schema_errors
from simkit.language.json_schema.examples import example_of, format_of, schema_at, type_of

_DEEP: Final = 8
"""How far a schema is followed; below, values are examples."""
_ITEMS_MAX: Final = 2
"""The number of items beyond the least that a list may have."""
_KNOWN_WEIGHT: Final = 7
"""How much likelier a text that the conversation knows is than another one."""
_UNLIKELY: Final[Sequence[Any]] = ({"not": "this"}, [], 7.5)
"""Values that few schemas allow."""
_BOUNDS: Final = ("pattern", "minLength", "maxLength")
_NUMBERS: Final = (0, 1, -1, 2, 100)


def value_of(
    schema: Any, choices: Choices, known: Sequence[str], schemas: Mapping[str, Any]
) -> Any:
    """Return a value that the schema allows; raise ValueError if none is known.

    ``known`` are texts of the conversation, ``schemas`` those that a ``$ref`` may name.
    """
    for value in (_Maker(schema, choices, known).make(schema, "value", 0), example_of(schema)):
        if not schema_errors(schema, value, schemas):
            return value
    raise ValueError("no value of this schema is known")


def wrong_value(schema: Any, value: Any, choices: Choices, schemas: Mapping[str, Any]) -> Any:
    """Return a mapping near ``value`` that the schema does not allow; None if none is known."""
    if not isinstance(value, dict):
        return None
    required = schema.get("required") or () if isinstance(schema, Mapping) else ()
    candidates = [{k: v for k, v in value.items() if k != name} for name in required]
    candidates += [{**value, name: wrong} for name in value for wrong in _UNLIKELY]
    invalid = [candidate for candidate in candidates if schema_errors(schema, candidate, schemas)]
    return choices.one_of(invalid) if invalid else None


class _Maker:
    def __init__(self, root: Any, choices: Choices, known: Sequence[str]) -> None:
        self._root, self._choices, self._known = root, choices, known

    def make(self, schema: Any, name: str, depth: int) -> Any:
        """Return a value; ``name`` is the key under which it stands."""
        if not isinstance(schema, Mapping) or depth > _DEEP:
            return name
        if "$ref" in schema:
            return self.make(schema_at(self._root, str(schema["$ref"])), name, depth + 1)
        if "const" in schema:
            return schema["const"]
        if schema.get("enum"):
            return self._choices.one_of(schema["enum"])
        members = schema.get("anyOf") or schema.get("oneOf")
        if members:
            return self.make(self._choices.one_of(members), name, depth + 1)
        if schema.get("allOf"):
            return self._all_of(schema["allOf"], name, depth)
        return self._of_type(type_of(schema), schema, name, depth)

    def _all_of(self, parts: Sequence[Any], name: str, depth: int) -> Any:
        merged: dict[str, Any] = {}
        for part in parts:
            value = self.make(part, name, depth + 1)
            if not isinstance(value, dict):
                return value
            merged |= value
        return merged

    def _of_type(self, kind: str, schema: Mapping[str, Any], name: str, depth: int) -> Any:
        choices = self._choices
        if kind == "object":
            return self._object(schema, depth)
        if kind == "array":
            least = schema.get("minItems", 0)
            most = min(schema.get("maxItems", least + _ITEMS_MAX), least + _ITEMS_MAX)
            count = least + choices.below(most - least + 1)
            return [self.make(schema.get("items", {}), name, depth + 1) for _ in range(count)]
        if kind == "boolean":
            return bool(1 - choices.below(2))
        example = example_of(schema, name)
        if kind == "string" and not format_of(schema, name):
            return self._text(example, schema)
        if kind in ("integer", "number"):
            return choices.one_of([example, *_NUMBERS])
        return example

    def _object(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        required = schema.get("required") or ()
        inner = schema.get("properties") or {}
        keys = [key for key in inner if key in required or self._choices.below(2)]
        keys += [key for key in required if key not in inner]
        return {key: self.make(inner.get(key, {}), key, depth + 1) for key in keys}

    def _text(self, example: Any, schema: Mapping[str, Any]) -> Any:
        """Return a text that the conversation knows, or now and then another one.

        It is never empty: a model that hands on nothing is no fault of the pipeline.
        """
        texts = self._known
        if "pattern" in schema:
            bounds = {key: schema[key] for key in _BOUNDS if key in schema}
            texts = [text for text in texts if not schema_errors(bounds, text)]
        return self._choices.weighted([*((text, _KNOWN_WEIGHT) for text in texts), (example, 1)])
