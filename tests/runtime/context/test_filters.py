"""Each filter says what it drops or edits of one message."""

from __future__ import annotations

from typing import Any

import pytest

from simkit.core.messages import Message, ToolCall
from simkit.runtime.context.filters import filter_named
from simkit.spec.pipeline.recipe import AgentFilter, FilterSpec
from tests.building import line

LOOK, PASS = ToolCall("call1", "look", {}), ToolCall("call2", "transfer_to_b", {})
MESSAGES = [
    Message("user", "Hi", "m1"),
    Message("assistant", "Looking.", "m2", "a", calls=(LOOK,)),
    Message("tool", "3", "m3", "a", call_id="call1", tool="look"),
    Message("assistant", "", "m4", "a", calls=(LOOK, PASS)),
    Message("tool", "Transferred to b.", "m5", "a", call_id="call2", tool="transfer_to_b"),
    Message("assistant", "Done.", "m6", "b"),
    Message("assistant", "Draft.", "m7", "b"),
    Message("system", "Be kind.", "m8"),
]
COMMITTED = {"m1", "m6"}


def left_by(spec: Any) -> list[str]:
    _, function = filter_named(spec)
    texts = [function(message, COMMITTED) for message in MESSAGES]
    return [line(message) for message in texts if message is not None]


def agents(**options: Any) -> FilterSpec:
    return FilterSpec(agents=AgentFilter.model_validate(options))


@pytest.mark.parametrize(
    ("spec", "left"),
    [
        ("tool_messages", ["user: Hi", "assistant/a: Looking. [look{}]",
                           "assistant/a: [look{}] [transfer_to_b{}]", "assistant/b: Done.",
                           "assistant/b: Draft.", "system: Be kind."]),
        ("tool_calls", ["user: Hi", "assistant/a: Looking.", "tool/a: 3", "assistant/a: ",
                        "tool/a: Transferred to b.", "assistant/b: Done.", "assistant/b: Draft.",
                        "system: Be kind."]),
        ("intermediate_ai", ["user: Hi", "tool/a: 3", "tool/a: Transferred to b.",
                             "assistant/b: Done.", "system: Be kind."]),
        ("handoffs", ["user: Hi", "assistant/a: Looking. [look{}]", "tool/a: 3",
                      "assistant/a: [look{}]", "assistant/b: Done.", "assistant/b: Draft.",
                      "system: Be kind."]),
        (agents(only=["b"]), ["user: Hi", "assistant/b: Done.", "assistant/b: Draft.",
                              "system: Be kind."]),
        (agents(**{"not": ["b"]}), ["user: Hi", "assistant/a: Looking. [look{}]", "tool/a: 3",
                                    "assistant/a: [look{}] [transfer_to_b{}]",
                                    "tool/a: Transferred to b.", "system: Be kind."]),
        (agents(only=["a", "b"], **{"not": ["a"]}), ["user: Hi", "assistant/b: Done.",
                                                     "assistant/b: Draft.", "system: Be kind."]),
        (agents(only=[]), ["user: Hi", "system: Be kind."]),
    ],
)  # fmt: skip
def test_filter_leaves_these_messages_and_no_others(spec: Any, left: list[str]) -> None:
    assert left_by(spec) == left


@pytest.mark.parametrize("name", ["tool_messages", "tool_calls", "intermediate_ai", "handoffs"])
def test_filter_returns_the_very_message_where_it_changes_nothing(name: str) -> None:
    _, function = filter_named(name)

    assert function(MESSAGES[0], COMMITTED) is MESSAGES[0]


def test_filter_is_named_as_dropped_messages_name_it() -> None:
    assert filter_named("handoffs")[0] == "handoffs"
    assert filter_named(agents(only=["b"]))[0] == "agents"


def test_assistant_of_whom_nobody_knows_the_name_is_none_of_those_to_keep() -> None:
    restored = Message("assistant", "Once.", "m9")

    assert filter_named(agents(only=["a"]))[1](restored, COMMITTED) is None
    assert filter_named(agents(**{"not": ["a"]}))[1](restored, COMMITTED) is restored
