"""JSON Schema, draft 2020-12: a schema is compiled once to closures and then costs about 1 µs.

Error texts are those of the ``jsonschema`` library, because users know them; tests compare the two.
That library itself would cost 125 ms of import and 20 to 50 µs for each handoff and output. Not
read: ``format``, ``$id``, ``$anchor``. Rejected, because to ignore them would accept invalid
values: ``unevaluatedProperties``, ``unevaluatedItems``, ``$dynamicRef``.
"""

from __future__ import annotations

from typing import Any, Final

from simkit.language.json_schema.document import (
    TYPES,
    Check,
    Document,
    Path,
    Registry,
    SchemaError,
    equal,
    is_array,
    is_number,
    is_object,
    place_text,
)
from simkit.language.json_schema.keywords import KEYWORDS
from simkit.language.json_schema.quick import QuickTest, quick_test

__all__ = [
    "TYPES",
    "Check",
    "Path",
    "Registry",
    "SchemaError",
    "check_schema",
    "compile_schema",
    "equal",
    "is_array",
    "is_number",
    "is_object",
    "place_text",
    "schema_errors",
]


def compile_schema(schema: Any, registry: Registry | None = None, at: Path = ()) -> Check:
    """Return the function value → errors; raise MatcherError for an invalid schema.

    ``at`` is the path of the schema, with which the path of the MatcherError begins.
    """
    return Document("", schema, registry or {}, KEYWORDS, {}).compile(schema, at)


def check_schema(schema: Any, registry: Registry | None = None) -> None:
    """Raise MatcherError for an invalid schema."""
    compile_schema(schema, registry)


class _Compiled:
    """A compiled schema, kept alive, so that no other object gets its identity."""

    __slots__ = ("check", "holds", "registry", "schema", "uses")

    def __init__(self, schema: Any, registry: Registry | None) -> None:
        self.schema, self.registry = schema, registry
        self.check = compile_schema(schema, registry)
        self.uses = 0
        self.holds: QuickTest | None = None
        """Its quick test, once it is used often, if it has one."""


def schema_errors(schema: Any, value: Any, registry: Registry | None = None) -> list[SchemaError]:
    """List the errors of a value.

    A schema object is compiled on first use; the caller must not change it afterwards.
    """
    key = id(schema), id(registry)
    compiled = _COMPILED.get(key)
    if compiled is None or compiled.schema is not schema or compiled.registry is not registry:
        if len(_COMPILED) >= _COMPILED_MAX:
            _COMPILED.clear()
        compiled = _COMPILED[key] = _Compiled(schema, registry)
    if compiled.holds is not None:
        if compiled.holds(value):
            return []
    elif compiled.uses < _USES_MAX:
        compiled.uses += 1
        if compiled.uses == _USES_MAX:
            compiled.holds = quick_test(schema)
    return list(compiled.check(value))


_COMPILED: Final[dict[tuple[int, int], _Compiled]] = {}
"""Compiled schemas by identity."""
_COMPILED_MAX: Final = 512
_USES_MAX: Final = 100
"""The number of checks of a schema after which it gets a quick test."""
