"""Operators on one value: equality, types, presence, numbers, texts, lengths, keys, JSON Schema."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from simkit.core.errors import MatcherError
from simkit.core.messages import ABSENT, Dropped, Message, Nothing
from simkit.language.expressions import Expression
from simkit.language.json_schema import TYPES, compile_schema, equal
from simkit.language.matching import values
from simkit.language.matching.misses import (
    Build,
    Compile,
    Condition,
    Miss,
    Path,
    Phrase,
    conjunction,
    leaf,
    line,
    matchers,
    number_operand,
    only_true,
    refused,
    text_operand,
    unless,
)
from simkit.language.paths import follow


def scalar(expected: Any, at: Path) -> Condition:
    """Return the matcher of equality: ``1`` is ``1.0``, ``true`` is not ``1``."""
    is_bool = isinstance(expected, bool)
    source = values.source_text(expected)

    def holds(value: Any) -> bool:
        if value == expected and (value.__class__ is bool) is is_bool:
            return True
        return value.__class__ in values.TEXT_KINDS and values.text_of(value) == source

    return leaf("", expected, at, holds)


def eq(operand: Any, at: Path, _: Build) -> Condition:
    if operand is None or isinstance(operand, (str, int, float)):
        return scalar(operand, at)
    return leaf("", operand, at, lambda value: equal(operand, values.structure_of(value)))


def ne(operand: Any, at: Path, build: Build) -> Condition:
    same = eq(operand, at, build)
    return leaf("$ne", operand, at, lambda value: value is not ABSENT and not same.holds(value))


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
        if isinstance(value, values.Content):
            return test(value.text) or test(value.structure)
        return test(values.structure_of(value))

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


def alternatives(name: str) -> Compile:
    """Return the operator that holds if one of its operands does, of what is absent, too."""

    def build_alternatives(operand: Any, at: Path, build: Build) -> Condition:
        inner = [element.inner.holds for element in matchers(operand, at, build)]
        return leaf(name, operand, at, lambda value: any(holds(value) for holds in inner))

    return build_alternatives


def all_(operand: Any, at: Path, build: Build) -> Condition:
    return conjunction([element.inner for element in matchers(operand, at, build)])


def schema(operand: Any, at: Path, _: Build) -> Condition:
    if not isinstance(operand, Mapping):
        raise refused(at, "a JSON Schema", operand)
    check = compile_schema(operand, None, at)

    def misses(value: Any) -> Iterable[Miss]:
        if value is ABSENT:
            return (Miss((), at, "$schema", operand, value),)
        read = (
            values.text_of(value)
            if isinstance(value, (Message, Dropped))
            else values.structure_of(value)
        )
        return [
            Miss(path, at, "$schema", Phrase(text), follow(read, path))
            for path, text in check(read)
        ]

    return unless(misses)


def compared(name: str, compare: Callable[[Any, Any], bool], *, is_text: bool = False) -> Compile:
    """Return the operator that compares numbers, or texts, with its operand."""
    read_operand, read = (
        (text_operand, values.text_of) if is_text else (number_operand, values.number_of)
    )

    def build_compared(operand: Any, at: Path, _: Build) -> Condition:
        expected: Any = read_operand(operand, at)

        def holds(value: Any) -> bool:
            actual: Any = read(value)
            return actual is not None and compare(actual, expected)

        return leaf(name, operand, at, holds)

    return build_compared


def approx(operand: Any, at: Path, _: Build) -> Condition:
    allowed = {"rel": 1e-6, "abs": 1e-12}
    target = operand
    if isinstance(operand, Mapping):
        for key in operand:
            if key not in ("value", *allowed):
                raise MatcherError(
                    (*at, key), f"`$approx` has no `{key}`", key, ("abs", "rel", "value")
                )
        if "value" not in operand:
            raise refused(at, "a number, or `{value, abs, rel}`", operand)
        bounds = {key: number_operand(operand[key], (*at, key)) for key in operand}
        target = bounds.pop("value")
        # A given tolerance replaces the default, so that `abs: 0.5` means exactly that.
        allowed = dict.fromkeys(allowed, 0.0) | bounds if bounds else allowed
    limit = number_operand(target, at)
    tolerance = max(allowed["abs"], allowed["rel"] * abs(limit))

    def holds(value: Any) -> bool:
        number = values.number_of(value)
        return number is not None and (number == limit or abs(number - limit) <= tolerance)

    return leaf("$approx", operand, at, holds)


def contains(operand: Any, at: Path, _: Build) -> Condition:
    if isinstance(operand, (list, tuple)):
        if not operand:
            raise refused(at, "a text, or a list that is not empty", operand)
        needles = [text_operand(chars, (*at, index)) for index, chars in enumerate(operand)]
    else:
        needles = [text_operand(operand, at)]

    def misses(value: Any) -> Iterable[Miss]:
        searched = values.searched_text(value)
        if searched is None:
            return (Miss((), at, "$contains", operand, value),)
        lacking = [index for index, needle in enumerate(needles) if needle not in searched]
        if lacking and len(needles) == 1:
            return (Miss((), at, "$contains", needles[0], value),)
        note = f"{len(needles) - len(lacking)} of {len(needles)} parts are there"
        return [
            Miss((), (*at, index), "$contains", needles[index], value, note) for index in lacking
        ]

    return unless(misses)


def regex(operand: Any, at: Path, _: Build) -> Condition:
    if not isinstance(operand, str):
        raise refused(at, "a regular expression", operand)
    try:
        search = Expression(operand).search
    except re.error as error:
        raise MatcherError(
            at,
            f"`$regex: {operand}` is no regular expression: {error}; for plain text: `$contains`",
            operand,
        ) from None

    def holds(value: Any) -> bool:
        return any(search(text) is not None for text in values.texts_of(value))

    return leaf("$regex", operand, at, holds)


def len_(operand: Any, at: Path, build: Build) -> Condition:
    is_count = isinstance(operand, int) and not isinstance(operand, bool) and operand >= 0
    if not is_count and not isinstance(operand, Mapping):
        raise refused(at, "a count or operators", operand)
    inner = build(operand, at)

    def misses(value: Any) -> Iterable[Miss]:
        size = values.size_of(value)
        if size is None:
            return (Miss((), at, "$len", operand, value),)
        if inner.holds(size):
            return ()
        actual = Phrase(f"$len: {size}")
        return (Miss((), at, "$len", operand, actual, lambda: f"it is {line(value)}"),)

    return unless(misses)


def json_(operand: Any, at: Path, build: Build) -> Condition:
    """Return the matcher of the value in a text of JSON, however that is spaced."""
    inner = build(operand, at)

    def misses(value: Any) -> Iterable[Miss]:
        parsed = values.value_in(value)
        if parsed is ABSENT:
            note = "no text" if values.text_of(value) is None else "the text is no JSON"
            return (Miss((), at, "$json", operand, value, note),)
        return inner.misses(parsed)

    return unless(misses)


def keys(operand: Any, at: Path, build: Build) -> Condition:
    if isinstance(operand, (list, tuple)):
        if not all(isinstance(key, str) for key in operand):
            raise refused(at, "a list of keys", operand)
        names = sorted(operand)
        return leaf("$keys", operand, at, lambda value: _keys_of(value) == names)
    if not isinstance(operand, Mapping):
        raise refused(at, "a list of keys, or operators", operand)
    inner = build(operand, at)

    def holds(value: Any) -> bool:
        keys = _keys_of(value)
        return keys is not None and inner.holds(keys)

    return leaf("$keys", operand, at, holds)


def _keys_of(value: Any) -> list[str] | None:
    value = values.structure_of(value)
    return sorted(value) if isinstance(value, Mapping) else None
