"""A condition holds of a value exactly if it has no miss, whatever the two look at to tell."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from simkit.core.errors import MatcherError
from simkit.core.messages import ABSENT, UNMADE, Dropped, Message, Null, ToolCall
from simkit.language.matching import Matcher
from simkit.language.matching.values import Content

TEXTS = st.sampled_from(["", "a", "ab", "b a", '{"a": 1}', "[1]", "user", "m1", "true", "1"])
SCALARS = TEXTS | st.sampled_from([None, True, False, 0, 1, 1.0, 2])
KEYS = st.sampled_from(
    [
        *("role", "content", "text", "agent", "section", "calls", "id", "turn", "tool", "data"),
        *(
            "call_id",
            "thinking",
            "what",
            "by",
            "user",
            "assistant",
            "human",
            "tool",
            "name",
            "args",
        ),
        *("a", "b", "a.b", "calls[0].name", "data.a", "to", "$$a"),
    ]
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)
CALLS = st.builds(ToolCall, TEXTS, st.sampled_from(["a", "transfer_to_b"]), JSON)
MESSAGES = st.builds(
    Message,
    st.sampled_from(["user", "assistant", "system", "tool"]),
    TEXTS,
    st.sampled_from(["", "m1"]),
    st.sampled_from([None, "a", "b"]),
    st.integers(0, 2),
    st.lists(CALLS, max_size=2).map(tuple),
    TEXTS,
    TEXTS,
    JSON | st.just({"reasoning": [{"text": "a"}]}),
    TEXTS,
)
VALUES = (
    JSON
    | MESSAGES
    | CALLS
    | st.builds(Dropped, MESSAGES, TEXTS, TEXTS)
    | st.builds(Content, TEXTS, JSON)
    | st.lists(MESSAGES | CALLS, max_size=3)
    | st.sampled_from([ABSENT, UNMADE, Null()])
)


def operators(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    some = st.lists(inner, min_size=1, max_size=3)
    operands: dict[str, st.SearchStrategy[Any]] = {
        "$contains": TEXTS | st.lists(TEXTS, min_size=1, max_size=2),
        **dict.fromkeys(("$starts", "$ends", "$regex"), TEXTS),
        **dict.fromkeys(("$eq", "$ne"), JSON),
        **dict.fromkeys(("$in", "$either", "$all", "$in_order", "$unordered"), some),
        **dict.fromkeys(("$not", "$each"), inner),
        "$has": inner | some,
        "$unique": KEYS.filter(bool) | st.just(True) | st.builds(lambda of: {"of": of}, inner),
        "$len": st.integers(0, 2) | st.just({"$gt": 1}),
        "$exact": st.dictionaries(KEYS, inner, max_size=2),
        "$keys": st.lists(KEYS, max_size=2),
        **dict.fromkeys(("$any", "$absent"), st.just(True)),
        "$type": st.sampled_from(["message", "list", "mapping", "text", "number", "null"]),
        "$gt": st.integers(0, 1),
        "$schema": st.sampled_from([{"type": "object"}, {"type": "string"}]),
    }
    single = st.one_of([st.fixed_dictionaries({key: operands[key]}) for key in operands])
    return single | st.builds(lambda first, second: {**first, **second}, single, single)


MATCHERS = st.recursive(
    SCALARS,
    lambda inner: (
        operators(inner)
        | st.lists(inner, max_size=3)
        | st.dictionaries(KEYS, inner, min_size=1, max_size=3)
        | st.builds(
            lambda plain, more: {**plain, **more},
            st.dictionaries(KEYS, inner, min_size=1, max_size=2),
            operators(inner),
        )
    ),
    max_leaves=5,
)


@given(MATCHERS, VALUES)
@settings(max_examples=200, deadline=None)
def test_a_condition_holds_exactly_if_it_has_no_miss(source: Any, value: Any) -> None:
    try:
        matcher = Matcher(source)
    except MatcherError:
        return

    assert matcher.holds(value) is (not matcher.mismatches(value))
