"""JSON values as JSON Schema sees them: their types, and which of them are equal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from simkit.language.paths import is_array as is_array


def equal(left: Any, right: Any) -> bool:
    """Return whether two values are equal as JSON: ``1`` is ``1.0``, ``true`` is not ``1``."""
    if left is None or isinstance(left, (str, int, float)):
        return isinstance(left, bool) is isinstance(right, bool) and bool(left == right)
    if isinstance(left, Mapping):
        return (
            isinstance(right, Mapping)
            and len(left) == len(right)
            and all(key in right and equal(inner, right[key]) for key, inner in left.items())
        )
    if is_array(left):
        return (
            is_array(right)
            and len(left) == len(right)
            and all(equal(inner, outer) for inner, outer in zip(left, right, strict=True))
        )
    return bool(left == right)


def is_object(value: Any) -> bool:
    """Return whether a value is a mapping."""
    return value.__class__ is dict or isinstance(value, Mapping)


def is_number(value: Any) -> bool:
    """Return whether a value is a number; ``true`` is not."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_integer(value: Any) -> bool:
    """Return whether a value is a whole number; ``1.0`` is."""
    return is_number(value) and (isinstance(value, int) or value.is_integer())


TYPES: Final[Mapping[str, Callable[[Any], bool]]] = {
    "array": is_array,
    "boolean": lambda value: isinstance(value, bool),
    "integer": is_integer,
    "null": lambda value: value is None,
    "number": is_number,
    "object": is_object,
    "string": lambda value: isinstance(value, str),
}
