"""The verdict on a value, by the library `jsonschema`, in its words.

It is imported when the first value is checked: that takes a tenth of a second.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, TypeAlias

from simkit.language.json_schema.schemas import NEVER, Path, SchemaReader, expression, shortened
from simkit.language.json_schema.values import is_number

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
