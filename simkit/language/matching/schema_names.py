"""Names in a matcher of values that have a JSON Schema.

``{amuont: 3}`` matches no value whose schema names only `amount`, so that its denial always holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from simkit.core.errors import ReferenceInvalid
from simkit.language.json_schema import Registry, is_array, is_object
from simkit.language.json_schema.schemas import referred
from simkit.language.matching.lists import unique_parts
from simkit.language.matching.misses import Path
from simkit.language.matching.operators import OF_ELEMENTS, OF_VALUE, inner_matchers, is_operator
from simkit.language.paths import parse

_ANY: Final = {"$any": True}
_ABSENT: Final = {"$absent": True}
"""The claim that nothing stands under a name, which then need not be one that is known."""
_DEEP: Final = 20
"""How many references of a schema are followed one after the other."""
_CONDITIONAL: Final = ("if", "then", "else")
_COMBINING: Final = ("allOf", "anyOf", "oneOf")
_OPEN: Final = ("patternProperties", "unevaluatedProperties", "propertyNames", "$dynamicRef")
"""Keywords of schemas whose names are not listed."""
_REQUIRING: Final = ("required", "dependentRequired")
_SPEAKING: Final = frozenset((*_COMBINING, *_CONDITIONAL, *_REQUIRING, "$ref", "dependentSchemas"))
"""Keywords by which a schema without `properties` speaks of names."""


class UnknownName(NamedTuple):
    """A key of a matcher that no value has."""

    path: Path
    """The place of the key in the matcher."""
    name: str
    known: tuple[str, ...]
    """The names that a value may have instead."""


class Place(Protocol):
    """Where a value stands, as far as its names are known."""

    def names(self) -> tuple[Mapping[str, Place], bool]:
        """Return the known names with their places, and whether there may be others."""

    def elements(self) -> Place | None:
        """Return the place of a list's elements; None if nothing is known of them."""


Inner: TypeAlias = tuple[Any, Any]
"""A schema, and the document in which its references are resolved."""


class SchemaPlace:
    """A value that one of several schemas allows, or that is one of several values."""

    def __init__(
        self, schemas: Iterable[Any], registry: Registry, values: Sequence[Any] = ()
    ) -> None:
        """``registry`` has the schemas that a ``$ref`` may name.

        JSON Schema allows names beside `properties` unless it forbids them. Here they count as
        forbidden where the schema does not speak of them.
        """
        self._inner: list[Inner] = [(schema, schema) for schema in schemas]
        self._registry, self._values = registry, values

    def names(self) -> tuple[Mapping[str, Place], bool]:
        """Return the known names with their places, and whether there may be others."""
        inner: dict[str, list[Inner]] = {}
        is_open = not self._inner
        for schema, root in self._inner:
            is_open |= self._is_open(schema, root, inner)
        mappings = [value for value in self._values if is_object(value)]
        known = dict.fromkeys((*inner, *(name for value in mappings for name in value)))
        return {
            name: self._at(
                inner.get(name, []), [value[name] for value in mappings if name in value]
            )
            for name in known
        }, is_open

    def elements(self) -> Place | None:
        """Return the place of a list's elements; None if nothing is known of them."""
        inner: list[Inner] = []
        is_open = False
        for schema, root in self._inner:
            for flat, own_root in self._flat(schema, root, 0):
                items, first = flat.get("items"), flat.get("prefixItems") or ()
                inner += [(items, own_root)] if is_object(items) else []
                inner += [(item, own_root) for item in first]
                # Behind the first elements, or in a list of which no more is said, are any.
                if not is_object(items) and items is not False:
                    is_open |= bool(first) or _allows(flat, "array")
        if is_open or not inner:
            return None
        lists = [value for value in self._values if is_array(value)]
        return self._at(inner, [item for value in lists for item in value])

    def _at(self, inner: list[Inner], values: Sequence[Any]) -> SchemaPlace:
        place = SchemaPlace((), self._registry, values)
        place._inner = inner
        return place

    def _is_open(self, schema: Any, root: Any, by_name: dict[str, list[Inner]]) -> bool:
        """Add the names of a schema; return whether there may be others."""
        is_listed = is_open = False
        for flat, own_root in self._flat(schema, root, 0):
            for name in _required(flat):
                by_name.setdefault(name, [])
            properties = flat.get("properties")
            if not isinstance(properties, Mapping):
                is_open |= _says_nothing(flat)
                continue
            is_listed = True
            is_open |= flat.get("additionalProperties", False) is not False
            is_open |= any(word in flat for word in _OPEN)
            for name, schema_of_name in properties.items():
                by_name.setdefault(name, []).append((schema_of_name, own_root))
        return is_open or not is_listed

    def _flat(self, schema: Any, root: Any, depth: int) -> Iterator[tuple[Mapping[str, Any], Any]]:
        """Yield a schema and those that it joins; an empty one if it says nothing of names."""
        if not is_object(schema) or depth > _DEEP:
            yield {}, root
            return
        target = schema.get("$ref")
        parts = [inner for word in _COMBINING for inner in schema.get(word) or ()]
        parts += [schema[word] for word in _CONDITIONAL if word in schema]
        parts += dict(schema.get("dependentSchemas") or {}).values()
        if (target is None and not parts) or len(schema) > 1:
            yield schema, root
        if target is not None:
            yield from self._flat(*referred(str(target), root, self._registry), depth + 1)
        for inner in parts:
            yield from self._flat(inner, root, depth + 1)


def _says_nothing(schema: Mapping[str, Any]) -> bool:
    """Return whether a schema without `properties` allows objects with any names."""
    if "const" in schema or "enum" in schema or schema.get("additionalProperties", False):
        return True
    return any(word in schema for word in _OPEN) or _allows(schema, "object")


def _allows(schema: Mapping[str, Any], kind: str) -> bool:
    """Return whether a schema itself says that a value may be of a kind, or says nothing at all."""
    if not schema:
        return True
    kinds = schema.get("type", ())
    kinds = (kinds,) if isinstance(kinds, str) else kinds
    return kind in kinds and _SPEAKING.isdisjoint(schema)


def _required(schema: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names that a schema requires."""
    dependent: Any = schema.get("dependentRequired")
    lists = [schema.get("required"), *(dependent.values() if is_object(dependent) else ())]
    for names in filter(is_array, lists):
        yield from names


class RecordPlace:
    """A value with some fields that are known."""

    def __init__(self, fields: Mapping[str, Place]) -> None:
        self._fields = fields

    def names(self) -> tuple[Mapping[str, Place], bool]:
        """Return the fields, beside which there may be others."""
        return self._fields, True

    def elements(self) -> None:
        """Return nothing: it is no list."""


def unknown_names(matcher: Any, place: Place, at: Path = ()) -> Iterator[UnknownName]:
    """Yield the keys of a matcher that no value at a place has, from the outside in.

    Claims that nothing stands under a name (``$absent: true``) may name anything.
    """
    if isinstance(matcher, (list, tuple)):
        yield from _of_elements(matcher, place, at)
        return
    if not isinstance(matcher, Mapping):
        return
    for key, operand in matcher.items():
        if is_operator(key):
            yield from _of_operator(key, operand, place, (*at, key))
        elif operand != _ABSENT:
            yield from _of_key(key.removeprefix("$"), operand, place, (*at, key))


def _of_elements(matchers: Iterable[Any], place: Place, at: Path) -> Iterator[UnknownName]:
    inner = place.elements()
    if inner is not None:
        for index, matcher in enumerate(matchers):
            yield from unknown_names(matcher, inner, (*at, index))


def _of_operator(key: str, operand: Any, place: Place, at: Path) -> Iterator[UnknownName]:
    if key in ("$eq", "$ne"):
        yield from unknown_names(operand, place, at)
    elif key in OF_VALUE:
        for path, matcher in inner_matchers(key, operand, at):
            yield from unknown_names(matcher, place, path)
    elif key == "$keys" and isinstance(operand, (list, tuple)):
        words = (name for name in operand if isinstance(name, str))
        for name in words:
            yield from unknown_names({name: _ANY}, place, at)
    elif key in OF_ELEMENTS and (inner := place.elements()) is not None:
        for path, matcher in inner_matchers(key, operand, at):
            yield from unknown_names(matcher, inner, path)
        for name in unique_parts(operand, at)[0] if key == "$unique" else ():
            yield from (unknown._replace(path=at) for unknown in unknown_names({name: _ANY}, inner))


def _of_key(key: str, operand: Any, place: Place, at: Path) -> Iterator[UnknownName]:
    """Yield the unknown names of one key, which may be a path, and of its operand."""
    known, _ = place.names()
    try:
        steps: Sequence[str | int] = (key,) if key in known else parse(key)
    except ReferenceInvalid:
        steps = (key,)
    inner: Place | None = place
    for step in steps:
        assert inner is not None
        if isinstance(step, int):
            inner = inner.elements()
        else:
            known, is_open = inner.names()
            inner = known.get(step)
            if inner is None and not is_open:
                yield UnknownName(at, step, tuple(known))
        if inner is None:
            return
    assert inner is not None
    yield from unknown_names(operand, inner, at)
