"""FLW-03, FLW-07: the same call again and again, and calls that nobody answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simkit.checks.findings import Hit
from simkit.core.messages import HANDOFF_PREFIX, ToolCall
from simkit.trace import events as e
from tests.checks.traces import Story, history, hits_of, ran, run_lints, texts_of


def working(**facts: Any) -> Story:
    story = Story(["a", "b"], **facts)
    story.turn(agent="a")
    return story


def uses(
    story: Story, args: Any = None, result: Any = "nothing", *, tool: str = "look", error: str = ""
) -> str:
    """The acting agent calls a tool, which answers; returns the call's id."""
    call = f"call{story.next('call')}"
    args = {} if args is None else args
    story.emit(e.ToolCalled(*story.where(), call_id=call, tool=tool, args=args))
    if error:
        story.emit(e.ToolFailed(*story.where(), call_id=call, tool=tool, error=error))
    else:
        story.emit(e.ToolReturned(*story.where(), call_id=call, tool=tool, result=result))
    return call


# FLW-03


def test_the_same_call_three_times_with_the_same_result_is_found_once() -> None:
    story = working()
    uses(story, {"in": "larder", "for": "tea"})
    uses(story, {"in": "cellar", "for": "tea"})
    for _ in range(3):
        uses(story, {"for": "tea", "in": "larder"})

    assert hits_of("FLW-03", story.trace) == [
        Hit(
            "FLW-03",
            "agent 'a' called 'look' 3 times in turn 1 with the same arguments and the same "
            "result, and nothing changed in between",
            1, "a", data={"tool": "look"},
        )
    ]  # fmt: skip


def test_the_same_call_twice_passes() -> None:
    story = working()
    uses(story)
    uses(story)

    assert hits_of("FLW-03", story.trace) == []


@pytest.mark.parametrize(
    "third",
    [{"args": {"n": 1}}, {"result": "tea"}, {"tool": "find"}, {"error": "busy"}],
    ids=["arguments", "result", "tool", "failure"],
)
def test_a_third_call_that_differs_passes_and_counts_anew(third: dict[str, Any]) -> None:
    story = working()
    for _ in range(2):
        uses(story)
    uses(story, **third)
    if "args" not in third and "tool" not in third:
        uses(story)
        uses(story)

    assert hits_of("FLW-03", story.trace) == []


@pytest.mark.parametrize("cause", ["writes", "before", "after", "user"])
def test_a_write_in_between_passes(cause: str) -> None:
    story = working()
    uses(story)
    uses(story)
    story.write({"messages": []}, cause=cause)
    uses(story)

    assert hits_of("FLW-03", story.trace) == []


def test_what_is_given_is_no_change() -> None:
    story = working()
    uses(story)
    uses(story)
    story.write({"messages": []}, cause="given")
    uses(story)

    assert [hit.id for hit in hits_of("FLW-03", story.trace)] == ["FLW-03"]


def test_another_agent_and_another_turn_pass() -> None:
    story = working()
    uses(story)
    uses(story)
    story.start("b")
    uses(story)
    story.end()
    story.emit(e.TurnStarted(0, "s1", 2, message=1))
    story.start("a")
    uses(story)

    assert hits_of("FLW-03", story.trace) == []


def test_where_nobody_sees_what_calls_change_repeating_one_is_a_warning() -> None:
    story = working(observes=("runs", "handoffs"))
    for _ in range(3):
        uses(story)

    assert [hit.severity for hit in hits_of("FLW-03", story.trace)] == ["W"]


# FLW-07


def asks(story: Story, *others: ToolCall) -> None:
    """The acting agent asks for ``look`` (call1), and calls it."""
    story.says("", ToolCall("call1", "look", {}), *others)
    story.emit(e.ToolCalled(*story.where(), call_id="call1", tool="look", args={}))


def test_calls_of_one_message_stand_in_its_order_whoever_began_first() -> None:
    story = working()
    calls = [ToolCall(f"call{number}", "look", {"in": str(number)}) for number in (1, 2, 3)]
    story.says("", *calls)
    for number in (3, 1, 2):
        story.emit(
            e.ToolCalled(
                *story.where(), call_id=f"call{number}", tool="look", args={"in": str(number)}
            )
        )

    view, _ = run_lints(story.trace, [])

    assert [tool.call_id for tool in view.turns[-1].tools] == ["call1", "call2", "call3"]


def test_a_call_that_nobody_answers_is_found() -> None:
    story = working()
    asks(story)
    story.finish_turn()

    assert hits_of("FLW-07", story.trace) == [
        Hit(
            "FLW-07",
            "turn 1 ended, but call1 of agent 'a' (tool 'look') was never answered",
            1, "a", data={"tool": "look", "calls": ["call1"]},
        )
    ]  # fmt: skip


def test_a_call_that_was_asked_for_and_not_made_is_found() -> None:
    story = working()
    story.says("", ToolCall("call1", "look", {}), ToolCall("call2", "find", {}))
    story.hears("call1", "nothing")
    story.finish_turn()

    assert texts_of("FLW-07", story.trace) == [
        "turn 1 ended, but call2 of agent 'a' (tool 'find') was never answered"
    ]


@pytest.mark.parametrize(
    "answer",
    [
        e.ToolReturned(0, "s1", 1, "a", "r1", call_id="call1"),
        e.ToolFailed(0, "s1", 1, "a", "r1", call_id="call1"),
    ],
    ids=["returned", "failed"],
)
def test_a_call_that_was_answered_passes(answer: e.AnyEvent) -> None:
    story = working()
    asks(story)
    story.emit(answer)
    story.finish_turn()

    assert hits_of("FLW-07", story.trace) == []


@pytest.mark.parametrize("status", ["cancelled", "timed_out"])
def test_a_run_that_was_stopped_owes_nothing(status: str) -> None:
    story = working()
    asks(story)
    story.finish(status)
    story.end()

    assert hits_of("FLW-07", story.trace) == []


def test_a_turn_that_ends_with_an_error_or_a_question_owes_nothing() -> None:
    story = working()
    asks(story)
    story.end(error=e.ErrorFacts("ModelError", "no"))
    story.turn(agent="a")
    asks(story)
    story.emit(e.TurnInterrupted(*story.where(), question="Which one?"))
    story.finish("interrupted")
    story.end()
    story.turn()
    story.end()

    assert hits_of("FLW-07", story.trace) == []


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"tool_choice": "look"}, []),
        ({"tool_choice": "required"}, []),
        ({"tool_choice": "find"}, ["FLW-07"]),
        (None, ["FLW-07"]),
    ],
    ids=["forced", "any forced", "another forced", "free"],
)
def test_a_call_that_a_model_had_to_make_may_be_the_answer(
    settings: Any, expected: list[str]
) -> None:
    story = working()
    story.emit(
        e.ContextBuilt(
            *story.where(), call="c1", parts=(story.instructions(),), settings=settings, tokens=0
        )
    )
    story.says("", ToolCall("call1", "look", {}))
    story.finish_turn()

    assert [hit.id for hit in hits_of("FLW-07", story.trace)] == expected


BARE = ("runs", "handoffs")
ADAPTER = (*BARE, "state")


def ends(observes: tuple[str, ...], reply: str, *, extras: str = "", over: bool = True) -> Story:
    """Code ends a turn, with a call of ``done`` that nobody answers."""
    story = working(observes=observes)
    story.says(extras, ToolCall("call1", "done", {"summary": "It is done."}))
    if over:
        story.finish()
    story._reply = None
    story.end(reply)
    return story


@pytest.mark.parametrize(
    ("observes", "reply", "extras", "severities"),
    [
        (BARE, "It is done.", "", []),
        (ADAPTER, "It is done.", "", []),
        (BARE, "", "", ["W"]),
        (ADAPTER, "", "", [None]),
        (BARE, "Let me see.", "Let me see.", ["W"]),
        (ADAPTER, "Let me see.", "Let me see.", ["W"]),
    ],
    ids=["bare", "seen", "bare, no reply", "seen, no reply", "bare, words", "seen, words"],
)
def test_code_may_end_its_turn_with_a_call_that_is_read_and_not_answered(
    observes: tuple[str, ...], reply: str, extras: str, severities: list[str | None]
) -> None:
    hits = hits_of("FLW-07", ends(observes, reply, extras=extras).trace)

    assert [hit.severity for hit in hits] == severities


def test_an_agent_that_is_still_at_work_owes_its_answers() -> None:
    hits = hits_of("FLW-07", ends(ADAPTER, "It is done.", over=False).trace)

    assert [hit.severity for hit in hits] == [None]


@pytest.mark.parametrize(("goes_on", "expected"), [(True, []), (False, [None])])
def test_code_may_go_on_without_a_call(goes_on: bool, expected: list[str | None]) -> None:
    story = working(observes=ADAPTER)
    number = story.says("", ToolCall("call1", "look", {}))
    numbers = [number] if not goes_on else []
    story.call(history("s1/a", tail=[1, *numbers]))
    story.says("Hi.")
    story.finish()
    story._reply = None
    story.end()

    assert [hit.severity for hit in hits_of("FLW-07", story.trace)] == expected


def test_handoffs_and_calls_beside_them_are_not_judged_here() -> None:
    story = working()
    asks(story, ToolCall("call2", f"{HANDOFF_PREFIX}b", {}))
    story.finish_turn()
    assert hits_of("FLW-07", story.trace) == []

    story.turn(agent="a")
    asks(story)  # Providers give ids of earlier turns again.
    story.finish_turn()

    assert [hit.turn for hit in hits_of("FLW-07", story.trace)] == [2]


def test_the_sessions_of_a_run_are_kept_apart() -> None:
    story = working()
    asks(story)
    story.turn(session="s2")
    story.end()
    story.session = "s1"
    story.end()

    assert [hit.data["calls"] for hit in hits_of("FLW-07", story.trace)] == [["call1"]]


NATIVE = """\
version: 1
pipeline: looking
agents:
  a: {{instructions: I am a., tools: [look]}}
tools: {{look: {{}}}}
flow: {{handoffs: {{start: a}}}}
---
version: 1
scenario: one
pipeline: looking
turns:
  - user: hello
    replies: {{a: [&look {{calls: {{look: {{}}}}}}, *look, *look, Hi.]}}
    tool_results: {{look: {results}}}
"""


@pytest.mark.parametrize(("results", "expected"), [("[1, 1, 1]", ["FLW-03"]), ("[1, 1, 2]", [])])
def test_repeated_calls_are_found_natively(
    tmp_path: Path, results: str, expected: list[str]
) -> None:
    trace = ran(tmp_path, NATIVE.format(results=results))

    _, hits = run_lints(trace, ["FLW-03", "FLW-07"])

    assert [hit.id for hit in hits] == expected
