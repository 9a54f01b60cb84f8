"""The form of a schema: each operand fits its keyword, and each reference leads to a schema.

The metaschema of JSON Schema would find the same errors, in words that name no remedy.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, TypeAlias
from urllib.parse import quote

from simkit.core.errors import MatcherError
from simkit.core.messages import Message
from simkit.language.expressions import Expression
from simkit.language.json_schema.values import TYPES, is_array, is_integer, is_number

Path: TypeAlias = tuple[str | int, ...]
Registry: TypeAlias = Mapping[str, Any]
"""Schemas by the name that a ``$ref`` uses."""

expression: Final = lru_cache(maxsize=1024)(Expression)


class _Never(dict[str, Any]):
    """Stands for ``false``: `jsonschema` 4.26 forgets the key in front of a bare one."""

    def __repr__(self) -> str:
        return "False"


NEVER: Final = "x-simkit-never"
"""The only keyword of such a schema."""
_NEVER: Final = _Never({NEVER: True})
_SHOWN_MAX: Final = 200
_REFUSED: Final = frozenset({"unevaluatedItems", "unevaluatedProperties", "$dynamicRef"})
"""Rejected, because to ignore them would accept invalid values."""
_NOT_READ: Final = frozenset({"$id", "$dynamicAnchor", "$schema"})
"""Left out of what `jsonschema` gets: they would change what a ``$ref`` means, or the draft."""
_SINGLE: Final = frozenset(
    ("additionalProperties", "contains", "else", "if", "items", "not", "propertyNames", "then")
)
_SEVERAL: Final = frozenset(("allOf", "anyOf", "oneOf", "prefixItems"))
_NAMED: Final = frozenset(
    ("$defs", "definitions", "dependentSchemas", "patternProperties", "properties")
)
"""Keywords whose operand is one schema, a list of them, and a mapping of them."""


def _is_count(operand: Any) -> bool:
    return is_integer(operand) and operand >= 0


def _is_texts(operand: Any) -> bool:
    return is_array(operand) and all(isinstance(text, str) for text in operand)


def _is_mapping(operand: Any) -> bool:
    return isinstance(operand, Mapping)


_OPERANDS: Final[Mapping[str, tuple[Callable[[Any], bool], str]]] = {
    **dict.fromkeys(_SEVERAL, (lambda v: is_array(v) and len(v) > 0, "a list of schemas")),
    **dict.fromkeys(_NAMED, (_is_mapping, "a mapping of schemas")),
    **dict.fromkeys(
        ("minContains", "maxContains", "minItems", "maxItems", "minLength", "maxLength",
         "minProperties", "maxProperties"),
        (_is_count, "a count"),
    ),
    **dict.fromkeys(
        ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), (is_number, "a number")
    ),
    "multipleOf": (lambda v: is_number(v) and v > 0, "a number above 0"),
    "$ref": (lambda v: isinstance(v, str), "a text"),
    "dependentRequired": (_is_mapping, "a mapping"),
    "enum": (is_array, "a list of values"),
    "pattern": (lambda v: isinstance(v, str), "a regular expression"),
    "required": (_is_texts, "a list of texts"),
    "type": (lambda v: isinstance(v, str) or (_is_texts(v) and len(v) > 0), "a type's name"),
    "uniqueItems": (lambda v: isinstance(v, bool), "true or false"),
}  # fmt: skip
"""Keyword to what its operand must be, and how messages call that."""


def plain(value: Any) -> Any:
    """Return a value with lists and mappings of any class as those of JSON."""
    if isinstance(value, Message):
        return {"role": value.role, "content": value.content}
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if is_array(value):
        return [plain(item) for item in value]
    return value


def shortened(text: str) -> str:
    """Return the text of a value as messages show it."""
    return text if len(text) <= _SHOWN_MAX else text[: _SHOWN_MAX - 1] + "…"


class SchemaReader:
    """Checks one schema and the named ones to which it refers.

    Its copies for `jsonschema` need no network and no other draft.
    """

    def __init__(self, schema: Any, registry: Registry, at: Path) -> None:
        """Raise MatcherError with the path of an invalid part, which begins with ``at``."""
        self._registry: Registry = {**registry, "": schema}
        self._targets: set[tuple[str, str]] = set()
        """The targets of references, by document and pointer."""
        self.documents: dict[str, Any] = {}
        """The copies of the named schemas to which it refers, by their place in references."""
        self.schema = self._read(schema, at, "")

    def _read(self, schema: Any, at: Path, document: str) -> Any:
        if schema is True:
            return schema
        if schema is False:
            return _NEVER
        if not isinstance(schema, Mapping):
            problem = f"a schema is a mapping, true or false, not {_value_text(schema)}"
            raise MatcherError(at, problem)
        copy: dict[str, Any] = {}
        for word, operand in schema.items():
            if word in _REFUSED:
                raise MatcherError((*at, word), f"`{word}` is not supported", word)
            if word not in _NOT_READ:
                _check_operand(word, operand, (*at, word))
                copy[word] = self._operand(word, operand, (*at, word), document)
        return copy

    def _operand(self, word: str, operand: Any, at: Path, document: str) -> Any:
        """Return the copy of an operand, whose schemas are read."""
        if word == "$ref":
            return self._reference(operand, at, document)
        if word in _SINGLE:
            # A bare `false` here has words of its own.
            return operand if operand is False else self._read(operand, at, document)
        if word in _SEVERAL:
            return [self._read(item, (*at, n), document) for n, item in enumerate(operand)]
        if word in _NAMED:
            return {key: self._read(item, (*at, key), document) for key, item in operand.items()}
        return plain(operand)

    def _reference(self, target: str, at: Path, document: str) -> str:
        name, pointer, schema = self._target(target, at, document)
        if (name, pointer) not in self._targets:
            self._targets.add((name, pointer))
            self._refuse_endless(schema, (name, pointer), target, at)
            self._read(schema, at, name)
        key = quote(name, safe="")
        if name and key not in self.documents:
            self.documents[key] = True
            self.documents[key] = self._read(self._registry[name], at, name)
        return f"{key if name != document else ''}#{quote(pointer, safe='/~')}"

    def _target(self, target: str, at: Path, document: str) -> tuple[str, str, Any]:
        """Return the document, the pointer and the schema of a reference."""
        name, _, pointer = target.partition("#")
        if name and name not in self._registry:
            known = tuple(sorted(self._registry.keys() - {""}))
            raise MatcherError(at, f"no schema is named {name!r}", name, known)
        schema = self._registry[name or document]
        if pointer and not pointer.startswith("/"):
            schema = _anchored(schema, pointer)
            if schema is None:
                raise MatcherError(at, f"`$ref: {target}` leads nowhere", pointer)
        for word in pointer.split("/")[1:]:
            word = word.replace("~1", "/").replace("~0", "~")
            if isinstance(schema, Mapping) and word in schema:
                schema = schema[word]
            elif is_array(schema) and word.isdecimal() and int(word) < len(schema):
                schema = schema[int(word)]
            else:
                known = tuple(sorted(schema)) if isinstance(schema, Mapping) else ()
                raise MatcherError(at, f"`$ref: {target}` leads nowhere", word, known)
        return name or document, pointer, schema

    def _refuse_endless(self, schema: Any, key: tuple[str, str], target: str, at: Path) -> None:
        """Reject a reference that leads to itself without reading a value."""
        document, visited = key[0], {key}
        while isinstance(schema, Mapping) and isinstance(schema.get("$ref"), str):
            document, pointer, schema = self._target(schema["$ref"], at, document)
            if (document, pointer) in visited:
                raise MatcherError(at, f"`$ref: {target}` leads back to itself", target)
            visited.add((document, pointer))


def _anchored(schema: Any, name: str) -> Any:
    """Return the schema with an ``$anchor``; None if there is none."""
    if isinstance(schema, Mapping) and schema.get("$anchor") == name:
        return schema
    inner = schema.values() if isinstance(schema, Mapping) else schema if is_array(schema) else ()
    return next(filter(None, (_anchored(part, name) for part in inner)), None)


def _check_operand(word: str, operand: Any, at: Path) -> None:
    if word == "items" and is_array(operand):
        raise MatcherError(at, "`items` takes one schema for all elements", "", ("prefixItems",))
    if word not in _OPERANDS:
        return
    fits, noun = _OPERANDS[word]
    if not fits(operand):
        raise MatcherError(at, f"`{word}` takes {noun}, not {_value_text(operand)}")
    if word == "type":
        for name in [operand] if isinstance(operand, str) else operand:
            if name not in TYPES:
                raise MatcherError(at, f"no type is named {name!r}", name, tuple(sorted(TYPES)))
    elif word == "dependentRequired":
        for name, names in operand.items():
            if not _is_texts(names):
                problem = f"`{name}` takes a list of texts, not {_value_text(names)}"
                raise MatcherError((*at, name), problem)
    elif word in ("pattern", "patternProperties"):
        _check_patterns([operand] if word == "pattern" else operand, at)


def _check_patterns(patterns: Iterable[str], at: Path) -> None:
    for pattern in patterns:
        try:
            expression(pattern)
        except re.error as error:
            problem = f"{pattern!r} is no regular expression: {error}"
            raise MatcherError(at, problem) from None


def _value_text(value: Any) -> str:
    return shortened(repr(plain(value)))
