"""The one matching language: claims, ``when``, the rules of contracts.

A matcher is a YAML value. A mapping is partial, a list whole and in order, a scalar equal; a key
that starts with ``$`` is an operator. A matcher is compiled once; to hold is to have no mismatch,
so that there is one implementation of what matching means.
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
    """A compiled matcher; raises MatcherError for a value that is none."""

    __slots__ = ("_misses", "source")

    def __init__(self, source: Any) -> None:
        self.source = source
        self._misses = build(source, ())

    def holds(self, value: Any) -> bool:
        """Report whether the matcher holds; stop at the first mismatch and render nothing."""
        return fits(self._misses, value)

    def distance(self, value: Any) -> float:
        """Return how far a value is from what is wanted; 0 if the matcher holds."""
        return distance(self._misses(value))

    def mismatches(self, value: Any) -> tuple[Mismatch, ...]:
        """Return all that differs; empty if the matcher holds."""
        return tuple(miss.rendered() for miss in self._misses(value))


def compile_matcher(matcher: Any) -> Matcher:
    """Return the matcher compiled, for whoever asks more than once; raise MatcherError."""
    return Matcher(matcher)


def check(matcher: Any) -> None:
    """Raise MatcherError for a value that is no matcher, or that can hold of nothing."""
    build(matcher, ())
    check_possible(matcher)


def holds(matcher: Any, value: Any) -> bool:
    """Report whether a matcher holds of a value (or of ABSENT)."""
    return Matcher(matcher).holds(value)


def mismatches(matcher: Any, value: Any) -> tuple[Mismatch, ...]:
    """Return where a value (or ABSENT) differs from a matcher; empty if it holds."""
    return Matcher(matcher).mismatches(value)
