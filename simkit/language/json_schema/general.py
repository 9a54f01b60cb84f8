"""Keywords for any value: types, values, and schemas joined."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from simkit.core.errors import MatcherError
from simkit.language.json_schema.document import (
    Check,
    Document,
    Keyword,
    Path,
    all_of,
    assertion,
    value_text,
)
from simkit.language.json_schema.operands import named_schemas, schemas
from simkit.language.json_schema.values import TYPES, equal, is_array


def _ref(document: Document, operand: Any, at: Path, _: Any) -> Check:
    return document.reference(operand, at)


def _definitions(document: Document, operand: Any, at: Path, _: Any) -> None:
    named_schemas(document, operand, at)


def _type(_: Document, operand: Any, at: Path, __: Any) -> Check:
    names = [operand] if isinstance(operand, str) else operand
    if not is_array(names) or not names or not all(isinstance(name, str) for name in names):
        raise MatcherError(at, f"`type` takes a type's name, not {value_text(operand)}")
    for name in names:
        if name not in TYPES:
            raise MatcherError(at, f"no type is named {name!r}", name, tuple(sorted(TYPES)))
    tests = tuple(TYPES[name] for name in names)
    listed = ", ".join(repr(name) for name in names)
    first = tests[0]
    holds = first if len(tests) == 1 else lambda value: any(test(value) for test in tests)
    return assertion(holds, lambda value: f"{value_text(value)} is not of type {listed}")


def _enum(_: Document, operand: Any, at: Path, __: Any) -> Check:
    if not is_array(operand):
        raise MatcherError(at, f"`enum` takes a list of values, not {value_text(operand)}")
    texts = frozenset(value for value in operand if isinstance(value, str))

    def holds(value: Any) -> bool:
        if value.__class__ is str:
            return value in texts
        return any(equal(value, allowed) for allowed in operand)

    return assertion(holds, lambda value: f"{value_text(value)} is not one of {list(operand)!r}")


def _const(_: Document, operand: Any, __: Path, ___: Any) -> Check:
    return assertion(lambda value: equal(value, operand), lambda value: f"{operand!r} was expected")


def _all(document: Document, operand: Any, at: Path, _: Any) -> Check:
    return all_of(schemas(document, operand, at))


def _any(document: Document, operand: Any, at: Path, _: Any) -> Check:
    checks = schemas(document, operand, at)
    return assertion(
        lambda value: any(not check(value) for check in checks),
        lambda value: f"{value_text(value)} is not valid under any of the given schemas",
    )


def _inner_check(document: Document, operand: Any, at: Path, _: Any) -> Check:
    checks = schemas(document, operand, at)

    def valid(value: Any) -> list[int]:
        return [index for index, check in enumerate(checks) if not check(value)]

    def text(value: Any) -> str:
        first, *more = valid(value) or [-1]
        if first < 0:
            return f"{value_text(value)} is not valid under any of the given schemas"
        listed = ", ".join(repr(operand[index]) for index in [*more, first])
        return f"{value_text(value)} is valid under each of {listed}"

    return assertion(lambda value: len(valid(value)) == 1, text)


def _not(document: Document, operand: Any, at: Path, _: Any) -> Check:
    check = document.compile(operand, at)
    return assertion(
        lambda value: bool(check(value)),
        lambda value: f"{value_text(value)} should not be valid under {operand!r}",
    )


def _if(document: Document, operand: Any, at: Path, schema: Mapping[str, Any]) -> Check:
    condition = document.compile(operand, at)
    then = document.compile(schema.get("then", True), (*at[:-1], "then"))
    otherwise = document.compile(schema.get("else", True), (*at[:-1], "else"))
    return lambda value: otherwise(value) if condition(value) else then(value)


KEYWORDS: Final[Mapping[str, Keyword]] = {
    "$ref": _ref,
    "$defs": _definitions,
    "definitions": _definitions,
    "type": _type,
    "enum": _enum,
    "const": _const,
    "allOf": _all,
    "anyOf": _any,
    "oneOf": _inner_check,
    "not": _not,
    "if": _if,
}
