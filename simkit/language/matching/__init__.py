"""The matching language, used by claims, ``when`` and the rules of contracts.

A matcher is a YAML value. A mapping is partial, a list whole and in order, a scalar equal; a key
that starts with ``$`` is an operator. A matcher is compiled once, when a file is read; to hold is
to have no mismatch, and mismatches are looked for until the first one.
"""

from __future__ import annotations

from typing import Any, Final, final

import msgspec

from simkit.language.matching.contradictions import check_possible
from simkit.language.matching.misses import FAR, Mismatch, distance
from simkit.language.matching.operators import OPERATORS, build, matcher_json_schema
from simkit.language.matching.values import patterns_of


@final
class Matcher:
    """A compiled matcher. Raises MatcherError for an invalid one."""

    __slots__ = ("_misses", "holds", "source")

    def __init__(self, source: Any) -> None:
        self.source = source
        self.holds, self._misses = build(source, ())
        """``holds`` returns whether the matcher holds; it looks for no reasons."""

    def distance(self, value: Any) -> float:
        """Return the distance of a value from the expected one; 0 if the matcher holds."""
        return distance(self._misses(value))

    def mismatches(self, value: Any) -> tuple[Mismatch, ...]:
        """Return all mismatches; empty if the matcher holds."""
        return tuple(miss.rendered() for miss in self._misses(value))


COMPILED_MAX: Final = 16_384
"""Enough for the claims of some thousand turns; each takes about three kilobytes."""
_compiled: Final[dict[bytes, Matcher]] = {}


def compile_matcher(matcher: Any) -> Matcher:
    """Return the matcher compiled; raise MatcherError.

    A matcher that was compiled before is returned again: the judge uses the matchers that were
    compiled when the file was read, however many turns, rows and runs claim the same.
    """
    try:
        key = msgspec.json.encode(matcher, enc_hook=_source_text)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return Matcher(matcher)
    # JSON has one form for some values that differ: a text and bytes, null and NaN.
    if key in _compiled and _compiled[key].source == matcher:
        return _compiled[key]
    if len(_compiled) == COMPILED_MAX:
        _compiled.clear()
    _compiled[key] = Matcher(matcher)
    return _compiled[key]


def _source_text(number: Any) -> Any:
    """Encode numbers that keep their source text: two texts of one number may claim different.

    Raise TypeError for anything else, also for keys that are no texts: msgspec would ask for the
    form of a form of them without end.
    """
    if isinstance(number, (int, float)) and hasattr(number, "source"):
        return {"source": number.source}
    raise TypeError


def check(matcher: Any) -> None:
    """Raise MatcherError for an invalid matcher, or one that can never hold."""
    compile_matcher(matcher)
    check_possible(matcher)


def holds(matcher: Any, value: Any) -> bool:
    """Return whether a matcher holds for a value (or for ABSENT)."""
    return compile_matcher(matcher).holds(value)


def mismatches(matcher: Any, value: Any) -> tuple[Mismatch, ...]:
    """Return the mismatches of a value (or ABSENT); empty if the matcher holds."""
    return compile_matcher(matcher).mismatches(value)
