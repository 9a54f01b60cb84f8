"""Keywords for lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from simkit.core.errors import MatcherError
from simkit.language.json_schema.document import (
    HOLDS,
    Check,
    Document,
    Keyword,
    Path,
    SchemaError,
    assertion,
    under,
    value_text,
)
from simkit.language.json_schema.operands import count, schemas
from simkit.language.json_schema.values import equal, is_array


def _items(document: Document, operand: Any, at: Path, schema: Mapping[str, Any]) -> Check:
    if is_array(operand):
        raise MatcherError(at, "`items` takes one schema for all elements", "", ("prefixItems",))
    before = schema.get("prefixItems", ())
    skipped = len(before) if is_array(before) else 0
    if operand is False:
        return _no_more_items(skipped)
    check = document.compile(operand, at)

    def items(value: Any) -> Sequence[SchemaError]:
        errors: Sequence[SchemaError] = HOLDS
        if is_array(value):
            for index in range(skipped, len(value)):
                if problem := check(value[index]):
                    errors = [*errors, *under(index, problem)]
        return errors

    return items


def _no_more_items(allowed: int) -> Check:
    noun = "item" if allowed == 1 else "items"

    def text(value: Any) -> str:
        extra = len(value) - allowed
        rest = value[allowed] if extra == 1 else value[allowed:]
        return f"Expected at most {allowed} {noun} but found {extra} extra: {value_text(rest)}"

    return assertion(lambda value: not is_array(value) or len(value) <= allowed, text)


def _prefix(document: Document, operand: Any, at: Path, _: Any) -> Check:
    checks = schemas(document, operand, at)

    def prefix(value: Any) -> Sequence[SchemaError]:
        errors: Sequence[SchemaError] = HOLDS
        if is_array(value):
            for index, (check, inner) in enumerate(zip(checks, value, strict=False)):
                if problem := check(inner):
                    errors = [*errors, *under(index, problem)]
        return errors

    return prefix


def _contains(document: Document, operand: Any, at: Path, schema: Mapping[str, Any]) -> Check:
    check = document.compile(operand, at)
    least = count(schema.get("minContains", 1), (*at[:-1], "minContains"))
    most = schema.get("maxContains")
    if most is not None:
        most = count(most, (*at[:-1], "maxContains"))

    def matching(value: Any) -> int:
        return sum(not check(inner) for inner in value)

    def text(value: Any) -> str:
        problem = matching(value)
        if most is not None and problem > most:
            return f"Too many items match the given schema (expected at most {most})"
        if problem == 0:
            return f"{value_text(value)} does not contain items matching the given schema"
        return (
            "Too few items match the given schema "
            f"(expected at least {least} but only {problem} matched)"
        )

    return assertion(
        lambda value: (
            not is_array(value)
            or (matching(value) >= least and (most is None or matching(value) <= most))
        ),
        text,
    )


def _unique(_: Document, operand: Any, at: Path, __: Any) -> Check | None:
    if not isinstance(operand, bool):
        raise MatcherError(at, f"`uniqueItems` takes true or false, not {value_text(operand)}")
    if not operand:
        return None
    return assertion(
        lambda value: (
            not is_array(value)
            or not any(equal(value[i], value[j]) for i in range(len(value)) for j in range(i))
        ),
        lambda value: f"{value_text(value)} has non-unique elements",
    )


KEYWORDS: Final[Mapping[str, Keyword]] = {
    "items": _items,
    "prefixItems": _prefix,
    "contains": _contains,
    "uniqueItems": _unique,
}
