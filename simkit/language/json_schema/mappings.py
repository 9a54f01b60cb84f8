"""Keywords for mappings."""

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
    under,
    value_text,
)
from simkit.language.json_schema.operands import named_schemas, pattern, texts
from simkit.language.json_schema.values import is_object


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
    "required": _required,
    "properties": _properties,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional,
    "propertyNames": _names,
    "dependentRequired": _dependent_required,
    "dependentSchemas": _dependent_schemas,
}
