"""The operators, and the compilation of a YAML value into a matcher.

`operators.yaml` describes each of them. Those on one value come first: equality, types, presence,
numbers, texts, lengths, keys, JSON Schema.
"""

from __future__ import annotations

import operator
import pathlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import msgspec

from simkit.core.errors import MatcherError
from simkit.core.messages import ABSENT, Dropped, Message, Nothing
from simkit.core.text import other_words
from simkit.language.expressions import Expression
from simkit.language.json_schema import TYPES, compile_schema, equal
from simkit.language.matching import lists, values
from simkit.language.matching.lists import whole
from simkit.language.matching.mappings import exact, exactly, keyed
from simkit.language.matching.misses import (
    Build,
    Compile,
    Condition,
    Miss,
    Path,
    Phrase,
    conjunction,
    leaf,
    line,
    matchers,
    number_operand,
    only_true,
    refused,
    text_operand,
    unless,
)
from simkit.language.paths import follow


def scalar(expected: Any, at: Path) -> Condition:
    """Return the matcher of equality: ``1`` is ``1.0``, ``true`` is not ``1``."""
    is_bool = isinstance(expected, bool)
    source = values.source_text(expected)

    def holds(value: Any) -> bool:
        if value == expected and (value.__class__ is bool) is is_bool:
            return True
        return value.__class__ in values.TEXT_KINDS and values.text_of(value) == source

    return leaf("", expected, at, holds)


def eq(operand: Any, at: Path, _: Build) -> Condition:
    if operand is None or isinstance(operand, (str, int, float)):
        return scalar(operand, at)
    return leaf("", operand, at, lambda value: equal(operand, values.structure_of(value)))


def ne(operand: Any, at: Path, build: Build) -> Condition:
    same = eq(operand, at, build)
    return leaf("$ne", operand, at, lambda value: value is not ABSENT and not same.holds(value))


def _is_message(value: Any) -> bool:
    return isinstance(value, (Message, Dropped)) or (
        isinstance(value, Mapping) and "role" in value and "content" in value
    )


TYPE_NAMES: Final[Mapping[str, Callable[[Any], bool]]] = {
    **TYPES,
    "list": TYPES["array"],
    "mapping": TYPES["object"],
    "text": TYPES["string"],
    "message": _is_message,
}


def type_(operand: Any, at: Path, _: Build) -> Condition:
    if not isinstance(operand, str):
        raise refused(at, "the name of a type", operand)
    if operand not in TYPE_NAMES:
        raise MatcherError(at, f"no type is named `{operand}`", operand, tuple(sorted(TYPE_NAMES)))
    test = TYPE_NAMES[operand]

    def holds(value: Any) -> bool:
        if isinstance(value, values.Content):
            return test(value.text) or test(value.structure)
        return test(values.structure_of(value))

    return leaf("$type", operand, at, holds)


def any_(operand: Any, at: Path, _: Build) -> Condition:
    only_true(operand, at)
    return leaf("$any", operand, at, lambda value: not _is_absent(value))


def absent(operand: Any, at: Path, _: Build) -> Condition:
    only_true(operand, at)
    return leaf("$absent", operand, at, _is_absent)


def _is_absent(value: Any) -> bool:
    """Return whether a value is absent; values that a claim treats as empty or null are too."""
    return value is ABSENT or isinstance(value, Nothing)


def not_(operand: Any, at: Path, build: Build) -> Condition:
    inner = build(operand, at)
    return leaf("$not", operand, at, lambda value: not inner.holds(value))


def alternatives(name: str) -> Compile:
    """Return the operator that holds if one of its operands does, of what is absent, too."""

    def build_alternatives(operand: Any, at: Path, build: Build) -> Condition:
        inner = [element.inner.holds for element in matchers(operand, at, build)]
        return leaf(name, operand, at, lambda value: any(holds(value) for holds in inner))

    return build_alternatives


def all_(operand: Any, at: Path, build: Build) -> Condition:
    return conjunction([element.inner for element in matchers(operand, at, build)])


def schema(operand: Any, at: Path, _: Build) -> Condition:
    if not isinstance(operand, Mapping):
        raise refused(at, "a JSON Schema", operand)
    check = compile_schema(operand, None, at)

    def misses(value: Any) -> Iterable[Miss]:
        if value is ABSENT:
            return (Miss((), at, "$schema", operand, value),)
        read = (
            values.text_of(value)
            if isinstance(value, (Message, Dropped))
            else values.structure_of(value)
        )
        return [
            Miss(path, at, "$schema", Phrase(text), follow(read, path))
            for path, text in check(read)
        ]

    return unless(misses)


def compared(name: str, compare: Callable[[Any, Any], bool], *, is_text: bool = False) -> Compile:
    """Return the operator that compares numbers, or texts, with its operand."""
    read_operand, read = (
        (text_operand, values.text_of) if is_text else (number_operand, values.number_of)
    )

    def build_compared(operand: Any, at: Path, _: Build) -> Condition:
        expected: Any = read_operand(operand, at)

        def holds(value: Any) -> bool:
            actual: Any = read(value)
            return actual is not None and compare(actual, expected)

        return leaf(name, operand, at, holds)

    return build_compared


def approx(operand: Any, at: Path, _: Build) -> Condition:
    allowed = {"rel": 1e-6, "abs": 1e-12}
    target = operand
    if isinstance(operand, Mapping):
        for key in operand:
            if key not in ("value", *allowed):
                raise MatcherError(
                    (*at, key), f"`$approx` has no `{key}`", key, ("abs", "rel", "value")
                )
        if "value" not in operand:
            raise refused(at, "a number, or `{value, abs, rel}`", operand)
        bounds = {key: number_operand(operand[key], (*at, key)) for key in operand}
        target = bounds.pop("value")
        # A given tolerance replaces the default, so that `abs: 0.5` means exactly that.
        allowed = dict.fromkeys(allowed, 0.0) | bounds if bounds else allowed
    limit = number_operand(target, at)
    tolerance = max(allowed["abs"], allowed["rel"] * abs(limit))

    def holds(value: Any) -> bool:
        number = values.number_of(value)
        return number is not None and (number == limit or abs(number - limit) <= tolerance)

    return leaf("$approx", operand, at, holds)


def contains(operand: Any, at: Path, _: Build) -> Condition:
    if isinstance(operand, (list, tuple)):
        if not operand:
            raise refused(at, "a text, or a list that is not empty", operand)
        needles = [text_operand(chars, (*at, index)) for index, chars in enumerate(operand)]
    else:
        needles = [text_operand(operand, at)]

    def misses(value: Any) -> Iterable[Miss]:
        searched = values.searched_text(value)
        if searched is None:
            return (Miss((), at, "$contains", operand, value),)
        lacking = [index for index, needle in enumerate(needles) if needle not in searched]
        if lacking and len(needles) == 1:
            return (Miss((), at, "$contains", needles[0], value),)
        note = f"{len(needles) - len(lacking)} of {len(needles)} parts are there"
        return [
            Miss((), (*at, index), "$contains", needles[index], value, note) for index in lacking
        ]

    return unless(misses)


def regex(operand: Any, at: Path, _: Build) -> Condition:
    if not isinstance(operand, str):
        raise refused(at, "a regular expression", operand)
    try:
        search = Expression(operand).search
    except re.error as error:
        raise MatcherError(
            at,
            f"`$regex: {operand}` is no regular expression: {error}; for plain text: `$contains`",
            operand,
        ) from None

    def holds(value: Any) -> bool:
        return any(search(text) is not None for text in values.texts_of(value))

    return leaf("$regex", operand, at, holds)


def len_(operand: Any, at: Path, build: Build) -> Condition:
    is_count = isinstance(operand, int) and not isinstance(operand, bool) and operand >= 0
    if not is_count and not isinstance(operand, Mapping):
        raise refused(at, "a count or operators", operand)
    inner = build(operand, at)

    def misses(value: Any) -> Iterable[Miss]:
        size = values.size_of(value)
        if size is None:
            return (Miss((), at, "$len", operand, value),)
        if inner.holds(size):
            return ()
        actual = Phrase(f"$len: {size}")
        return (Miss((), at, "$len", operand, actual, lambda: f"it is {line(value)}"),)

    return unless(misses)


def json_(operand: Any, at: Path, build: Build) -> Condition:
    """Return the matcher of the value in a text of JSON, however that is spaced."""
    inner = build(operand, at)

    def misses(value: Any) -> Iterable[Miss]:
        parsed = values.value_in(value)
        if parsed is ABSENT:
            note = "no text" if values.text_of(value) is None else "the text is no JSON"
            return (Miss((), at, "$json", operand, value, note),)
        return inner.misses(parsed)

    return unless(misses)


def keys(operand: Any, at: Path, build: Build) -> Condition:
    if isinstance(operand, (list, tuple)):
        if not all(isinstance(key, str) for key in operand):
            raise refused(at, "a list of keys", operand)
        names = sorted(operand)
        return leaf("$keys", operand, at, lambda value: _keys_of(value) == names)
    if not isinstance(operand, Mapping):
        raise refused(at, "a list of keys, or operators", operand)
    inner = build(operand, at)

    def holds(value: Any) -> bool:
        keys = _keys_of(value)
        return keys is not None and inner.holds(keys)

    return leaf("$keys", operand, at, holds)


def _keys_of(value: Any) -> list[str] | None:
    value = values.structure_of(value)
    return sorted(value) if isinstance(value, Mapping) else None


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
    "$eq": Operator(eq, "equals"),
    "$ne": Operator(ne, "differs"),
    "$in": Operator(alternatives("$in"), "some"),
    "$type": Operator(type_, "type"),
    "$any": Operator(any_, "affirms"),
    "$absent": Operator(absent, "denies"),
    "$not": Operator(not_, "negates"),
    "$either": Operator(alternatives("$either"), "some"),
    "$all": Operator(all_, "every"),
    "$schema": Operator(schema, "unknown"),
    "$gt": Operator(compared("$gt", operator.gt), "affirms"),
    "$gte": Operator(compared("$gte", operator.ge), "affirms"),
    "$lt": Operator(compared("$lt", operator.lt), "denies"),
    "$lte": Operator(compared("$lte", operator.le), "denies"),
    "$approx": Operator(approx, "affirms"),
    "$contains": Operator(contains, "affirms"),
    "$starts": Operator(compared("$starts", str.startswith, is_text=True), "affirms"),
    "$ends": Operator(compared("$ends", str.endswith, is_text=True), "affirms"),
    "$regex": Operator(regex, "regex"),
    "$len": Operator(len_, "counts"),
    "$json": Operator(json_, "keys"),
    "$each": Operator(lists.each, "denies"),
    "$has": Operator(lists.has, "affirms"),
    "$in_order": Operator(lists.in_order, "affirms"),
    "$unordered": Operator(lists.unordered, "equals"),
    "$unique": Operator(lists.unique, "denies"),
    "$exact": Operator(exact, "exact"),
    "$keys": Operator(keys, "keys"),
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
    described["$type"].takes["enum"] = sorted(TYPE_NAMES)
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
