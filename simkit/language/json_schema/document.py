"""A compiled schema: functions value → errors, and the compilation of one document."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias, final

from simkit.core.errors import MatcherError
from simkit.core.messages import Message
from simkit.language.expressions import Expression
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


# One schema document, and the functions value → errors that it compiles to


Path: TypeAlias = tuple[str | int, ...]
SchemaError: TypeAlias = tuple[Path, str]
"""A path inside the value, and the error there."""
Check: TypeAlias = Callable[[Any], Sequence[SchemaError]]
Registry: TypeAlias = Mapping[str, Any]
"""Schemas by the name that a ``$ref`` uses."""

HOLDS: Final[tuple[SchemaError, ...]] = ()
_SHOWN_MAX: Final = 200
_REFUSED: Final = frozenset({"unevaluatedItems", "unevaluatedProperties", "$dynamicRef"})


@final
class Document:
    """One schema document, in which references ``#/…`` are resolved."""

    def __init__(
        self,
        name: str,
        root: Any,
        registry: Registry,
        keywords: Mapping[str, Keyword],
        checks: dict[tuple[str, str], Check],
    ) -> None:
        self.name, self.root, self.registry, self.keywords = name, root, registry, keywords
        self.checks = checks
        """The checks of reference targets, by document and pointer; all documents share them."""

    def compile(self, schema: Any, at: Path) -> Check:
        """Return the check of one schema; raise MatcherError with the path of an invalid part."""
        if schema is True:
            return lambda value: HOLDS
        if schema is False:
            return assertion(
                lambda value: False,
                lambda value: f"False schema does not allow {value_text(value)}",
            )
        if not isinstance(schema, Mapping):
            raise MatcherError(
                at, f"a schema is a mapping, true or false, not {value_text(schema)}"
            )
        checks = []
        for word, operand in schema.items():
            if word in _REFUSED:
                raise MatcherError((*at, word), f"`{word}` is not supported", word)
            if (keyword := self.keywords.get(word)) is not None:
                check = keyword(self, operand, (*at, word), schema)
                if check is not None:
                    checks.append(check)
        return all_of(checks)

    def reference(self, target: Any, at: Path) -> Check:
        """Return the check of a ``$ref``; it is compiled once, so that recursion ends."""
        if not isinstance(target, str):
            raise MatcherError(at, f"`$ref` takes a text, not {value_text(target)}")
        name, _, pointer = target.partition("#")
        document = self._document(name, at) if name else self
        key = (document.name, pointer)
        if key not in self.checks:
            checks = self.checks
            checks[key] = lambda value: checks[key](value)
            schema = document._pointed(pointer, target, at)
            document._refuse_endless(schema, key, target, at)
            checks[key] = document.compile(schema, at)
        return self.checks[key]

    def _document(self, name: str, at: Path) -> Document:
        if name not in self.registry:
            raise MatcherError(
                at, f"no schema is named {name!r}", name, tuple(sorted(self.registry))
            )
        return Document(name, self.registry[name], self.registry, self.keywords, self.checks)

    def _pointed(self, pointer: str, target: str, at: Path) -> Any:
        schema = self.root
        for word in pointer.split("/")[1:]:
            word = word.replace("~1", "/").replace("~0", "~")
            if isinstance(schema, Mapping) and word in schema:
                schema = schema[word]
            elif is_array(schema) and word.isdecimal() and int(word) < len(schema):
                schema = schema[int(word)]
            else:
                known = tuple(sorted(schema)) if isinstance(schema, Mapping) else ()
                raise MatcherError(at, f"`$ref: {target}` leads nowhere", word, known)
        return schema

    def _refuse_endless(self, schema: Any, key: tuple[str, str], target: str, at: Path) -> None:
        """Reject a reference that leads to itself without reading a value."""
        document, visited = self, {key}
        while isinstance(schema, Mapping) and isinstance(schema.get("$ref"), str):
            name, _, pointer = schema["$ref"].partition("#")
            document = document._document(name, at) if name else document
            if (document.name, pointer) in visited:
                raise MatcherError(at, f"`$ref: {target}` leads back to itself", target)
            visited.add((document.name, pointer))
            schema = document._pointed(pointer, schema["$ref"], at)


Keyword: TypeAlias = Callable[[Document, Any, Path, Mapping[str, Any]], Check | None]
"""Compiles a keyword, from the document, the operand, its path and the surrounding schema."""


def all_of(checks: Sequence[Check]) -> Check:
    """Return a check that yields the errors of several checks in order."""
    if len(checks) == 1:
        return checks[0]

    def check(value: Any) -> Sequence[SchemaError]:
        errors: Sequence[SchemaError] = HOLDS
        for check in checks:
            if problem := check(value):
                errors = [*errors, *problem]
        return errors

    return check


def assertion(holds: Callable[[Any], bool], text: Callable[[Any], str]) -> Check:
    """Return a check that yields one error with this text if a test fails."""
    return lambda value: HOLDS if holds(value) else (((), text(value)),)


def under(key: str | int, errors: Sequence[SchemaError]) -> Iterator[SchemaError]:
    """Yield an inner value's errors with the outer key in front of their paths."""
    return (((key, *path), text) for path, text in errors)


def place_text(path: Path) -> str:
    """Return an error's path as a suffix of a name: ``.items[0].kcal``, or empty."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)


def _plain_value(value: Any) -> Any:
    """Return a value that prints as its own message."""
    if isinstance(value, Message):
        return {"role": value.role, "content": value.content}
    if isinstance(value, Mapping):
        return {key: _plain_value(item) for key, item in value.items()}
    if is_array(value):
        return [_plain_value(item) for item in value]
    return value


def value_text(value: Any) -> str:
    representation = repr(_plain_value(value))
    return (
        representation
        if len(representation) <= _SHOWN_MAX
        else representation[: _SHOWN_MAX - 1] + "…"
    )


# Operands of keywords: counts, numbers, texts, patterns, schemas


def count(operand: Any, at: Path) -> int:
    """Return a whole number of at least 0."""
    if not is_integer(operand) or operand < 0:
        raise MatcherError(at, f"`{at[-1]}` takes a count, not {value_text(operand)}")
    return int(operand)


def number(operand: Any, at: Path) -> int | float:
    """Return a number."""
    if not is_number(operand):
        raise MatcherError(at, f"`{at[-1]}` takes a number, not {value_text(operand)}")
    number: int | float = operand
    return number


def texts(operand: Any, at: Path) -> list[str]:
    """Return a list of texts."""
    if not is_array(operand) or not all(isinstance(text, str) for text in operand):
        raise MatcherError(at, f"`{at[-1]}` takes a list of texts, not {value_text(operand)}")
    return list(operand)


def pattern(operand: Any, at: Path) -> Expression:
    """Return a compiled regular expression."""
    if not isinstance(operand, str):
        raise MatcherError(at, f"`{at[-1]}` takes a regular expression, not {value_text(operand)}")
    try:
        return Expression(operand)
    except re.error as error:
        raise MatcherError(at, f"{operand!r} is no regular expression: {error}") from None


def schemas(document: Document, operand: Any, at: Path) -> list[Check]:
    """Return the checks of a non-empty list of schemas."""
    if not is_array(operand) or not operand:
        raise MatcherError(at, f"`{at[-1]}` takes a list of schemas, not {value_text(operand)}")
    return [document.compile(schema, (*at, index)) for index, schema in enumerate(operand)]


def named_schemas(document: Document, operand: Any, at: Path) -> dict[str, Check]:
    """Return the checks of a mapping of schemas, by their keys."""
    if not isinstance(operand, Mapping):
        raise MatcherError(at, f"`{at[-1]}` takes a mapping of schemas, not {value_text(operand)}")
    return {name: document.compile(schema, (*at, name)) for name, schema in operand.items()}
