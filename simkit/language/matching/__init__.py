"""The matching language, used by claims, ``when`` and the rules of contracts.

A matcher is a YAML value. A mapping is partial, a list is complete and ordered, a scalar means
equality; a key that starts with ``$`` is an operator. A matcher is compiled once. It holds exactly
if it yields no mismatch, so that there is one implementation of matching.
"""

from __future__ import annotations

from typing import Any, final

from simkit.language.matching.compiling import build
from simkit.language.matching.contradictions import check_possible
from simkit.language.matching.editor_schema import matcher_json_schema
from simkit.language.matching.misses import Mismatch, fits
from simkit.language.matching.nearness import FAR, distance
from simkit.language.matching.operators import OPERATORS
from simkit.language.matching.patterns import patterns_of

__all__ = [
    "FAR",
    "OPERATORS",
    "Matcher",
    "Mismatch",
    "check",
    "compile_matcher",
    "holds",
    "matcher_json_schema",
    "mismatches",
    "patterns_of",
]


@final
class Matcher:
    """A compiled matcher. Raises MatcherError for an invalid one."""

    __slots__ = ("_misses", "source")

    def __init__(self, source: Any) -> None:
        self.source = source
        self._misses = build(source, ())

    def holds(self, value: Any) -> bool:
        """Return whether the matcher holds; stop at the first mismatch and render nothing."""
        return fits(self._misses, value)

    def distance(self, value: Any) -> float:
        """Return the distance of a value from the expected one; 0 if the matcher holds."""
        return distance(self._misses(value))

    def mismatches(self, value: Any) -> tuple[Mismatch, ...]:
        """Return all mismatches; empty if the matcher holds."""
        return tuple(miss.rendered() for miss in self._misses(value))


def compile_matcher(matcher: Any) -> Matcher:
    """Return the compiled matcher, for callers that use it more than once; raise MatcherError."""
    return Matcher(matcher)


def check(matcher: Any) -> None:
    """Raise MatcherError for an invalid matcher, or one that can never hold."""
    build(matcher, ())
    check_possible(matcher)


def holds(matcher: Any, value: Any) -> bool:
    """Return whether a matcher holds for a value (or for ABSENT)."""
    return Matcher(matcher).holds(value)


def mismatches(matcher: Any, value: Any) -> tuple[Mismatch, ...]:
    """Return the mismatches of a value (or ABSENT); empty if the matcher holds."""
    return Matcher(matcher).mismatches(value)
