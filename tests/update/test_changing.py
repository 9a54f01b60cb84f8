"""What in a claim must change: only what does not hold."""

from __future__ import annotations

from typing import Any

import pytest

from simkit.core.messages import ABSENT, Dropped, Message, ToolCall
from simkit.language.matching.values import Content
from simkit.update.edits import Edit, Give, Manual, Put, Relist, applied, changes, changes_of_agents
from simkit.update.observed_values import claim_of, claim_of_handoff, claim_of_tool_call, holds

USER = Message("user", "Hi", id="m1", turn=1)
CALLING = Message("assistant", "", agent="a", calls=(ToolCall("c1", "log", {"food": "pizza"}),))
DATA = Message("assistant", '{"to":"b"}', agent="a", data={"to": "b"})


@pytest.mark.parametrize(
    ("matcher", "value", "expected"),
    [
        ("a", "b", [Put((), "b")]),
        ("a", 12, [Put((), 12)]),
        (1, None, [Put((), None)]),
        ("a", {"b": {}}, [Put((), {"b": {"$exact": {}}})]),
        ({"a": 1, "b": "x"}, {"a": 2, "b": "x", "c": 3}, [Put(("a",), 2)]),
        ({"a": 1}, {}, [Put(("a",), {"$absent": True})]),
        ({"a": 1}, "text", [Put((), "text")]),
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3]}}, [Put(("a", "b", 1), 3)]),
        ({"$$a": 1}, {"$a": 2}, [Put(("$$a",), 2)]),
        ({"a[0].b": 1}, {"a": [{"b": 2}]}, [Put(("a[0].b",), 2)]),
        ({"$eq": {"a": 1}}, {"a": 2}, [Put(("$eq",), {"a": 2})]),
        ({"$eq": "a"}, USER, [Put(("$eq",), "Hi")]),
        ({"$len": 2}, [1], [Put(("$len",), 1)]),
        ({"$len": {"$eq": 2}}, [1], [Put(("$len", "$eq"), 1)]),
        ({"$exact": {"a": 1}}, {"a": 2}, [Put(("$exact", "a"), 2)]),
        ({"$exact": {"a": 1}}, {"a": 1, "b": []}, [Give(("$exact",), "b", [])]),
        ({"$exact": {"a": 1}}, {"b": 2}, [Put(("$exact",), {"b": 2})]),
        ({"$exact": {"a": 1}}, {}, [Put(("$exact",), {})]),
        ({"user": "You"}, USER, [Put(("user",), "Hi")]),
        ({"assistant": "Hi"}, USER, [Put((), {"user": "Hi"})]),
        ({"role": "assistant", "content": "Hi"}, USER, [Put(("role",), "user")]),
        ({"user": "Hi", "agent": "a"}, USER, [Put(("agent",), None)]),
        ({"assistant": {"to": "c"}}, DATA, [Put(("assistant", "to"), "b")]),
        ({"assistant": "c"}, DATA, [Put(("assistant",), '{"to":"b"}')]),
        ({"user": "a"}, CALLING, [Put((), claim_of(CALLING))]),
        ({"calls": [{"log": {"food": "fish"}}]}, CALLING,
         [Put(("calls", 0, "log", "food"), "pizza")]),
        ({"calls": [{"id": "c2"}]}, CALLING, [Put(("calls", 0, "id"), "c1")]),
        ({"calls": [{"name": "eat"}]}, CALLING, [Put(("calls", 0, "name"), "log")]),
        ({"calls": [{"eat": {}}]}, CALLING, [Put(("calls", 0), {"log": {"food": "pizza"}})]),
        ({"user": "a"}, {"role": "user", "content": "b"}, [Put(("user",), "b")]),
        (["a"], [], [Put((), [])]),
        ([], ["a"], [Put((), ["a"])]),
        (["a", "b", "c"], ["a", "c"], [Relist((), (1,), ())]),
        (["a", "c"], ["a", "b", "c"], [Relist((), (), ((1, "b"),))]),
        (["a", "b", "c"], ["b", "c", "d"], [Relist((), (0,), ((3, "d"),))]),
        (["a", "x", "c"], ["a", "b", "c"], [Put((1,), "b")]),
        (["a", {"$starts": "b"}, "c"], ["z", "bb", "c", "d"], [Put((0,), "z"),
                                                               Relist((), (), ((3, "d"),))]),
        ([{"user": "Hi"}], [USER, DATA], [Relist((), (), ((1, {"assistant": {"to": "b"}}),))]),
        ({"a": 1}, Content('{"a": 2}'), [Put(("a",), 2)]),
        (["a"], "b", [Put((), "b")]),
    ],
)  # fmt: skip
def test_only_what_differs_changes(matcher: Any, value: Any, expected: list[Edit]) -> None:
    result = changes(matcher, value)

    assert result == expected
    assert holds(applied(matcher, expected), value)


@pytest.mark.parametrize(
    ("matcher", "value", "expected"),
    [
        ({"$contains": "a"}, "b", [Manual(("$contains",), '`$contains` does not match "b"')]),
        ({"$gte": 3}, 2, [Manual(("$gte",), "`$gte` does not match 2")]),
        ({"$len": {"$gt": 3}}, [1],
         [Manual(("$len", "$gt"), "`$gt` does not match 1")]),
        ([{"$in": ["a"]}, "b"], ["c", "d"],
         [Manual((0, "$in"), '`$in` does not match "c"'), Put((1,), "d")]),
        ({"a": {"$regex": "x"}, "b": 1}, {"a": "y", "b": 2},
         [Manual(("a", "$regex"), '`$regex` does not match "y"'), Put(("b",), 2)]),
        ({"a": 1, "$len": 2}, "b",
         [Put(("$len",), 1), Manual((), 'it stands beside operators, but the run has "b"')]),
    ],
)  # fmt: skip
def test_other_operators_are_left_to_people(matcher: Any, value: Any, expected: Any) -> None:
    assert changes(matcher, value) == expected


@pytest.mark.parametrize(
    ("matcher", "groups", "expected"),
    [
        (["a", "b"], ["a", "c"], [Put((1,), "c")]),
        (["a", ["b", "c"]], ["a", ["c", "b"], "d"], [Relist((), (), ((2, "d"),))]),
        (["a", ["b", "c"]], ["a", ["b", "d"]], [Put((1,), ["b", "d"])]),
        (["a", "b", "c"], ["a", ["b", "c"]], [Put((1,), ["b", "c"]), Relist((), (2,), ())]),
        ({"$in_order": ["a"]}, ["b"], [Manual((), "it is no plain list of agents")]),
    ],
)
def test_a_group_of_agents_is_one_element(matcher: Any, groups: Any, expected: Any) -> None:
    assert changes_of_agents(matcher, groups) == expected


@pytest.mark.parametrize(
    ("value", "claim"),
    [
        (USER, {"user": "Hi"}),
        (DATA, {"assistant": {"to": "b"}}),
        (CALLING, {"assistant": "", "calls": [{"log": {"food": "pizza"}}]}),
        (Dropped(USER, "message", "window"), {"user": "Hi", "what": "message", "by": "window"}),
        (ToolCall("c1", "name", {}), {"name": "name", "args": {"$exact": {}}}),
        ({"$a": [{}], "b": USER}, {"$$a": [{"$exact": {}}], "b": {"user": "Hi"}}),
        (Content("12"), "12"),
        (("a", 1.5), ["a", 1.5]),
        (ABSENT, {"$absent": True}),
    ],
)
def test_what_was_found_becomes_a_claim_that_holds(value: Any, claim: Any) -> None:
    assert claim_of(value) == claim
    assert holds(claim, value)


def test_handoffs_and_tool_calls_say_what_people_say_of_them() -> None:
    handoff: Any = {"from": "a", "to": "b", "type": "t", "mode": "transfer", "query": None,
               "payload": {}, "outcome": "rejected", "reason": "no"}  # fmt: skip
    call: Any = {"agent": "a", "tool": "log", "args": {}, "result": None, "error": "down",
            "call_id": "call1", "called_at": 3, "returned_at": 4}  # fmt: skip

    claims = [claim_of_handoff(handoff), claim_of_tool_call(call),
             claim_of_tool_call({**call, "error": None})]  # fmt: skip

    assert claims == [
        {"from": "a", "to": "b", "type": "t", "outcome": "rejected", "reason": "no"},
        {"agent": "a", "tool": "log", "error": "down"},
        {"agent": "a", "tool": "log", "result": None},
    ]
