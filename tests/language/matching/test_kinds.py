"""A matcher that can hold of nothing where it stands is refused."""

from __future__ import annotations

from typing import Any

import pytest

from simkit.core.errors import MatcherError, SourceError
from simkit.language.matching import kinds
from simkit.language.matching.kinds import (
    AGENTS,
    DROPS,
    ERROR,
    EVENTS,
    HANDOFFS,
    LOGS,
    MESSAGE,
    MESSAGES,
    NAMES,
    NUMBER,
    SETTINGS,
    SHARES,
    TOOL_CALLS,
    Kind,
    check_kind,
)
from tests.checks.judging import MEALS, describe_findings
from tests.golden import assert_says, cases
from tests.language.error_texts import error_text


@pytest.mark.parametrize(
    ("kind", "key", "operator"),
    [
        (MESSAGE, "contains", "$contains"),
        (MESSAGES, "has", "$has"),
        (AGENTS, "length", "$len"),
        (TOOL_CALLS, "unordered", "$unordered"),
        (ERROR, "matches", "$regex"),
    ],
)
def test_an_operator_without_its_dollar_is_named(kind: Kind, key: str, operator: str) -> None:
    with pytest.raises(MatcherError) as caught:
        check_kind({key: "x"}, kind)

    assert caught.value.args[2:] == ("", (), f"Write `{operator}`: without `$` it is a key.")


@cases(__file__, "never")
def test_what_can_never_hold_is_refused(kind: str, matcher: Any, says: str) -> None:
    with pytest.raises(MatcherError) as problem:
        check_kind(matcher, getattr(kinds, kind))

    assert_says(error_text(problem.value), says)


@pytest.mark.parametrize("kind", [AGENTS, HANDOFFS, NAMES, MESSAGES, EVENTS])
def test_a_text_in_place_of_a_list_gets_brackets(kind: Kind) -> None:
    with pytest.raises(MatcherError) as problem:
        check_kind("x", kind)

    assert problem.value.advice == "Put brackets around all: `[…]`."


@pytest.mark.parametrize(
    ("kind", "matcher"),
    [
        (MESSAGE, "x"),
        (MESSAGE, 5),
        (MESSAGE, {"user": ["any", "content"]}),
        (MESSAGE, {"content": {"a": [1]}}),
        (MESSAGE, {"role": "user", "agent": {"$in": ["a", None]}, "turn": {"$lte": 2}}),
        (MESSAGE, {"calls": [{"log_meal": {"food": "x"}}]}),
        (MESSAGE, {"calls[0].args.food": "x"}),
        (MESSAGE, {"$schema": {"type": "string"}}),
        (MESSAGES, [{"user": "x"}, "y"]),
        (MESSAGES, {"$contains": "x", "$len": {"$gt": 1}}),
        (MESSAGES, {"[0]": {"role": "user"}}),
        (MESSAGES, {"$absent": True}),
        (DROPS, [{"role": "tool", "by": "window", "what": "message"}]),
        (NAMES, {"$not": {"$has": "x"}}),
        (NUMBER, {"$lt": 5}),
        (SHARES, {"user": {"$gt": 0.3}}),
        (SETTINGS, {"$exact": {}}),
        (MESSAGE, {"role": {"$in": ["developer", "human", "tool"]}}),
        (AGENTS, ["router", ["a", {"$starts": "b"}]]),
        (AGENTS, {"$has": [["a", "b"]]}),
        (TOOL_CALLS, [{"tool": "x", "args": {"$exact": {}}, "error": "no"}]),
        (TOOL_CALLS, {"[0]": {"result": [1]}}),
        (HANDOFFS, {"$each": {"to": {"$in": ["a"]}, "type": None}}),
        (LOGS, {"$has": {"level": "INFO"}}),
        (EVENTS, {"$in_order": [{"kind": "TurnStarted", "turn": 1, "agent": "a"}]}),
        (ERROR, None),
        (MESSAGE, {"content": {"$eq": [1]}}),
        (NAMES, {"$eq": ["log_meal"]}),
        (ERROR, {"$not": {"$eq": {"type": "timeout"}}}),
        (ERROR, {"type": {"$in": ["rate_limit", "timeout"]}, "status": {"$gte": 400}}),
    ],
)
def test_what_can_hold_is_taken(kind: Kind, matcher: Any) -> None:
    check_kind(matcher, kind)


def test_a_message_of_two_roles_is_told_with_both() -> None:
    with pytest.raises(MatcherError) as problem:
        check_kind({"user": "a", "assistant": "b"}, MESSAGE)

    assert problem.value.what == (
        "`user` and `assistant` stand for a role each, and a message has one"
    )


@pytest.mark.parametrize(
    "claims",
    [
        "context: {nutrition: {excludes: [[{$contains: hello}]]}}",
        "context: {nutrition: {includes: [[{$contains: hello}]]}}",
        "context: {nutrition: {history: hello}}",
        "context: {nutrition: {tools: log_meal}}",
        "context: {nutrition: {tokens: {$len: 3}}}",
        "context: {nutrition: {dropped: [{why: x}]}}",
        "runs: {nutrition: {messages: hello}}",
        "context: {nutrition: {excludes: [{role: robot}]}}",
        "agents: {$not: {$has: [{name: nutrition}]}}",
        "tool_calls: {$not: {$has: [log_meal]}}",
        "handoffs: {$not: {$has: [nutrition]}}",
        "events: {$not: {$has: [[ModelCalled]]}}",
        "logs: {$not: {$has: [Sent]}}",
        "error: {$not: rate_limit}",
    ],
)
def test_a_claim_that_can_never_hold_is_refused_with_its_place(claims: str) -> None:
    with pytest.raises(SourceError) as problem:
        describe_findings(MEALS, claims)

    assert "turns[1].expect." in problem.value.at
