"""Whether a matcher affirms that something is there, denies it, or both.

A matcher denies if it holds where nothing is: ``$absent``, ``[]``, ``{$not: {$has: x}}``,
``{$each: …}``, ``{$len: {$lte: 3}}``. What must all hold (``$all``, several operators, several
keys) is looked at part by part; ``$not`` turns its operand round, also inside ``$either`` and
``$all``. So a denial is one however it is written. What cannot be told apart (an ``$either`` of
both, a ``$schema``) counts as a denial: it is held against more, never against less.

A whole list or text says what is there, and affirms; what else it rules out is not taken for a
denial.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from simkit.core.messages import ABSENT
from simkit.language.matching.compiling import is_operator
from simkit.language.matching.operators import OPERATORS

ALWAYS: Final[Mapping[str, Any]] = {"$either": [{"$any": True}, {"$absent": True}]}
"""Stands in a list of parts for one that is not looked at, so that the others keep their places."""
NEVER: Final[Mapping[str, Any]] = {"$all": [{"$any": True}, {"$absent": True}]}


class Polarity(NamedTuple):
    """What a matcher says: that something is there, that something is not, or both."""

    affirms: bool
    """Whether some part of it says that something is there."""
    denial: Any
    """The parts of it that deny, as a matcher with the same places; ABSENT if there are none."""


_AFFIRMS: Final = Polarity(True, ABSENT)


def polarity_of(matcher: Any) -> Polarity:
    """Return what a matcher says; the denial holds wherever the whole matcher holds."""
    return _polarity(matcher, negated=False, is_count=False)


def _polarity(matcher: Any, *, negated: bool, is_count: bool) -> Polarity:
    """The same of ``{$not: matcher}`` where ``negated``; its denial then stands inside the $not."""
    if not isinstance(matcher, Mapping):
        return _of_value(matcher, matcher, negated=negated, is_count=is_count)
    parts = {
        key: _entry(key, operand, negated=negated, is_count=is_count)
        for key, operand in matcher.items()
    }
    if negated and len(parts) > 1:
        return _one_of(list(parts.values()), matcher)
    denials = {key: part.denial for key, part in parts.items() if part.denial is not ABSENT}
    affirms = any(part.affirms for part in parts.values())
    return Polarity(affirms, denials or ABSENT)


def _entry(key: str, operand: Any, *, negated: bool, is_count: bool) -> Polarity:
    """Return what one key of a mapping says: an operator, or what stands under a plain key."""
    if not is_operator(key):
        return _polarity(operand, negated=negated, is_count=False)
    match OPERATORS[key].stance:
        case "affirms":
            return _turned(is_denial=negated, operand=operand)
        case "denies":
            return _turned(is_denial=not negated, operand=operand)
        case "unknown":
            return Polarity(False, operand)
        case "equals":
            return _of_value(operand, operand, negated=negated, is_count=is_count)
        case "differs":
            return _of_value(operand, operand, negated=not negated, is_count=is_count)
        case "type":
            return _turned(is_denial=(operand == "null") is not negated, operand=operand)
        case "regex":
            holds_of_empty = re.search(operand, "") is not None
            return _turned(is_denial=holds_of_empty is not negated, operand=operand)
        case "exact":
            return _exact(operand, negated=negated)
        case "negates":
            return _polarity(operand, negated=not negated, is_count=is_count)
        case "counts":
            return _polarity(operand, negated=negated, is_count=True)
        case "keys":
            return _polarity(operand, negated=negated, is_count=False)
        case "every" | "some" as stance:
            inner = [_polarity(element, negated=negated, is_count=is_count) for element in operand]
            if (stance == "some") is not negated:
                return _one_of(inner, operand)
            return _all_of(inner, NEVER if negated else ALWAYS)


def _of_value(value: Any, source: Any, *, negated: bool, is_count: bool) -> Polarity:
    """A value that must be equal: nothing, or the count 0, is a denial."""
    is_nothing = value == 0 if is_count else value is None or value in ("", [], (), {})
    return _turned(is_denial=is_nothing is not negated, operand=source)


def _turned(*, is_denial: bool, operand: Any) -> Polarity:
    return Polarity(False, operand) if is_denial else _AFFIRMS


def _exact(operand: Mapping[str, Any], *, negated: bool) -> Polarity:
    """No other keys, and each of these: it denies if there are none, or if one of them does."""
    if not operand:
        return _turned(is_denial=not negated, operand=operand)
    if negated:
        return Polarity(False, operand)
    denies = _polarity(operand, negated=False, is_count=False).denial is not ABSENT
    return _turned(is_denial=denies, operand=operand)


def _one_of(parts: Sequence[Polarity], source: Any) -> Polarity:
    """Alternatives: if one of them denies, all of it may hold because nothing is there."""
    denies = any(part.denial is not ABSENT for part in parts)
    return Polarity(False, source) if denies else _AFFIRMS


def _all_of(parts: Sequence[Polarity], stand_in: Any) -> Polarity:
    if all(part.denial is ABSENT for part in parts):
        return _AFFIRMS
    denials = [stand_in if part.denial is ABSENT else part.denial for part in parts]
    return Polarity(any(part.affirms for part in parts), denials)
