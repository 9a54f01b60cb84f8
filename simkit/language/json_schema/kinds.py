"""The kinds of JSON values that a schema allows, as far as it restricts them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from simkit.language.json_schema import Registry

_NOTHING: Final[Registry] = {}


def types_in(schema: Any, registry: Registry = _NOTHING) -> frozenset[str] | None:
    """Return the JSON types of the values that a schema allows; None if any type is allowed."""
    return _types(schema, schema, registry, frozenset())


def _types(
    schema: Any, root: Any, registry: Registry, within: frozenset[str]
) -> frozenset[str] | None:
    if not isinstance(schema, Mapping):
        return None
    names_found: frozenset[str] | None = None
    declared = schema.get("type")
    if declared is not None:
        names_found = frozenset([declared] if isinstance(declared, str) else declared)
    target = schema.get("$ref")
    if isinstance(target, str) and target not in within:
        names_found = _both(names_found, _referred(target, root, registry, within | {target}))
    for word in ("anyOf", "oneOf"):
        if isinstance(schema.get(word), (list, tuple)):
            names_found = _both(
                names_found, _any(_types(o, root, registry, within) for o in schema[word])
            )
    for inner_schema in schema.get("allOf") or ():
        names_found = _both(names_found, _types(inner_schema, root, registry, within))
    return names_found


def _referred(
    target: str, root: Any, registry: Registry, within: frozenset[str]
) -> frozenset[str] | None:
    if not target.startswith("#"):
        named = registry.get(target)
        return _types(named, named, registry, within)
    target_found = root
    for step in target.removeprefix("#").strip("/").split("/") if target != "#" else ():
        key = step.replace("~1", "/").replace("~0", "~")
        target_found = target_found.get(key) if isinstance(target_found, Mapping) else None
    return _types(target_found, root, registry, within)


def _both(left: frozenset[str] | None, right: frozenset[str] | None) -> frozenset[str] | None:
    if left is None or right is None:
        return right if left is None else left
    return left & right


def _any(all_found: Iterable[frozenset[str] | None]) -> frozenset[str] | None:
    union: frozenset[str] = frozenset()
    for problem in all_found:
        if problem is None:
            return None
        union |= problem
    return union
