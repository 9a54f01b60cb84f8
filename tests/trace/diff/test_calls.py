from __future__ import annotations

from collections.abc import Callable

import pytest

from simkit.core.messages import Message, ToolCall
from simkit.trace.diff.calls import ContextPrint, Fingerprints, common_ends, fingerprint
from simkit.trace.views import ContextView
from tests.building import run_yaml

PIPELINE = """
channels: {messages: {reducer: append, scope: session}}
defaults: {context: [instructions, {history: {from: log, window: {rounds: 3}}}, current_message]}
agents:
  a: {instructions: Say., tools: [t], handoffs: []}
tools: {t: {}}
flow: {handoffs: {start: a}}
"""


def turns(*reply: str) -> str:
    lines = [
        f"  - {{user: {text}, replies: {{a: [calls: {{t: {{}}}}, ok]}}, tool_results: {{t: 1}}}}"
        for text in reply
    ]
    return "\n".join(("turns:", *lines))


def contexts(*reply: str) -> list[ContextView]:
    ran = run_yaml(PIPELINE, turns(*reply))
    return [call.context for turn in ran.view.turns for call in turn.calls]


def test_a_fingerprint_is_made_of_what_is_said_not_of_ids_turns_and_sections() -> None:
    message = Message("assistant", "x", "m3", "a", 1, (ToolCall("call1", "t", {"n": 1}),))
    same = Message("assistant", "x", "m9", "a", 4, (ToolCall("call5", "t", {"n": 1}),),
                   section="history")  # fmt: skip

    assert fingerprint(message) == fingerprint(same)


@pytest.mark.parametrize(
    "other",
    [
        Message("user", "x"),
        Message("assistant", "y"),
        Message("assistant", "x", agent="a"),
        Message("assistant", "x", calls=(ToolCall("", "t", {}),)),
        Message("assistant", "x", tool="t"),
    ],
)
def test_messages_that_say_something_else_have_other_fingerprints(other: Message) -> None:
    assert fingerprint(other) != fingerprint(Message("assistant", "x"))


def _by_messages(item: ContextView, other: ContextView) -> tuple[int, int]:
    """How much two contexts have in common, counted message by message."""
    mine, its = ([fingerprint(m) for m in view.messages] for view in (item, other))
    head = next(
        (n for n, (a, b) in enumerate(zip(mine, its, strict=False)) if a != b),
        min(len(mine), len(its)),
    )
    most = min(len(mine), len(its)) - head
    tail = next((n for n in range(most) if mine[-1 - n] != its[-1 - n]), most)
    return head, tail


@pytest.mark.parametrize(
    "other",
    [("b", "c", "d", "e", "f"), ("b", "x", "d", "e", "f"), ("b", "c", "d"), ("z", "b", "c", "d")],
)
def test_what_contexts_have_in_common_is_what_a_look_at_every_message_says(
    other: tuple[str, ...],
) -> None:
    ours, theirs = contexts("b", "c", "d", "e", "f"), contexts(*other)
    prints: list[Callable[[ContextView], ContextPrint]] = [Fingerprints().of, Fingerprints().of]

    for message in ours:
        for its in theirs:
            pair = prints[0](message), prints[1](its)
            assert (pair[0].size, pair[1].size) == (len(message.messages), len(its.messages))
            assert common_ends(*pair) == _by_messages(message, its)
            assert pair[0].prints(1, pair[0].size) == [fingerprint(m) for m in message.messages[1:]]
