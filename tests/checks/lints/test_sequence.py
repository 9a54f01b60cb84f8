"""CTX-01, CTX-02, CTX-12, CTX-15: calls and answers, empty messages, system messages."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from simkit.checks.findings import Hit
from simkit.core.messages import Message, ToolCall
from simkit.trace import events as e
from tests.adapters.scribes import Desk, assistant, tool, user
from tests.checks.traces import Story, context_message, history, hits_of, ran, run_lints, texts_of

STREAM = "s1/a/history"
WITHOUT_CALL = "agent 'a' is sent 1 tool result without the call in turn 2: call1 (tool)"
UNANSWERED = "agent 'a' is sent 1 tool call without an answer in turn 2: call1 (look)"
TWICE = "agent 'a' is sent 1 tool call with two answers in turn 2: call1 (tool)"


def look(call: str) -> ToolCall:
    return ToolCall(call, "look", {})


def used_a_tool(*, turns: int = 1) -> Story:
    """In turn 1 agent ``a`` asks (m2), hears (m3), answers (m4); then turn 2 starts (m5)."""
    story = Story(["a", "b"])
    for number in range(1, turns + 1):
        story.turn("hello", agent="a")
        story.says("", look(f"call{number}"))
        story.hears(f"call{number}", "nothing")
        story.says("Done.")
        story.finish_turn()
    story.turn("and now?", agent="a")
    return story


# CTX-01


@pytest.mark.parametrize(
    "output",
    [
        {"numbers": [1, 3, 4]},
        {"numbers": [1, 2, 3, 4], "lo": 2},
        {"numbers": [1, 3, 2, 4]},
        {"numbers": [1], "tail": [3]},
        {"numbers": [1, 2], "tail": [3], "lo": 2},
    ],
    ids=["call filtered out", "window between", "call behind", "in this turn", "window before it"],
)
def test_a_result_without_its_call_is_found(output: dict[str, Any]) -> None:
    story = used_a_tool()
    story.call(history(STREAM, **output))

    assert hits_of("CTX-01", story.trace) == [
        Hit("CTX-01", WITHOUT_CALL, 2, "a", 0, data={"calls": ["call1"]})
    ]


@pytest.mark.parametrize(
    "output",
    [
        {"numbers": [1, 2, 3, 4]},
        {"numbers": [1, 2, 3, 4], "lo": 1},
        {"numbers": [1, 2, 3, 4], "lo": 3},
        {"numbers": [1, 2], "tail": [3]},
        {"tail": [2, 3]},
    ],
    ids=["all", "window before the call", "window behind the result", "answered now", "this turn"],
)
def test_a_result_behind_its_call_passes(output: dict[str, Any]) -> None:
    story = used_a_tool()
    story.call(history(STREAM, **output))

    assert hits_of("CTX-01", story.trace) == []


def test_a_window_that_moves_finds_each_result_once() -> None:
    story = used_a_tool(turns=2)
    for data in ({"numbers": range(1, 9)}, {"lo": 2}, {"lo": 2}, {"lo": 5}, {"lo": 6}):
        story.call(history(STREAM, **data))

    assert texts_of("CTX-01", story.trace) == [
        f"agent 'a' is sent 1 tool result without the call in turn 3: call{number} (tool)"
        for number in (1, 2)
    ]


def test_a_window_within_a_delegation_finds_its_result_alone() -> None:
    story = Story(["a", "b"])
    story.turn(agent="a")
    delegated = story.says("", ToolCall("call1", "transfer_to_b", {}))
    story.resume("b", "r2")
    inside = [story.says("", look("call2")), story.hears("call2", "no"), story.says("Sure.")]
    story.resume("a", "r1")
    back = story.hears("call1", "Sure.")
    story.turn(agent="a")
    story.call(history(STREAM, numbers=[1, delegated, *inside, back], lo=2))

    assert texts_of("CTX-01", story.trace) == [WITHOUT_CALL]
    assert hits_of("CTX-02", story.trace) == []


def test_a_call_in_another_history_before_is_its_call() -> None:
    story = used_a_tool()
    story.call(history(STREAM, numbers=[2]), history("s1/a/log", numbers=[3], section="log"))
    story.call(
        history("s1/b/log", numbers=[3], section="log"), history("s1/b/history", numbers=[2])
    )

    assert texts_of("CTX-01", story.trace) == [WITHOUT_CALL]


def test_a_restarted_history_is_walked_anew() -> None:
    story = used_a_tool()
    story.call(history(STREAM, numbers=[1, 2, 3, 4]))
    story.call(history(STREAM, numbers=[3, 4], restarts=True))

    assert texts_of("CTX-01", story.trace) == [WITHOUT_CALL]


# CTX-02


@pytest.mark.parametrize(
    ("output", "text"),
    [
        ({"numbers": [1, 2, 4]}, UNANSWERED),
        ({"numbers": [1, 2], "tail": [5]}, UNANSWERED),
        ({"numbers": [1, 2, 4, 3]}, UNANSWERED),
        ({"numbers": [1, 2, 3, 3, 4]}, TWICE),
        ({"numbers": [1, 2, 3, 4], "tail": [3]}, TWICE),
    ],
    ids=["the agent goes on", "the user goes on", "too late", "twice", "again in this turn"],
)
def test_a_call_that_is_not_answered_once_is_found(output: dict[str, Any], text: str) -> None:
    story = used_a_tool()
    story.call(history(STREAM, **output))
    story.call(history(STREAM))

    assert hits_of("CTX-02", story.trace) == [
        Hit("CTX-02", text, 2, "a", 0, data={"calls": ["call1"]})
    ]


def test_a_result_that_comes_too_late_is_told_once() -> None:
    story = used_a_tool()
    story.call(history(STREAM, numbers=[1, 2], tail=[5, 3]))

    assert texts_of("CTX-02", story.trace) == [UNANSWERED]
    assert texts_of("CTX-01", story.trace) == []


def test_a_delegates_first_context_with_the_open_transfer_is_found() -> None:
    story = Story(["a", "b"])
    story.turn(agent="a")
    request = story.says("", ToolCall("call1", "transfer_to_b", {}))
    story.start("b")
    query = context_message("current_message", "Look it up.", role="user", turn=1)
    story.call(history(STREAM, tail=[1, request]), query)

    assert texts_of("CTX-02", story.trace) == [
        "agent 'b' is sent 1 tool call without an answer in turn 1: call1 (transfer_to_b)"
    ]


def test_one_of_two_calls_left_open_is_found_at_the_end_of_a_context() -> None:
    story = Story(["a", "b"])
    story.turn(agent="a")
    story.says("", look("call1"), look("call2"))
    story.hears("call1", "nothing")
    story.start("b")
    story.call(history(STREAM, tail=[1, 2, 3]))

    assert texts_of("CTX-02", story.trace) == [
        "agent 'b' is sent 1 tool call without an answer in turn 1: call2 (look)"
    ]


def test_calls_that_end_a_context_may_wait() -> None:
    story = Story(["a", "b"])
    story.turn(agent="a")
    story.says("", look("call1"), look("call2"))
    story.start("b")
    story.call(history(STREAM, tail=[1, 2]))

    assert hits_of("CTX-02", story.trace) == []


def test_a_run_that_uses_its_tools_passes() -> None:
    story = used_a_tool()
    base = story.call(history(STREAM, numbers=[1, 2, 3, 4], tail=[5]))
    items = [story.says("Wait.", look("call2"), look("call3"))]
    items += [story.hears("call3", "no"), story.hears("call2", "no")]
    story.call(base=base, numbers=items)

    assert hits_of("CTX-02", story.trace) == []
    assert hits_of("CTX-01", story.trace) == []


def test_agents_that_run_in_parallel_may_speak_in_between() -> None:
    story = Story(["a", "b", "c"])
    story.turn()
    story.resume("a", "r1")
    story.says("", look("call1"))
    story.resume("b", "r2")
    story.says("Mine is done.")
    story.resume("a", "r1")
    story.hears("call1", "nothing")
    story.start("c")
    story.call(history(STREAM, tail=[1, 2, 3, 4]))

    assert hits_of("CTX-02", story.trace) == []


def test_many_orphans_are_named_up_to_five() -> None:
    story = used_a_tool(turns=7)
    story.call(history(STREAM, numbers=[number for number in range(1, 29) if number % 4 != 3]))

    (hit,) = hits_of("CTX-02", story.trace)

    assert hit.what == (
        "agent 'a' is sent 7 tool calls without an answer in turn 8: call1 (look), call2 (look), "
        "call3 (look), call4 (look), call5 (look), …"
    )
    assert hit.data == {"calls": [f"call{number}" for number in range(1, 8)]}


# CTX-12


def saying(text: str) -> Story:
    story = Story()
    story.turn(agent="a")
    story.says(text)
    story.hears("call1", "")
    story.end()
    story.turn(agent="a")
    return story


def test_an_empty_message_is_found_once() -> None:
    story = saying("")
    story.call(history(STREAM, tail=[1, 2]))
    story.call(history(STREAM, numbers=[1, 2]))

    assert hits_of("CTX-12", story.trace) == [
        Hit(
            "CTX-12", "agent 'a' is sent 1 empty message in turn 2: m2 (section history)",
            2, "a", 0, data={"sections": ["history"]},
        )
    ]  # fmt: skip


def test_an_empty_message_that_was_made_is_found() -> None:
    story = saying("Done.")
    story.call(context_message("notes", ""), context_message("current_message", "", role="user"))

    assert texts_of("CTX-12", story.trace) == [
        "agent 'a' is sent 2 empty messages in turn 2: section notes, section current_message"
    ]


def test_a_message_that_only_calls_and_a_tool_without_an_answer_pass() -> None:
    story = saying("Done.")
    request = story.says("", look("call1"))
    story.call(history(STREAM, numbers=[1, 2], tail=[request, 3]))

    assert hits_of("CTX-12", story.trace) == []


# CTX-15


def with_system_message(agent: str | None = None) -> Story:
    """Turn 1: the user (m1), agent ``a`` (m2), and a system message (m3)."""
    story = Story(["a"])
    story.turn(agent="a")
    story.says("Done.")
    run, story.agent = story.run, agent or ""
    added = Message("system", "Be brief.", "m3", agent, 1)
    story.emit(e.MessageAdded(*story.where(), message=added, tokens=2))
    story.next("m")
    story.resume("a", run)
    story.end()
    story.turn(agent="a")
    return story


@pytest.mark.parametrize(
    ("parts", "named"),
    [
        (lambda story: [history(STREAM, numbers=[1, 2]), story.instructions()],
         "section instructions"),
        (lambda story: [story.instructions(), history(STREAM, numbers=[1, 2, 3])],
         "m3 (section history)"),
    ],
    ids=["instructions", "of the history"],
)  # fmt: skip
def test_a_system_message_after_what_was_said_is_found(
    parts: Callable[[Story], list[e.Part]], named: str
) -> None:
    story = with_system_message()
    story.call(*parts(story))
    story.call(*parts(story))

    (hit,) = hits_of("CTX-15", story.trace)

    assert hit.what == (
        f"agent 'a' is sent 1 system message after what was said in turn 2: {named}"
    )


def test_system_messages_that_come_first_or_that_a_recipe_places_pass() -> None:
    story = with_system_message()
    story.call(
        story.instructions(),
        history(STREAM, numbers=[3, 1, 2]),
        context_message("notes", "Likes tea."),
    )

    assert hits_of("CTX-15", story.trace) == []


def test_what_an_agent_was_told_in_its_run_passes() -> None:
    story = with_system_message("a")
    story.call(story.instructions(), history(STREAM, numbers=[1, 2, 3]))

    assert hits_of("CTX-15", story.trace) == []


def test_where_no_recipe_is_known_every_system_message_counts() -> None:
    story = Story(["a"], observes=())
    story.turn(agent="a")
    story.call(context_message("", "hello", role="user"), context_message("", "Be brief."))

    assert texts_of("CTX-15", story.trace) == [
        "agent 'a' is sent 1 system message after what was said in turn 1: the system message"
    ]


# Natively

NATIVE = """\
version: 1
pipeline: looking
agents:
  a:
    instructions: I am a.
    tools: [look]
    context: [instructions, {{history: {history}}}, current_message]
    writes: {{messages: ["${{run.final_message}}"]}}
tools: {{look: {{}}}}
flow: {{handoffs: {{start: a}}}}
---
version: 1
scenario: two turns
pipeline: looking
turns:
  - &turn
    user: hello
    replies: {{a: [{{calls: {{look: {{}}}}}}, Hi.]}}
    tool_results: {{look: 1}}
  - *turn
"""


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("{from: log}", []),
        ("{from: log, window: {rounds: 1}}", []),
        ("{from: log, window: {messages: 2}}", ["CTX-01"]),
        ("{from: log, filters: [tool_messages]}", ["CTX-02"]),
        ("{from: log, filters: [tool_calls]}", ["CTX-01"]),
        ("{from: log, filters: [tool_calls, tool_messages]}", []),
        ("{from: log, filters: [intermediate_ai]}", ["CTX-01"]),
    ],
)
def test_filters_and_windows_that_part_calls_from_results_are_found_natively(
    tmp_path: Path, output: str, expected: list[str]
) -> None:
    trace = ran(tmp_path, NATIVE.format(history=output))

    lints = ["CTX-01", "CTX-02", "CTX-12", "CTX-15"]
    _, hits = run_lints(trace, lints)

    assert [(hit.id, hit.data) for hit in hits] == [(id, {"calls": ["call1"]}) for id in expected]


@pytest.mark.parametrize("is_answered", [False, True], ids=["lost", "answered"])
def test_calls_that_end_a_context_of_code_may_not_wait(is_answered: bool) -> None:
    desk = Desk({"to_b": "b"})
    desk.turn("Hi")
    answers = desk.answers(desk.asks([user("Hi")]), "", ToolCall("call9", "to_b", {}))
    message = assistant("", ToolCall("call9", "to_b", {}))
    answer = [tool("Passed on", "call9", "to_b")] if is_answered else []

    desk.asks([user("Hi"), message, *answer], agent="b")

    assert answers.calls
    assert texts_of("CTX-02", desk.trace) == (
        []
        if is_answered
        else ["agent 'b' is sent 1 tool call without an answer in turn 1: call1 (to_b)"]
    )


def test_an_empty_text_in_place_of_a_history_is_reported() -> None:
    story = Story()
    number = story.turn(agent="a")
    text = Message("user", "", section="history")
    story.call(story.instructions(), history("s1/a", tail=[number], rendered=text))

    assert [hit.id for hit in hits_of("CTX-12", story.trace)] == ["CTX-12"]
