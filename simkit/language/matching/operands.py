"""Operands of operators: a number, a text, matchers; other values are a MatcherError."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from simkit.core.errors import MatcherError
from simkit.language.matching.misses import Build, Condition, Path
from simkit.language.matching.rendering import line
from simkit.language.matching.values import number_of, source_text

Compile: TypeAlias = Callable[[Any, Path, Build], Condition]
"""Compiles an operator, from the operand, its path, and the function that compiles inner
matchers."""


def refused(at: Path, takes: str, operand: Any, advice: str = "") -> MatcherError:
    """Return the error about an operand of the wrong kind."""
    operator = next(part for part in reversed(at) if isinstance(part, str))
    return MatcherError(at, f"`{operator}` takes {takes}, not {line(operand)}", "", (), advice)


def only_true(operand: Any, at: Path) -> None:
    """Raise MatcherError for any operand but ``true``."""
    if operand is not True:
        other = "$any" if at[-1] == "$absent" else "$absent"
        advice = f"the opposite is `{{{other}: true}}`" if operand is False else ""
        raise refused(at, "only `true`", operand, advice)


def number_operand(operand: Any, at: Path) -> int | float:
    """Return a number."""
    number = number_of(operand)
    if number is None:
        raise refused(at, "a number", operand)
    return number


class WantedElement(NamedTuple):
    """One of the matchers in an operand or a list."""

    inner: Condition
    source: Any
    at: Path


def matchers(operand: Any, at: Path, build: Build, least: int = 1) -> list[WantedElement]:
    """Return a list of at least ``least`` compiled matchers."""
    if not isinstance(operand, (list, tuple)):
        raise refused(at, "a list", operand)
    if len(operand) < least:
        raise refused(at, "a list that is not empty", operand)
    return [
        WantedElement(build(matcher, (*at, index)), matcher, (*at, index))
        for index, matcher in enumerate(operand)
    ]


def text_operand(operand: Any, at: Path) -> str:
    """Return a non-empty scalar as the text in the file."""
    if operand is None or not isinstance(operand, (str, int, float)):
        raise refused(at, "a text", operand)
    text = source_text(operand)
    if not text:
        raise refused(at, "a text that is not empty", operand, "every text contains the empty one")
    return text
