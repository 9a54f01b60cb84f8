"""Which kinds of JSON values a schema lets through, as far as it says so."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from simkit.language.json_schema.document import Registry

_NOTHING: Final[Registry] = {}


def types_in(schema: Any, registry: Registry = _NOTHING) -> frozenset[str] | None:
    """Returns the JSON types of the values that a schema allows; None where it may be any."""
    return _types(schema, schema, registry, frozenset())


def _types(
    schema: Any, root: Any, registry: Registry, within: frozenset[str]
) -> frozenset[str] | None:
    if not isinstance(schema, Mapping):
        return None
    found: frozenset[str] | None = None
    said = schema.get("type")
    if said is not None:
        found = frozenset([said] if isinstance(said, str) else said)
    target = schema.get("$ref")
    if isinstance(target, str) and target not in within:
        found = _both(found, _referred(target, root, registry, within | {target}))
    for word in ("anyOf", "oneOf"):
        if isinstance(schema.get(word), (list, tuple)):
            found = _both(found, _any(_types(o, root, registry, within) for o in schema[word]))
    for one in schema.get("allOf") or ():
        found = _both(found, _types(one, root, registry, within))
    return found


def _referred(
    target: str, root: Any, registry: Registry, within: frozenset[str]
) -> frozenset[str] | None:
    if not target.startswith("#"):
        named = registry.get(target)
        return _types(named, named, registry, within)
    found = root
    for step in target.removeprefix("#").strip("/").split("/") if target != "#" else ():
        key = step.replace("~1", "/").replace("~0", "~")
        found = found.get(key) if isinstance(found, Mapping) else None
    return _types(found, root, registry, within)


def _both(one: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    if one is None or other is None:
        return other if one is None else one
    return one & other


def _any(all_found: Iterable[frozenset[str] | None]) -> frozenset[str] | None:
    union: frozenset[str] = frozenset()
    for found in all_found:
        if found is None:
            return None
        union |= found
    return union
