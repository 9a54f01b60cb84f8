"""Operators for any value: equality, types, presence, matchers joined, JSON Schema."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from simkit.core.errors import MatcherError
from simkit.core.messages import ABSENT, Dropped, Message, Nothing
from simkit.language.json_schema import TYPES, compile_schema, equal
from simkit.language.matching.misses import (
    Build,
    Condition,
    Miss,
    Path,
    conjunction,
    leaf,
    unless,
)
from simkit.language.matching.operands import matchers, only_true, refused
from simkit.language.matching.rendering import Phrase
from simkit.language.matching.values import TEXT_KINDS, Content, source_text, structure_of, text_of
from simkit.language.paths import follow


def scalar(expected: Any, at: Path) -> Condition:
    """Return the matcher of equality: ``1`` is ``1.0``, ``true`` is not ``1``."""
    is_bool = isinstance(expected, bool)
    source = source_text(expected)

    def holds(value: Any) -> bool:
        if value == expected and (value.__class__ is bool) is is_bool:
            return True
        return value.__class__ in TEXT_KINDS and text_of(value) == source

    return leaf("", expected, at, holds)


def eq(operand: Any, at: Path, _: Build) -> Condition:
    if operand is None or isinstance(operand, (str, int, float)):
        return scalar(operand, at)
    return leaf("", operand, at, lambda value: equal(operand, structure_of(value)))


def ne(operand: Any, at: Path, build: Build) -> Condition:
    same = eq(operand, at, build)
    return leaf("$ne", operand, at, lambda value: value is not ABSENT and not same.holds(value))


def in_(operand: Any, at: Path, build: Build) -> Condition:
    inner = [element.inner.holds for element in matchers(operand, at, build)]
    return leaf(
        "$in",
        operand,
        at,
        lambda value: value is not ABSENT and any(holds(value) for holds in inner),
    )


def _is_message(value: Any) -> bool:
    return isinstance(value, (Message, Dropped)) or (
        isinstance(value, Mapping) and "role" in value and "content" in value
    )


TYPE_NAMES: Final[Mapping[str, Callable[[Any], bool]]] = {
    **TYPES,
    "list": TYPES["array"],
    "mapping": TYPES["object"],
    "text": TYPES["string"],
    "message": _is_message,
}


def type_(operand: Any, at: Path, _: Build) -> Condition:
    if not isinstance(operand, str):
        raise refused(at, "the name of a type", operand)
    if operand not in TYPE_NAMES:
        raise MatcherError(at, f"no type is named `{operand}`", operand, tuple(sorted(TYPE_NAMES)))
    test = TYPE_NAMES[operand]

    def holds(value: Any) -> bool:
        if isinstance(value, Content):
            return test(value.text) or test(value.structure)
        return test(structure_of(value))

    return leaf("$type", operand, at, holds)


def any_(operand: Any, at: Path, _: Build) -> Condition:
    only_true(operand, at)
    return leaf("$any", operand, at, lambda value: not _is_absent(value))


def absent(operand: Any, at: Path, _: Build) -> Condition:
    only_true(operand, at)
    return leaf("$absent", operand, at, _is_absent)


def _is_absent(value: Any) -> bool:
    """Return whether a value is absent; values that a claim treats as empty or null are too."""
    return value is ABSENT or isinstance(value, Nothing)


def not_(operand: Any, at: Path, build: Build) -> Condition:
    inner = build(operand, at)
    return leaf("$not", operand, at, lambda value: not inner.holds(value))


def either(operand: Any, at: Path, build: Build) -> Condition:
    inner = [element.inner.holds for element in matchers(operand, at, build)]
    return leaf("$either", operand, at, lambda value: any(holds(value) for holds in inner))


def all_(operand: Any, at: Path, build: Build) -> Condition:
    return conjunction([element.inner for element in matchers(operand, at, build)])


def schema(operand: Any, at: Path, _: Build) -> Condition:
    if not isinstance(operand, Mapping):
        raise refused(at, "a JSON Schema", operand)
    check = compile_schema(operand, None, at)

    def misses(value: Any) -> Iterable[Miss]:
        if value is ABSENT:
            return (Miss((), at, "$schema", operand, value),)
        read = text_of(value) if isinstance(value, (Message, Dropped)) else structure_of(value)
        return [
            Miss(path, at, "$schema", Phrase(text), follow(read, path))
            for path, text in check(read)
        ]

    return unless(misses)
