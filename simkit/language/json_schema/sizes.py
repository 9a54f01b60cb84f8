"""Keywords for numbers and texts, and for values with a length."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from simkit.core.errors import MatcherError
from simkit.language.json_schema.document import (
    Check,
    Document,
    Keyword,
    Path,
    assertion,
    value_text,
)
from simkit.language.json_schema.operands import count, number, pattern
from simkit.language.json_schema.values import is_array, is_number, is_object


def _bound(word: str, holds: Callable[[Any, Any], bool]) -> Keyword:
    def keyword(_: Document, operand: Any, at: Path, __: Any) -> Check:
        limit = number(operand, at)
        return assertion(
            lambda value: not is_number(value) or holds(value, limit),
            lambda value: f"{value!r} is {word} of {limit!r}",
        )

    return keyword


def _multiple(_: Document, operand: Any, at: Path, __: Any) -> Check:
    if number(operand, at) <= 0:
        raise MatcherError(at, f"`multipleOf` takes a number above 0, not {operand!r}")

    def holds(value: Any) -> bool:
        if not is_number(value):
            return True
        if isinstance(operand, float):
            try:
                return bool((value / operand).is_integer())
            except OverflowError:
                # Imported here because ordinary numbers do not need it.
                from fractions import Fraction

                return (Fraction(value) / Fraction(operand)).denominator == 1
        return bool(value % operand == 0)

    return assertion(holds, lambda value: f"{value!r} is not a multiple of {operand}")


# Keywords for values with a length


def _least(is_kind: Callable[[Any], bool], short: str) -> Keyword:
    def keyword(_: Document, operand: Any, at: Path, __: Any) -> Check:
        least = count(operand, at)
        message = "should be non-empty" if least == 1 else short
        return assertion(
            lambda value: not is_kind(value) or len(value) >= least,
            lambda value: f"{value_text(value)} {message}",
        )

    return keyword


def _most(is_kind: Callable[[Any], bool], long: str) -> Keyword:
    def keyword(_: Document, operand: Any, at: Path, __: Any) -> Check:
        most = count(operand, at)
        message = "is expected to be empty" if most == 0 else long
        return assertion(
            lambda value: not is_kind(value) or len(value) <= most,
            lambda value: f"{value_text(value)} {message}",
        )

    return keyword


def _matches(_: Document, operand: Any, at: Path, __: Any) -> Check:
    search = pattern(operand, at).search
    return assertion(
        lambda value: not isinstance(value, str) or search(value) is not None,
        lambda value: f"{value_text(value)} does not match {operand!r}",
    )


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


KEYWORDS: Final[Mapping[str, Keyword]] = {
    "minimum": _bound("less than the minimum", lambda value, limit: value >= limit),
    "maximum": _bound("greater than the maximum", lambda value, limit: value <= limit),
    "exclusiveMinimum": _bound(
        "less than or equal to the minimum", lambda value, limit: value > limit
    ),
    "exclusiveMaximum": _bound(
        "greater than or equal to the maximum", lambda value, limit: value < limit
    ),
    "multipleOf": _multiple,
    "minLength": _least(_is_text, "is too short"),
    "maxLength": _most(_is_text, "is too long"),
    "pattern": _matches,
    "minItems": _least(is_array, "is too short"),
    "maxItems": _most(is_array, "is too long"),
    "minProperties": _least(is_object, "does not have enough properties"),
    "maxProperties": _most(is_object, "has too many properties"),
}
