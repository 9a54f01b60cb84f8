"""JSON values, the form of a schema, and the verdict on a value.

Each operand must fit its keyword, and each reference lead to a schema. The metaschema of JSON
Schema would find the same errors, in words that name no remedy. The verdict is that of the library
`jsonschema`, in its words; it is imported when the first value is checked, which takes a tenth of a
second.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, lru_cache
from typing import Any, Final, TypeAlias
from urllib.parse import quote

from simkit.core.errors import MatcherError
from simkit.core.messages import Message
from simkit.core.text import short_end
from simkit.language.expressions import Expression
from simkit.language.paths import is_array as is_array
from simkit.language.paths import parts_of, with_parts


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
        (lambda operand: is_integer(operand) and operand >= 0, "a count"),
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
_KEYWORDS: Final = (
    *_OPERANDS, *_SINGLE, *_REFUSED, *_NOT_READ, "$anchor", "$comment", "const", "contentSchema",
    "default", "deprecated", "description", "example", "examples", "format", "nullable", "title",
)  # fmt: skip
_NEAR: Final = 0.85
"""How like a keyword a word must be that is none: a library may have words of its own."""


def plain(value: Any) -> Any:
    """Return a value with lists and mappings of any class as those of JSON."""
    if isinstance(value, Message):
        return {"role": value.role, "content": value.content}
    return with_parts(value, plain)


def shortened(text: str) -> str:
    """Return the text of a value as messages show it."""
    return short_end(text, _SHOWN_MAX)


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
            raise MatcherError(at, problem, advice="Write one as `{required: [order_id]}`.")
        copy: dict[str, Any] = {}
        for word in filter(lambda word: word not in _KEYWORDS, schema):
            from difflib import get_close_matches  # Hardly any schema needs it.

            if nearest := get_close_matches(str(word), _KEYWORDS, 1, _NEAR):
                problem = f"`{word}` is no keyword of JSON Schema"
                raise MatcherError((*at, word), problem, advice=f"did you mean `{nearest[0]}`?")
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
    return next(filter(None, (_anchored(part, name) for part in parts_of(schema))), None)


def _check_operand(word: str, operand: Any, at: Path) -> None:
    if word == "items" and is_array(operand):
        raise MatcherError(at, "`items` takes one schema for all elements", "", ("prefixItems",))
    if word not in _OPERANDS:
        return
    fits, noun = _OPERANDS[word]
    if not fits(operand):
        problem = f"`{word}` takes {noun}, not {_value_text(operand)}"
        raise MatcherError(at, problem, "", (), _advice(noun, operand))
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


def _advice(noun: str, operand: Any) -> str:
    is_bare = noun.startswith("a list") and not is_array(operand)
    return "Put brackets around all: `[…]`." if is_bare else ""


def _check_patterns(patterns: Iterable[str], at: Path) -> None:
    for pattern in patterns:
        try:
            expression(pattern)
        except re.error as error:
            problem = f"{pattern!r} is no regular expression: {error}"
            raise MatcherError(at, problem) from None


def _value_text(value: Any) -> str:
    return shortened(repr(plain(value)))


_NOTHING: Final[Registry] = {}


def referred(reference: str, root: Any, registry: Registry = _NOTHING) -> tuple[Any, Any]:
    """Return the schema that a ``$ref`` in a document names, and the document that holds it.

    The schema is None if it is not there, or has an anchor for a name.
    """
    name, _, pointer = reference.partition("#")
    root = registry.get(name) if name else root
    if pointer and not pointer.startswith("/"):
        return None, root
    schema = root
    for step in pointer.split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        schema = schema.get(key) if isinstance(schema, Mapping) else None
    return schema, root


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
        place = referred(target, root, registry)
        names_found = _both(names_found, _types(*place, registry, within | {target}))
    for word in ("anyOf", "oneOf"):
        if isinstance(schema.get(word), (list, tuple)):
            names_found = _both(
                names_found, _any(_types(o, root, registry, within) for o in schema[word])
            )
    for inner_schema in schema.get("allOf") or ():
        names_found = _both(names_found, _types(inner_schema, root, registry, within))
    return names_found


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


SchemaError: TypeAlias = tuple[Path, str]
"""A path inside the value, and the error there."""


def errors_in(value: Any, validator: Any) -> list[SchemaError]:
    """List the errors of a plain value."""
    return [
        (tuple(error.absolute_path), _text(error.message, error.instance))
        for error in validator.iter_errors(value)
    ]


def _text(message: str, value: Any) -> str:
    text = repr(value)
    return message.replace(text, shortened(text), 1)


def validator_of(schema: SchemaReader) -> Any:
    """Return the validator of a schema, which knows the named ones and nothing of the network."""
    from referencing import Registry
    from referencing.jsonschema import DRAFT202012

    # The registry that `jsonschema` has otherwise fetches what a `$ref` names.
    documents = schema.documents.items()
    named = [(name, DRAFT202012.create_resource(document)) for name, document in documents]
    return _validator_class()(schema.schema, registry=Registry().with_resources(named))


@cache
def _validator_class() -> Any:
    """Return `jsonschema`'s class with simkit's regular expressions, which are limited in time."""
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    return extend(
        Draft202012Validator,
        {
            NEVER: _never,
            "additionalProperties": _additional_properties,
            "multipleOf": _multiple_of,
            "pattern": _pattern,
            "patternProperties": _pattern_properties,
        },
        type_checker=Draft202012Validator.TYPE_CHECKER.redefine(
            "number", lambda _, value: is_number(value)
        ),
    )


def _error(message: str) -> Any:
    from jsonschema import ValidationError

    return ValidationError(message)


def _never(_: Any, __: Any, value: Any, ___: Any) -> Iterator[Any]:
    yield _error(f"False schema does not allow {value!r}")


def _pattern(_: Any, pattern: str, value: Any, __: Any) -> Iterator[Any]:
    if isinstance(value, str) and expression(pattern).search(value) is None:
        yield _error(f"{value!r} does not match {pattern!r}")


def _pattern_properties(
    validator: Any, schemas: Mapping[str, Any], value: Any, _: Any
) -> Iterator[Any]:
    if isinstance(value, dict):
        for pattern, schema in schemas.items():
            for key, inner in value.items():
                if expression(pattern).search(key):
                    yield from validator.descend(inner, schema, path=key, schema_path=pattern)


def _additional_properties(
    validator: Any, schema: Any, value: Any, whole: Mapping[str, Any]
) -> Iterator[Any]:
    """Yield the errors in a fixed order: the library's own follows the hashes of the keys."""
    if not isinstance(value, dict):
        return
    patterns = sorted(whole.get("patternProperties", ()))
    extra = sorted(
        key
        for key in value
        if key not in whole.get("properties", ())
        and not any(expression(pattern).search(key) for pattern in patterns)
    )
    if schema is not False:
        for key in extra:
            yield from validator.descend(value[key], schema, path=key)
    elif extra:
        listed, is_one = ", ".join(map(repr, extra)), len(extra) == 1
        if patterns:
            known, verb = ", ".join(map(repr, patterns)), "does" if is_one else "do"
            yield _error(f"{listed} {verb} not match any of the regexes: {known}")
        else:
            verb = "was" if is_one else "were"
            yield _error(f"Additional properties are not allowed ({listed} {verb} unexpected)")


def _multiple_of(validator: Any, number: Any, value: Any, schema: Any) -> Iterator[Any]:
    """Yield an error for NaN and infinity, too, with which the library fails."""
    if isinstance(value, float) and not math.isfinite(value):
        yield _error(f"{value!r} is not a multiple of {number!r}")
        return
    from jsonschema import Draft202012Validator

    yield from Draft202012Validator.VALIDATORS["multipleOf"](validator, number, value, schema) or ()
