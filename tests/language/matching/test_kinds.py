"""A matcher that can hold of nothing where it stands is refused."""

from __future__ import annotations

from typing import Any

import pytest

from simkit.core.errors import MatcherError, SourceError
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


@pytest.mark.parametrize(
    ("kind", "matcher", "label"),
    [
        (MESSAGE, [{"$contains": "hello"}], "can never match a message"),
        (MESSAGE, {"$not": ["x"]}, "can never match a message"),
        (MESSAGE, {"$either": ["a", ["b"]]}, "can never match a message"),
        (MESSAGE, {"contains": "A-1"}, "a message has no `contains`"),
        (MESSAGE, {"rôle": "user"}, "a message has no `rôle`"),
        (MESSAGE, {"role": {"name": "user"}}, "the key `name` can never match the role"),
        (MESSAGE, {"role": ["user"]}, "can never match the role"),
        (MESSAGE, {"role": {"$gt": 1}}, "`$gt` can never match the role"),
        (MESSAGE, {"role": "robot"}, '"robot" can never match the role of a message'),
        (MESSAGES, {"$each": {"role": {"$in": ["user", "robot"]}}}, '"robot" can never match'),
        (AGENTS, {"$not": {"$has": [{"name": "clerk"}]}}, "the key `name` can never match"),
        (AGENTS, [3], "3 can never match an agent's name"),
        (AGENTS, ["clerk", [["shipper"]]], "can never match a text"),
        (TOOL_CALLS, {"$not": {"$has": ["look_up"]}}, '"look_up" can never match a tool call'),
        (TOOL_CALLS, [{"tool": ["look_up"]}], "can never match a text"),
        (TOOL_CALLS, {"tool": "look_up"}, "the key `tool` can never match a list of tool calls"),
        (HANDOFFS, {"$not": {"$has": "shipper"}}, '"shipper" can never match a handoff'),
        (LOGS, {"$not": {"$has": [{"$starts": "Sent"}]}}, "`$starts` can never match a log record"),
        (EVENTS, {"$not": {"$has": [["ModelCalled"]]}}, "can never match an event"),
        (ERROR, {"$not": "rate_limit"}, '"rate_limit" can never match an error'),
        (ERROR, {"$in": ["rate_limit", "timeout"]}, '"rate_limit" can never match an error'),
        (ERROR, {"$not": {"kind": "rate_limit"}}, "an error has no `kind`"),
        (MESSAGE, {"agent": 5}, "5 can never match a text"),
        (MESSAGE, {"turn": "2"}, '"2" can never match a number'),
        (MESSAGE, {"turn": {"$contains": "2"}}, "`$contains` can never match a number"),
        (MESSAGE, {"calls": "log_meal"}, "can never match a list of tool calls"),
        (MESSAGE, {"$gt": 1}, "`$gt` can never match a message"),
        (MESSAGE, {"$has": "x"}, "`$has` can never match a message"),
        (MESSAGE, {"$keys": ["role"]}, "`$keys` can never match a message"),
        (MESSAGES, "x", "can never match a list of messages"),
        (MESSAGES, {"user": "x"}, "the key `user` can never match a list of messages"),
        (MESSAGES, [["x"]], "can never match a message"),
        (MESSAGES, {"$has": [["x"]]}, "can never match a message"),
        (MESSAGES, {"$each": {"$not": ["x"]}}, "can never match a message"),
        (MESSAGES, {"$starts": "x"}, "`$starts` can never match a list of messages"),
        (DROPS, [{"why": "window"}], "what was dropped has no `why`"),
        (NAMES, "log_meal", "can never match a list of names"),
        (NAMES, [{"name": "log_meal"}], "can never match a text"),
        (NAMES, {"$gt": 1}, "`$gt` can never match a list of names"),
        (NUMBER, "many", "can never match a number"),
        (NUMBER, {"$len": 3}, "`$len` can never match a number"),
        (SHARES, [1], "can never match a mapping of shares"),
        (SETTINGS, "cold", "can never match a mapping of settings"),
        (MESSAGE, {"$eq": [{"$contains": "hello"}]}, "can never match a message"),
        (MESSAGE, {"$eq": {"role": "user"}}, "can never match a message"),
        (MESSAGE, {"role": {"$ne": ["user"]}}, "can never match the role of a message"),
        (NUMBER, {"$ne": [5]}, "can never match a number"),
        (NUMBER, {"$eq": {"tokens": 5}}, "can never match a number"),
        (NAMES, {"$eq": {"name": "log_meal"}}, "can never match a list of names"),
        (SETTINGS, {"$eq": ["cold"]}, "can never match a mapping of settings"),
    ],

)  # fmt: skip
def test_what_can_never_hold_is_refused(kind: Kind, matcher: Any, label: str) -> None:
    with pytest.raises(MatcherError) as problem:
        check_kind(matcher, kind)

    assert label in problem.value.what


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
