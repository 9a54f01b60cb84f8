"""The operators, and the compilation of a YAML value into a matcher.

`operators.yaml` describes each of them.
"""

from __future__ import annotations

import operator
import pathlib
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import msgspec

from simkit.core.errors import MatcherError
from simkit.core.messages import ABSENT
from simkit.core.text import other_words
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
operand: see ``contradictions``.
"""


class Operator(NamedTuple):
    """One operator of the language."""

    build: Compile
    stance: Stance
    """Whether it affirms or denies."""


OF_NUMBERS: Final = ("$gt", "$gte", "$lt", "$lte", "$approx")
"""Operators that hold for numbers only."""
OF_TEXTS: Final = ("$contains", "$starts", "$ends", "$regex", "$len", "$json")
OF_VALUE: Final = ("$not", "$either", "$all", "$in", "$exact")
"""Operators with matchers of the same value."""
OF_ELEMENTS: Final = ("$each", "$has", "$in_order", "$unordered", "$unique")
"""Operators with matchers of a list's elements."""
_OF_ONE: Final = ("$not", "$exact", "$each")
"""Operators with a single matcher, which may be a list."""
OPERATORS: Final[Mapping[str, Operator]] = {
    "$eq": Operator(general.eq, "equals"),
    "$ne": Operator(general.ne, "differs"),
    "$in": Operator(general.alternatives("$in"), "some"),
    "$type": Operator(general.type_, "type"),
    "$any": Operator(general.any_, "affirms"),
    "$absent": Operator(general.absent, "denies"),
    "$not": Operator(general.not_, "negates"),
    "$either": Operator(general.alternatives("$either"), "some"),
    "$all": Operator(general.all_, "every"),
    "$schema": Operator(general.schema, "unknown"),
    "$gt": Operator(general.compared("$gt", operator.gt), "affirms"),
    "$gte": Operator(general.compared("$gte", operator.ge), "affirms"),
    "$lt": Operator(general.compared("$lt", operator.lt), "denies"),
    "$lte": Operator(general.compared("$lte", operator.le), "denies"),
    "$approx": Operator(general.approx, "affirms"),
    "$contains": Operator(general.contains, "affirms"),
    "$starts": Operator(general.compared("$starts", str.startswith, is_text=True), "affirms"),
    "$ends": Operator(general.compared("$ends", str.endswith, is_text=True), "affirms"),
    "$regex": Operator(general.regex, "regex"),
    "$len": Operator(general.len_, "counts"),
    "$json": Operator(general.json_, "keys"),
    "$each": Operator(lists.each, "denies"),
    "$has": Operator(lists.has, "affirms"),
    "$in_order": Operator(lists.in_order, "affirms"),
    "$unordered": Operator(lists.unordered, "equals"),
    "$unique": Operator(lists.unique, "denies"),
    "$exact": Operator(exact, "exact"),
    "$keys": Operator(general.keys, "keys"),
}
"""The operators by name; `operators.yaml` describes each."""


class Description(msgspec.Struct, frozen=True):
    """An operator for people and editors."""

    says: str
    """The condition under which it holds."""
    takes: dict[str, Any]
    """The JSON Schema of its operand."""


@cache
def descriptions() -> Mapping[str, Description]:
    """Return the description of each operator."""
    text = pathlib.Path(__file__).with_name("operators.yaml").read_bytes()
    described = msgspec.yaml.decode(text, type=dict[str, Description])
    described["$type"].takes["enum"] = sorted(general.TYPE_NAMES)
    return described


def operator_meant(key: str) -> str:
    """Return the operator that a key without its `$`, or of another language, means; or nothing."""
    name = key if key.startswith("$") else f"${key}"
    if name in OPERATORS:
        return name
    names = other_words("operators").items()
    return next((operator for operator, others in names if name in others), "")


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
    rows = descriptions()
    operators = {name: {**row.takes, "description": row.says} for name, row in rows.items()}
    matcher = {"$ref": "#/$defs/matcher"}
    plain = {"^(\\$\\$|[^$]|$)": matcher}
    operators["$exact"] = {
        "description": rows["$exact"].says,
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
            operator_meant(name) or name,
            tuple(sorted(OPERATORS)),
            f"write `${name}` for a key that starts with `$`",
        )
    # A denial compares loosely, so that it excludes more values.
    exact = name == "$exact" or (is_exact and name != "$not")
    return OPERATORS[name].build(operand, (*at, name), build_exact if exact else build)
