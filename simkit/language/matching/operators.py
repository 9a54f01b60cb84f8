"""The operators, and the compilation of a YAML value into a matcher.

A row of an operator has its operand, its meaning, and its description for editors.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from simkit.core.errors import MatcherError
from simkit.core.messages import ABSENT
from simkit.language.matching import general, lists
from simkit.language.matching.general import scalar
from simkit.language.matching.lists import whole
from simkit.language.matching.mappings import exact, exactly, keyed
from simkit.language.matching.misses import Compile, Condition, Path, conjunction

Stance: TypeAlias = Literal[
    "affirms", "denies", "unknown", "equals", "differs", "type", "regex", "exact", "every", "some",
    "negates", "counts", "keys",
]  # fmt: skip
"""Whether a claim with an operator says that something is present, or that nothing else is.

``affirms`` and ``denies`` are fixed; ``unknown`` may be both. The other values depend on the
operand: see ``polarity``.
"""


class Operator(NamedTuple):
    """One operator of the language."""

    build: Compile
    says: str
    """The condition under which it holds, for editors."""
    takes: Mapping[str, Any]
    """The JSON Schema of its operand."""
    stance: Stance
    """Whether it affirms or denies."""


_ANYTHING: Final[Mapping[str, Any]] = {}
_TRUE: Final = {"const": True}
_NUMBER: Final = {"type": "number"}
_NEEDLE: Final = {"type": ["string", "number", "boolean"], "minLength": 1}
_MATCHER: Final = {"$ref": "#/$defs/matcher"}
_MATCHER_LIST: Final = {"type": "array", "items": _MATCHER}
_SOME_MATCHERS: Final = {**_MATCHER_LIST, "minItems": 1}
_KEYS: Final = {
    "anyOf": [
        {"type": "string", "minLength": 1},
        {"type": "array", "minItems": 1, "items": {"type": "string", "minLength": 1}},
    ]
}
_COUNT: Final = {"type": "integer", "minimum": 0}

OF_NUMBERS: Final = ("$gt", "$gte", "$lt", "$lte", "$approx")
"""Operators that hold for numbers only."""
OF_TEXTS: Final = ("$contains", "$starts", "$ends", "$regex", "$len")
OF_VALUE: Final = ("$not", "$either", "$all", "$in", "$exact")
"""Operators with matchers of the same value."""
OF_ELEMENTS: Final = ("$each", "$has", "$in_order", "$unordered", "$unique")
"""Operators with matchers of a list's elements."""
_OF_ONE: Final = ("$not", "$exact", "$each")
"""Operators with a single matcher, which may be a list."""
OPERATORS: Final[Mapping[str, Operator]] = {
    "$eq": Operator(
        general.eq, "Equal as a whole; nothing inside is an operator.", _ANYTHING, "equals"
    ),
    "$ne": Operator(general.ne, "There, and not equal.", _ANYTHING, "differs"),
    "$in": Operator(general.alternatives("$in"), "One of these holds.", _SOME_MATCHERS, "some"),
    "$type": Operator(general.type_, "Of this type.", {"enum": sorted(general.TYPE_NAMES)}, "type"),
    "$any": Operator(general.any_, "There, whatever it is, null too.", _TRUE, "affirms"),
    "$absent": Operator(general.absent, "Not there.", _TRUE, "denies"),
    "$not": Operator(
        general.not_,
        "The matcher does not hold; so it holds of what is absent.",
        _MATCHER,
        "negates",
    ),
    "$either": Operator(
        general.alternatives("$either"), "At least one holds.", _SOME_MATCHERS, "some"
    ),
    "$all": Operator(general.all_, "All hold.", _SOME_MATCHERS, "every"),
    "$schema": Operator(
        general.schema, "Valid under this JSON Schema.", {"type": "object"}, "unknown"
    ),
    "$gt": Operator(general.compared("$gt", operator.gt), "A number above.", _NUMBER, "affirms"),
    "$gte": Operator(
        general.compared("$gte", operator.ge), "A number above, or equal.", _NUMBER, "affirms"
    ),
    "$lt": Operator(general.compared("$lt", operator.lt), "A number below.", _NUMBER, "denies"),
    "$lte": Operator(
        general.compared("$lte", operator.le), "A number below, or equal.", _NUMBER, "denies"
    ),
    "$approx": Operator(
        general.approx,
        "About this number; by default to a millionth.",
        {
            "anyOf": [
                _NUMBER,
                {
                    "type": "object",
                    "required": ["value"],
                    "properties": {"value": _NUMBER, "abs": _NUMBER, "rel": _NUMBER},
                    "additionalProperties": False,
                },
            ]
        },
        "affirms",
    ),
    "$contains": Operator(
        general.contains,
        "The text of the value contains this, or all of these.",
        {"anyOf": [_NEEDLE, {"type": "array", "items": _NEEDLE, "minItems": 1}]},
        "affirms",
    ),
    "$starts": Operator(
        general.compared("$starts", str.startswith, is_text=True),
        "The text starts so.",
        _NEEDLE,
        "affirms",
    ),
    "$ends": Operator(
        general.compared("$ends", str.endswith, is_text=True),
        "The text ends so.",
        _NEEDLE,
        "affirms",
    ),
    "$regex": Operator(
        general.regex,
        "The regular expression is found somewhere in the text of the value.",
        {"type": "string", "format": "regex"},
        "regex",
    ),
    "$len": Operator(
        general.len_,
        "The length of a text, list or mapping: a count, or a matcher of it.",
        {"anyOf": [_COUNT, {"allOf": [{"type": "object"}, _MATCHER]}]},
        "counts",
    ),
    "$each": Operator(lists.each, "Every element matches.", _MATCHER, "denies"),
    "$has": Operator(
        lists.has, "Each is found in an element of its own, in any order.", _MATCHER, "affirms"
    ),
    "$in_order": Operator(
        lists.in_order, "Found one after the other, with gaps.", _SOME_MATCHERS, "affirms"
    ),
    "$unordered": Operator(
        lists.unordered, "The whole list, in any order.", _MATCHER_LIST, "equals"
    ),
    "$unique": Operator(
        lists.unique,
        "No two elements are equal: as a whole (`true`), or in these keys; `of` matches those that "
        "are compared.",
        {
            "anyOf": [
                _TRUE,
                _KEYS,
                {
                    "type": "object",
                    "minProperties": 1,
                    "properties": {
                        "of": {
                            "allOf": [_MATCHER],
                            "description": "The elements that are compared.",
                        },
                        "by": {**_KEYS, "description": "The keys that are compared."},
                    },
                    "additionalProperties": False,
                },
            ]
        },
        "denies",
    ),
    "$exact": Operator(
        exact,
        "These keys match, and there are no others, at any depth.",
        {"type": "object"},
        "exact",
    ),
    "$keys": Operator(
        general.keys,
        "Exactly these keys in any order; or a matcher of the sorted list of keys.",
        {
            "anyOf": [
                {"type": "array", "items": {"type": "string"}},
                {"allOf": [{"type": "object"}, _MATCHER]},
            ]
        },
        "keys",
    ),
}


def inner_matchers(key: str, operand: Any, at: Path) -> Iterator[tuple[Path, Any]]:
    """Yield the matchers in the operand of an operator of values or elements, with their paths."""
    if key == "$unique":
        _, matcher = lists.unique_parts(operand, at)
        if matcher is not ABSENT:
            yield (*at, "of"), matcher
    elif key in _OF_ONE or not isinstance(operand, (list, tuple)):
        yield at, operand
    else:
        yield from (((*at, index), inner) for index, inner in enumerate(operand))


# The JSON Schema of a matcher, so that an editor knows the operators


def matcher_json_schema() -> dict[str, Any]:
    """Return the ``$defs`` that describe a matcher; refer to it as ``#/$defs/matcher``."""
    operators = {name: {**row.takes, "description": row.says} for name, row in OPERATORS.items()}
    matcher = {"$ref": "#/$defs/matcher"}
    plain = {"^(\\$\\$|[^$]|$)": matcher}
    operators["$exact"] = {
        "description": OPERATORS["$exact"].says,
        "type": "object",
        "patternProperties": plain,
        "additionalProperties": False,
    }
    return {
        "matcher": {
            "description": "A scalar is equal, a list whole and in order, a mapping partial.",
            "anyOf": [
                {"type": ["string", "number", "boolean", "null"]},
                {"type": "array", "items": matcher},
                {"$ref": "#/$defs/mapping_matcher"},
            ],
        },
        "mapping_matcher": {
            "type": "object",
            "minProperties": 1,
            "properties": operators,
            "patternProperties": plain,
            "additionalProperties": False,
        },
    }


def build(matcher: Any, at: Path) -> Condition:
    """Return the compiled matcher; raise MatcherError with the path of an invalid part."""
    if matcher is None or isinstance(matcher, (str, int, float)):
        return scalar(matcher, at)
    if isinstance(matcher, (list, tuple)):
        return whole(list(matcher), at, build)
    if isinstance(matcher, Mapping):
        return _mapping(matcher, at)
    raise MatcherError(
        at, f"a matcher is a mapping, a list or a scalar, not {type(matcher).__name__}"
    )


def build_exact(matcher: Any, at: Path) -> Condition:
    """Return the compiled operand of ``$exact``: mappings in it have no other keys."""
    if isinstance(matcher, (list, tuple)):
        return whole(list(matcher), at, build_exact)
    if isinstance(matcher, Mapping):
        return _mapping(matcher, at, is_exact=True)
    return build(matcher, at)


def _mapping(matcher: Mapping[str, Any], at: Path, is_exact: bool = False) -> Condition:
    if not matcher and not is_exact:
        raise MatcherError(
            at,
            "the matcher `{}` would hold of everything",
            "{}",
            (),
            "write `{$exact: {}}` for an empty mapping, `{$any: true}` for any value",
        )
    for key in matcher:
        if not isinstance(key, str):
            raise MatcherError(at, f"the keys of a matcher are texts, not {key!r}")
    plain = {key: operand for key, operand in matcher.items() if not is_operator(key)}
    parts = [
        _operator(key, operand, at, is_exact)
        for key, operand in matcher.items()
        if is_operator(key)
    ]
    if is_exact and (plain or not matcher):
        parts.append(exactly(plain, at, build_exact))
    elif plain:
        parts.append(keyed(plain, at, build))
    return parts[0] if len(parts) == 1 else conjunction(parts)


def is_operator(key: str) -> bool:
    """Return whether a key is an operator; ``$$`` begins a plain key that starts with ``$``."""
    return key.startswith("$") and not key.startswith("$$")


def _operator(name: str, operand: Any, at: Path, is_exact: bool) -> Condition:
    if name not in OPERATORS:
        raise MatcherError(
            (*at, name),
            f"no operator is named `{name}`",
            name,
            tuple(sorted(OPERATORS)),
            f"write `${name}` for a key that starts with `$`",
        )
    # A denial compares loosely, so that it excludes more values.
    exact = name == "$exact" or (is_exact and name != "$not")
    return OPERATORS[name].build(operand, (*at, name), build_exact if exact else build)
