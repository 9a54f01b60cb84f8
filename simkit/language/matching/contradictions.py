"""Contradictions: reject a matcher that no value can satisfy, like ``{$gt: 5, $lt: 3}``.

Negated, such a matcher would always hold. Conditions on the same value are compared with each
other: the operators of a mapping, the entries of ``$all``, and one key in several of these.
``kinds`` rejects matchers that cannot hold because of their place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from simkit.core.errors import MatcherError
from simkit.core.messages import ABSENT
from simkit.language.matching.kinds import NAMES, NUMBER, check_kind
from simkit.language.matching.misses import Path, line
from simkit.language.matching.operators import (
    OF_ELEMENTS,
    OF_VALUE,
    OPERATORS,
    build,
    inner_matchers,
    is_operator,
)
from simkit.language.matching.values import number_of, source_text

_PRESENT: Final = (
    "$any", "$gt", "$gte", "$lt", "$lte", "$approx", "$contains", "$starts", "$ends", "$regex",
    "$has", "$in_order", "$type",
)  # fmt: skip
"""Operators that never hold for an absent value."""
_OF_TEXTS: Final = ("$contains", "$starts", "$ends", "$regex", "$ne")
_OF_NUMBERS: Final = ("$gt", "$gte", "$lt", "$lte", "$approx", "$ne")
_EQUAL: Final = "$eq"


class _Part(NamedTuple):
    """One condition on a value."""

    key: str
    """An operator (``$eq`` for a plain scalar too) or a plain key."""
    operand: Any
    at: Path
    words: str = ""
    """Its name in messages; empty for the default, its key with the operand."""

    @property
    def shown_text(self) -> str:
        return self.words or f"`{self.key}: {line(self.operand)}`"


def check_possible(matcher: Any, at: Path = ()) -> None:
    """Raise MatcherError for the first part of a matcher that no value can satisfy."""
    if type(matcher) is str:
        return  # Most are texts, and `Mapping` is slow to say no.
    if isinstance(matcher, (list, tuple)):
        for index, element in enumerate(matcher):
            check_possible(element, (*at, index))
    elif isinstance(matcher, Mapping):
        for key, operand in matcher.items():
            _check_inside(key, operand, (*at, key))
        _check_together(list(_parts(matcher, at)))


def _check_inside(key: str, operand: Any, at: Path) -> None:
    if not is_operator(key):
        check_possible(operand, at)
    elif key in OF_VALUE or key in OF_ELEMENTS:
        for path, inner in inner_matchers(key, operand, at):
            check_possible(inner, path)
    elif key == "$len" and isinstance(operand, Mapping):
        check_kind(operand, NUMBER._replace(noun="a length"), at)
        check_possible(operand, at)
        _check_together([_Part("$gte", 0, at, "a length, at least 0,"), *_parts(operand, at)])
    elif key == "$keys" and isinstance(operand, Mapping):
        check_kind(operand, NAMES, at)
        check_possible(operand, at)


def _parts(matcher: Any, at: Path) -> Iterator[_Part]:
    """Yield all conditions on one value; alternatives and denials are not searched."""
    if isinstance(matcher, Mapping):
        for key, operand in matcher.items():
            if key == "$all":
                for index, element in enumerate(operand):
                    yield from _parts(element, (*at, key, index))
            else:
                yield _Part(key, operand, (*at, key))
    elif not isinstance(matcher, (list, tuple)):
        yield _Part(_EQUAL, matcher, at, f"`{line(matcher)}`")


def _check_together(parts: Sequence[_Part]) -> None:
    if len(parts) < 2:
        return
    _check_presence(parts)
    _check_equal(parts)
    _check_bounds(parts)
    _check_exact(parts)
    by_key: dict[str, list[_Part]] = {}
    for part in parts:
        if not is_operator(part.key):
            by_key.setdefault(part.key, []).append(part)
    for same in by_key.values():
        _check_together([inner for part_ in same for inner in _parts(part_.operand, part_.at)])


def _check_presence(parts: Sequence[_Part]) -> None:
    absent = next((part for part in parts if part.key == "$absent"), None)
    if absent is None:
        return
    for part in parts:
        if part.key in _PRESENT or (
            not is_operator(part.key) or (part.key == _EQUAL and _is_scalar(part.operand))
        ):
            raise _contradiction(absent, part, parts)


def _check_equal(parts: Sequence[_Part]) -> None:
    """Compare each condition on a scalar with the first expected scalar."""
    equal_part = next(
        (part for part in parts if part.key == _EQUAL and _is_scalar(part.operand)), None
    )
    if equal_part is None:
        return
    for part in parts:
        if part is not equal_part and not _may_equal(part, equal_part.operand):
            raise _contradiction(equal_part, part, parts)


def _may_equal(part: _Part, value: Any) -> bool:
    """Return whether a condition may hold for a scalar, or for its text."""
    if part.key == _EQUAL and _is_scalar(part.operand):
        return bool(part.operand == value) or source_text(part.operand) == source_text(value)
    if part.key == "$not" and _is_scalar(part.operand):
        return bool(part.operand != value)
    operators = _OF_TEXTS if number_of(value) is None else _OF_NUMBERS
    return part.key not in operators or build({part.key: part.operand}, ()).holds(value)


def _check_bounds(parts: Sequence[_Part]) -> None:
    lower = [part for part in parts if part.key in ("$gt", "$gte")]
    upper = [part for part in parts if part.key in ("$lt", "$lte")]
    for low in lower:
        for high in upper:
            is_open = low.key == "$gt" or high.key == "$lt"
            if low.operand > high.operand or (is_open and low.operand == high.operand):
                raise _contradiction(low, high, parts)


def _check_exact(parts: Sequence[_Part]) -> None:
    """Reject a key beside ``$exact`` that ``$exact`` does not allow."""
    for exact in parts:
        if exact.key != "$exact":
            continue
        for part in parts:
            is_inside = is_operator(part.key) or "." in part.key or "[" in part.key
            if not is_inside and part.key not in exact.operand and not _may_lack(part.operand):
                raise _contradiction(exact, part, parts)


def _may_lack(operand: Any) -> bool:
    """Return whether a matcher may hold for a missing key."""
    return isinstance(operand, Mapping) and any(
        key in operand for key in ("$absent", "$not", "$either", "$in", "$all")
    )


def _is_scalar(value: Any) -> bool:
    return value is None or isinstance(value, (str, int, float))


def _contradiction(left: _Part, right: _Part, parts: Sequence[_Part]) -> MatcherError:
    """Return the error that two conditions exclude each other, at the later one."""
    earlier, later = sorted((left, right), key=lambda part: _place_of(part, parts))
    return MatcherError(
        later.at,
        f"{earlier.shown_text} and {later.shown_text} never hold of one value",
        "",
        (),
        "What may be either is written `{$either: [{…}, {…}]}`.",
    )


def _place_of(part: _Part, parts: Sequence[_Part]) -> int:
    return next(index for index, candidate in enumerate(parts) if candidate is part)


# Polarity: whether a matcher says that something is present, that something is absent, or both


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
    return Polarity(any(part.affirms for part in parts.values()), denials or ABSENT)


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
