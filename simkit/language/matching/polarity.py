"""Polarity: whether a matcher says that something is present, that something is absent, or both.

A matcher denies if it holds for an absent value: ``$absent``, ``[]``, ``{$not: {$has: x}}``,
``{$each: …}``, ``{$len: {$lte: 3}}``. Joint conditions (``$all``, several operators, several keys)
are analysed one by one; ``$not`` inverts its operand, also inside ``$either`` and ``$all``. So a
denial is recognized however it is written. If it is not clear (an ``$either`` of both, a
``$schema``), a matcher counts as a denial: it is then compared with more values, never with fewer.

A complete list or text affirms; that it also excludes other values does not count as a denial.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from simkit.core.messages import ABSENT
from simkit.language.matching.operators import OPERATORS, is_operator

ALWAYS: Final[Mapping[str, Any]] = {"$either": [{"$any": True}, {"$absent": True}]}
"""Placeholder in a list for a part that is ignored, so that the other parts keep their indices."""
NEVER: Final[Mapping[str, Any]] = {"$all": [{"$any": True}, {"$absent": True}]}


class Polarity(NamedTuple):
    """The polarity of a matcher: it affirms, it denies, or both."""

    affirms: bool
    """Whether some part of it says that something is present."""
    denial: Any
    """The denying parts, as a matcher of the same shape; ABSENT if there are none."""


_AFFIRMS: Final = Polarity(True, ABSENT)


def polarity_of(matcher: Any) -> Polarity:
    """Return the polarity of a matcher; its denial holds whenever the whole matcher holds."""
    return _polarity(matcher, negated=False, is_count=False)


def _polarity(matcher: Any, *, negated: bool, is_count: bool) -> Polarity:
    """Return the polarity of a matcher, or of ``{$not: matcher}`` if ``negated``.

    The denial of a negated matcher is the operand of a $not.
    """
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
    """Return the polarity of one entry of a mapping: an operator, or a plain key."""
    if not is_operator(key):
        return _polarity(operand, negated=negated, is_count=False)
    match OPERATORS[key].stance:
        case "affirms" | "denies" as stance:
            return _turned(is_denial=(stance == "denies") is not negated, operand=operand)
        case "unknown":
            return Polarity(False, operand)
        case "equals" | "differs" as stance:
            is_negated = (stance == "differs") is not negated
            return _of_value(operand, operand, negated=is_negated, is_count=is_count)
        case "type":
            return _turned(is_denial=(operand == "null") is not negated, operand=operand)
        case "regex":
            holds_of_empty = re.search(operand, "") is not None
            return _turned(is_denial=holds_of_empty is not negated, operand=operand)
        case "exact":
            return _exact(operand, negated=negated)
        case "negates":
            return _polarity(operand, negated=not negated, is_count=is_count)
        case "counts" | "keys" as stance:
            return _polarity(operand, negated=negated, is_count=stance == "counts")
        case "every" | "some" as stance:
            inner = [_polarity(element, negated=negated, is_count=is_count) for element in operand]
            if (stance == "some") is not negated:
                return _one_of(inner, operand)
            return _all_of(inner, NEVER if negated else ALWAYS)


def _of_value(value: Any, source: Any, *, negated: bool, is_count: bool) -> Polarity:
    """Return the polarity of equality with a value: nothing, or the count 0, is a denial."""
    is_nothing = value == 0 if is_count else value is None or value in ("", [], (), {})
    return _turned(is_denial=is_nothing is not negated, operand=source)


def _turned(*, is_denial: bool, operand: Any) -> Polarity:
    return Polarity(False, operand) if is_denial else _AFFIRMS


def _exact(operand: Mapping[str, Any], *, negated: bool) -> Polarity:
    """Return the polarity of ``$exact``: it denies if it has no keys, or if one of them denies."""
    if not operand:
        return _turned(is_denial=not negated, operand=operand)
    if negated:
        return Polarity(False, operand)
    denies = _polarity(operand, negated=False, is_count=False).denial is not ABSENT
    return _turned(is_denial=denies, operand=operand)


def _one_of(parts: Sequence[Polarity], source: Any) -> Polarity:
    """Return the polarity of alternatives: if one denies, all may hold for an absent value."""
    denies = any(part.denial is not ABSENT for part in parts)
    return Polarity(False, source) if denies else _AFFIRMS


def _all_of(parts: Sequence[Polarity], stand_in: Any) -> Polarity:
    if all(part.denial is ABSENT for part in parts):
        return _AFFIRMS
    denials = [stand_in if part.denial is ABSENT else part.denial for part in parts]
    return Polarity(any(part.affirms for part in parts), denials)
