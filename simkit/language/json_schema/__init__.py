"""JSON Schema, draft 2020-12: a schema is compiled once to closures and then costs about 1 µs.

Errors read as the ``jsonschema`` library words them, so that they are recognised; tests hold the
two against each other. That library itself would cost 125 ms of import and 20 to 50 µs for each
handoff and output. Not read: ``format``, ``$id``, ``$anchor``. Refused, because passing over them
would pass what they forbid: ``unevaluatedProperties``, ``unevaluatedItems``, ``$dynamicRef``.
"""

from __future__ import annotations

from typing import Any, Final

from simkit.language.json_schema import general, lists, mappings, sizes
from simkit.language.json_schema.document import (
    Check,
    Document,
    Path,
    Registry,
    SchemaError,
    place_text,
)
from simkit.language.json_schema.values import TYPES, equal, is_array, is_number, is_object

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

_KEYWORDS: Final = {
    **general.KEYWORDS,
    **sizes.KEYWORDS,
    **lists.KEYWORDS,
    **mappings.KEYWORDS,
}


def compile_schema(schema: Any, registry: Registry | None = None, at: Path = ()) -> Check:
    """Return the function value → errors; raise MatcherError for a schema that is none.

    ``at`` is where the schema stands, and begins the path of the MatcherError.
    """
    return Document("", schema, registry or {}, _KEYWORDS, {}).compile(schema, at)


def check_schema(schema: Any, registry: Registry | None = None) -> None:
    """Raise MatcherError for a schema that is none."""
    compile_schema(schema, registry)


def schema_errors(schema: Any, value: Any, registry: Registry | None = None) -> list[SchemaError]:
    """List what is wrong with a value.

    A schema object is compiled when it is first asked about; whoever asks promises not to change
    it.
    """
    key = id(schema), id(registry)
    compiled = _COMPILED.get(key)
    if compiled is None or compiled[0] is not schema or compiled[1] is not registry:
        if len(_COMPILED) >= _COMPILED_MAX:
            _COMPILED.clear()
        compiled = _COMPILED[key] = (schema, registry, compile_schema(schema, registry))
    return list(compiled[2](value))


_COMPILED: Final[dict[tuple[int, int], tuple[Any, Any, Check]]] = {}
"""Schemas by identity, kept alive so that the identity stays theirs."""
_COMPILED_MAX: Final = 512
