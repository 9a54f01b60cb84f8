"""Operands of keywords: counts, numbers, texts, patterns, schemas."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from simkit.core.errors import MatcherError
from simkit.language.expressions import Expression
from simkit.language.json_schema.document import Check, Document, Path, value_text
from simkit.language.json_schema.values import is_array, is_integer, is_number


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
