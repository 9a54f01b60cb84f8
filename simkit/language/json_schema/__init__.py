"""JSON Schema, draft 2020-12: the library `jsonschema` gives the verdict on a value, and its words.

simkit checks a schema's own form, with a path and a near word for each error. Not read: ``format``
and ``$id``. Rejected, because to ignore them would accept invalid values:
``unevaluatedProperties``, ``unevaluatedItems``, ``$dynamicRef``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from simkit.language.json_schema.schemas import (
    TYPES,
    Path,
    Registry,
    SchemaError,
    SchemaReader,
    equal,
    errors_in,
    is_array,
    is_number,
    is_object,
    plain,
    validator_of,
)

Check: TypeAlias = Callable[[Any], Sequence[SchemaError]]


def compile_schema(schema: Any, registry: Registry | None = None, at: Path = ()) -> Check:
    """Return the function value → errors; raise MatcherError for an invalid schema.

    ``at`` is the path of the schema, with which the path of the MatcherError begins.
    """
    reader = SchemaReader(schema, registry or {}, at)
    validator: Any = None

    def check(value: Any) -> list[SchemaError]:
        nonlocal validator
        if validator is None:
            validator = validator_of(reader)
        return errors_in(plain(value), validator)

    return check


def check_schema(schema: Any, registry: Registry | None = None) -> None:
    """Raise MatcherError for an invalid schema."""
    SchemaReader(schema, registry or {}, ())


def schema_errors(
    schema: Any, value: Any, registry: Registry | None = None
) -> Sequence[SchemaError]:
    """List the errors of a value.

    A schema object is compiled on first use; the caller must not change it afterwards.
    """
    key = id(schema), id(registry)
    entry = _CHECKS.get(key)
    if entry is None:
        if len(_CHECKS) >= _CHECKS_MAX:
            _CHECKS.clear()
        entry = _CHECKS[key] = schema, registry, compile_schema(schema, registry)
    return entry[2](value)


_CHECKS: Final[dict[tuple[int, int], tuple[Any, Registry | None, Check]]] = {}
"""The checks of schemas by identity; they keep their schema, so that no other gets its identity."""
_CHECKS_MAX: Final = 512


def place_text(path: Path) -> str:
    """Return an error's path as a suffix of a name: ``.items[0].kcal``, or empty."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
