"""The operators: their operands, their meaning, and their description for editors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from simkit.language.matching import general, lists, measures
from simkit.language.matching.mappings import exact
from simkit.language.matching.operands import Compile

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
OF_ELEMENTS: Final = ("$each", "$has", "$in_order", "$unordered")
"""Operators with matchers of a list's elements."""
OPERATORS: Final[Mapping[str, Operator]] = {
    "$eq": Operator(
        general.eq, "Equal as a whole; nothing inside is an operator.", _ANYTHING, "equals"
    ),
    "$ne": Operator(general.ne, "There, and not equal.", _ANYTHING, "differs"),
    "$in": Operator(general.in_, "One of these holds.", _SOME_MATCHERS, "some"),
    "$type": Operator(general.type_, "Of this type.", {"enum": sorted(general.TYPE_NAMES)}, "type"),
    "$any": Operator(general.any_, "There, whatever it is, null too.", _TRUE, "affirms"),
    "$absent": Operator(general.absent, "Not there.", _TRUE, "denies"),
    "$not": Operator(
        general.not_,
        "The matcher does not hold; so it holds of what is absent.",
        _MATCHER,
        "negates",
    ),
    "$either": Operator(general.either, "At least one holds.", _SOME_MATCHERS, "some"),
    "$all": Operator(general.all_, "All hold.", _SOME_MATCHERS, "every"),
    "$schema": Operator(
        general.schema, "Valid under this JSON Schema.", {"type": "object"}, "unknown"
    ),
    "$gt": Operator(
        measures.compared("$gt", lambda a, b: bool(a > b)), "A number above.", _NUMBER, "affirms"
    ),
    "$gte": Operator(
        measures.compared("$gte", lambda a, b: bool(a >= b)),
        "A number above, or equal.",
        _NUMBER,
        "affirms",
    ),
    "$lt": Operator(
        measures.compared("$lt", lambda a, b: bool(a < b)), "A number below.", _NUMBER, "denies"
    ),
    "$lte": Operator(
        measures.compared("$lte", lambda a, b: bool(a <= b)),
        "A number below, or equal.",
        _NUMBER,
        "denies",
    ),
    "$approx": Operator(
        measures.approx,
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
        measures.contains,
        "The text of the value contains this, or all of these.",
        {"anyOf": [_NEEDLE, {"type": "array", "items": _NEEDLE, "minItems": 1}]},
        "affirms",
    ),
    "$starts": Operator(
        measures.affix("$starts", str.startswith), "The text starts so.", _NEEDLE, "affirms"
    ),
    "$ends": Operator(
        measures.affix("$ends", str.endswith), "The text ends so.", _NEEDLE, "affirms"
    ),
    "$regex": Operator(
        measures.regex,
        "The regular expression is found somewhere in the text of the value.",
        {"type": "string", "format": "regex"},
        "regex",
    ),
    "$len": Operator(
        measures.len_,
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
        measures.keys,
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


# The JSON Schema of a matcher, so that an editor knows the operators


def matcher_json_schema() -> dict[str, Any]:
    """Return the ``$defs`` that describe a matcher; refer to it as ``#/$defs/matcher``."""
    operators = {
        name: {**operator.takes, "description": operator.says}
        for name, operator in OPERATORS.items()
    }
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
