"""Values that are no matchers."""

from __future__ import annotations

from typing import Any

import pytest

from simkit.core.errors import MatcherError
from simkit.language.matching import OPERATORS, check, holds

BOTH_WAYS = "write `{$exact: {}}` for an empty mapping, `{$any: true}` for any value"
TYPES = (
    *("array", "boolean", "integer", "list", "mapping", "message", "null", "number", "object"),
    *("string", "text"),
)


@pytest.mark.parametrize(
    ("matcher", "refusal"),
    [
        ({}, ((), "the matcher `{}` would hold of everything", "{}", (), BOTH_WAYS)),
        (
            {"a": [1, {}]},
            (("a", 1), "the matcher `{}` would hold of everything", "{}", (), BOTH_WAYS),
        ),
        (
            {"a": {"$contain": "x"}},
            (
                ("a", "$contain"),
                "no operator is named `$contain`",
                "$contain",
                tuple(sorted(OPERATORS)),
                "write `$$contain` for a key that starts with `$`",
            ),
        ),
        (
            {"$matches": "x"},
            (
                ("$matches",),
                "no operator is named `$matches`",
                "$regex",
                tuple(sorted(OPERATORS)),
                "write `$$matches` for a key that starts with `$`",
            ),
        ),
        (
            {"$any": False},
            (
                ("$any",),
                "`$any` takes only `true`, not false",
                "",
                (),
                "the opposite is `{$absent: true}`",
            ),
        ),
        ({"$absent": 1}, (("$absent",), "`$absent` takes only `true`, not 1", "", (), "")),
        ({"$len": "x"}, (("$len",), '`$len` takes a count or operators, not "x"', "", (), "")),
        ({"$len": True}, (("$len",), "`$len` takes a count or operators, not true", "", (), "")),
        ({"$len": -1}, (("$len",), "`$len` takes a count or operators, not -1", "", (), "")),
        (
            {"$regex": "("},
            (
                ("$regex",),
                "`$regex: (` is no regular expression: "
                "missing ), unterminated subpattern at position 0; for plain text: `$contains`",
                "(",
                (),
                "",
            ),
        ),
        ({"$in": 3}, (("$in",), "`$in` takes a list, not 3", "", (), "")),
        ({"$in": []}, (("$in",), "`$in` takes a list that is not empty, not []", "", (), "")),
        ({"$all": []}, (("$all",), "`$all` takes a list that is not empty, not []", "", (), "")),
        ({"$has": []}, (("$has",), "`$has` takes a list that is not empty, not []", "", (), "")),
        ({"$type": "strng"}, (("$type",), "no type is named `strng`", "strng", TYPES, "")),
        ({"$type": 1}, (("$type",), "`$type` takes the name of a type, not 1", "", (), "")),
        ({"$gt": "3"}, (("$gt",), '`$gt` takes a number, not "3"', "", (), "")),
        ({"$lt": True}, (("$lt",), "`$lt` takes a number, not true", "", (), "")),
        (
            {"$schema": "string"},
            (("$schema",), '`$schema` takes a JSON Schema, not "string"', "", (), ""),
        ),
        (
            {"$schema": {"properties": {"a": {"type": "text"}}}},
            (
                ("$schema", "properties", "a", "type"),
                "no type is named 'text'",
                "text",
                ("array", "boolean", "integer", "null", "number", "object", "string"),
                "",
            ),
        ),
        (
            {"$approx": {"abs": 1}},
            (
                ("$approx",),
                "`$approx` takes a number, or `{value, abs, rel}`, not {abs: 1}",
                "",
                (),
                "",
            ),
        ),
        (
            {"$approx": {"value": 1, "absolute": 1}},
            (
                ("$approx", "absolute"),
                "`$approx` has no `absolute`",
                "absolute",
                ("abs", "rel", "value"),
                "",
            ),
        ),
        (
            {"$contains": []},
            (
                ("$contains",),
                "`$contains` takes a text, or a list that is not empty, not []",
                "",
                (),
                "",
            ),
        ),
        (
            {"$contains": ["x", {"a": 1}]},
            (("$contains", 1), "`$contains` takes a text, not {a: 1}", "", (), ""),
        ),
        (
            {"$starts": ""},
            (
                ("$starts",),
                '`$starts` takes a text that is not empty, not ""',
                "",
                (),
                "every text contains the empty one",
            ),
        ),
        (
            {"$exact": {"a": 1, "$len": 1}},
            (
                ("$exact", "$len"),
                "`$exact` takes plain keys",
                "$len",
                (),
                "put `$len` beside `$exact`",
            ),
        ),
        ({"$exact": 1}, (("$exact",), "`$exact` takes a mapping", "", (), "")),
        (
            {"$keys": "a"},
            (("$keys",), '`$keys` takes a list of keys, or operators, not "a"', "", (), ""),
        ),
        (
            {"$keys": ["a", 1]},
            (("$keys",), '`$keys` takes a list of keys, not ["a", 1]', "", (), ""),
        ),
        (
            {"$not": {}},
            (("$not",), "the matcher `{}` would hold of everything", "{}", (), BOTH_WAYS),
        ),
        ({"a": {1: 2}}, (("a",), "the keys of a matcher are texts, not 1", "", (), "")),
        ({"a": {None: 2}}, (("a",), "the keys of a matcher are texts, not None", "", (), "")),
        (object(), ((), "a matcher is a mapping, a list or a scalar, not object", "", (), "")),
    ],
)
def test_value_that_is_no_matcher_is_refused_with_its_place(
    matcher: Any, refusal: tuple[Any, ...]
) -> None:
    with pytest.raises(MatcherError) as error:
        check(matcher)

    assert error.value.args == refusal


def test_every_operator_refuses_the_empty_mapping_or_takes_it_literally() -> None:
    accepted = []
    for name in OPERATORS:
        try:
            check({name: {}})
        except MatcherError:
            continue
        accepted.append(name)

    assert accepted == ["$eq", "$ne", "$schema", "$exact"]


EXACT: dict[str, Any] = {"$exact": {"a": {"b": {"c": 1}}, "d": [{"e": 1}]}}


@pytest.mark.parametrize(
    "value",
    [
        {"a": {"b": {"c": 1, "x": 2}}, "d": [{"e": 1}]},
        {"a": {"b": {"c": 1}, "x": 2}, "d": [{"e": 1}]},
        {"a": {"b": {"c": 1}}, "d": [{"e": 1, "x": 2}]},
    ],
)
def test_exact_is_exact_at_any_depth(value: object) -> None:
    assert not holds(EXACT, value)
    assert not holds({"$exact": {"all": {"$each": EXACT["$exact"]}}}, {"all": [value]})
    assert holds(EXACT, {"a": {"b": {"c": 1}}, "d": [{"e": 1}]})


def test_exact_takes_an_empty_mapping_below_it() -> None:
    assert holds({"$exact": {"a": {}}}, {"a": {}})
    assert not holds({"$exact": {"a": {}}}, {"a": {"x": 1}})
    assert not holds({"$exact": {"a": {}}}, {"a": 1})
