"""The keywords: each compiles its operand to a function value → errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from simkit.core.errors import MatcherError
from simkit.language.json_schema.document import (
    HOLDS,
    TYPES,
    Check,
    Document,
    Keyword,
    Path,
    SchemaError,
    all_of,
    assertion,
    count,
    equal,
    is_array,
    is_number,
    is_object,
    named_schemas,
    number,
    pattern,
    schemas,
    texts,
    under,
    value_text,
)


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


# Keywords for numbers and texts, and for values with a length


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


# Keywords for lists


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


# Keywords for mappings


def _required(_: Document, operand: Any, at: Path, __: Any) -> Check:
    names = texts(operand, at)

    def required(value: Any) -> Sequence[SchemaError]:
        errors: Sequence[SchemaError] = HOLDS
        if is_object(value):
            for name in names:
                if name not in value:
                    errors = [*errors, ((), f"{name!r} is a required property")]
        return errors

    return required


def _properties(document: Document, operand: Any, at: Path, _: Any) -> Check:
    checks = tuple(named_schemas(document, operand, at).items())

    def properties(value: Any) -> Sequence[SchemaError]:
        errors: Sequence[SchemaError] = HOLDS
        if is_object(value):
            for name, check in checks:
                if name in value and (problem := check(value[name])):
                    errors = [*errors, *under(name, problem)]
        return errors

    return properties


def _pattern_properties(document: Document, operand: Any, at: Path, _: Any) -> Check:
    named = named_schemas(document, operand, at)
    checks = [(pattern(text, at).search, check) for text, check in named.items()]

    def properties(value: Any) -> Sequence[SchemaError]:
        errors: Sequence[SchemaError] = HOLDS
        if is_object(value):
            for search, check in checks:
                for name, inner in value.items():
                    if search(name) and (problem := check(inner)):
                        errors = [*errors, *under(name, problem)]
        return errors

    return properties


def _additional(
    document: Document, operand: Any, at: Path, schema: Mapping[str, Any]
) -> Check | None:
    if operand is True:
        return None
    check = document.compile(operand, at)
    declared = schema.get("properties", {})
    named = frozenset(declared) if isinstance(declared, Mapping) else frozenset()
    by_pattern = schema.get("patternProperties", {})
    patterns = sorted(by_pattern) if isinstance(by_pattern, Mapping) else []
    searches = [pattern(text, at).search for text in patterns]

    def extra(value: Any) -> list[str]:
        names = [name for name in value if name not in named]
        return sorted(name for name in names if not any(search(name) for search in searches))

    def additional(value: Any) -> Sequence[SchemaError]:
        if not is_object(value) or not (names := extra(value)):
            return HOLDS
        if operand is False:
            return (((), _unexpected(names, patterns)),)
        return [error for name in names for error in under(name, check(value[name]))]

    return additional


def _unexpected(names: list[str], patterns: list[str]) -> str:
    listed = ", ".join(repr(name) for name in names)
    if patterns:
        verb = "does" if len(names) == 1 else "do"
        known = ", ".join(repr(text) for text in patterns)
        return f"{listed} {verb} not match any of the regexes: {known}"
    verb = "was" if len(names) == 1 else "were"
    return f"Additional properties are not allowed ({listed} {verb} unexpected)"


def _names(document: Document, operand: Any, at: Path, _: Any) -> Check:
    check = document.compile(operand, at)
    return lambda value: (
        [error for name in value for error in check(name)] if is_object(value) else HOLDS
    )


def _dependent_required(_: Document, operand: Any, at: Path, __: Any) -> Check:
    if not isinstance(operand, Mapping):
        raise MatcherError(at, f"`dependentRequired` takes a mapping, not {value_text(operand)}")
    needs = {name: texts(names, (*at, name)) for name, names in operand.items()}

    def dependent(value: Any) -> Sequence[SchemaError]:
        if not is_object(value):
            return HOLDS
        return [
            ((), f"{needed!r} is a dependency of {name!r}")
            for name, names in needs.items()
            if name in value
            for needed in names
            if needed not in value
        ]

    return dependent


def _dependent_schemas(document: Document, operand: Any, at: Path, _: Any) -> Check:
    checks = named_schemas(document, operand, at)
    return lambda value: (
        [error for name, check in checks.items() if name in value for error in check(value)]
        if is_object(value)
        else HOLDS
    )


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
    "items": _items,
    "prefixItems": _prefix,
    "contains": _contains,
    "uniqueItems": _unique,
    "required": _required,
    "properties": _properties,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional,
    "propertyNames": _names,
    "dependentRequired": _dependent_required,
    "dependentSchemas": _dependent_schemas,
}
