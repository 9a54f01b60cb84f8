"""RUN-01, 02, 04, 05: does the script fit, is everything controlled, is the cassette right?"""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from simkit.checks.findings import Hit
from simkit.trace import events as e
from tests.adapters.running import run_app
from tests.checks.traces import Story, hits_of, ran

PATH = ("turns", 0, "replies", "b")


def ended(
    *, runs: bool = False, calls: int = 0, lines: tuple[int, ...] = (0, 1), **end: Any
) -> Story:
    """Turn 1 with reply lines for ``b`` that nobody asked for."""
    story = Story(["a", "b"])
    story.turn()
    story.answers("a")
    if runs:
        story.start("b")
        story.finish()
    story.end(unused=[e.UnusedLines("b", lines, calls)], **end)
    return story


@pytest.mark.parametrize(
    ("turn", "problem"),
    [
        ({}, "agent 'b' never ran in turn 1, but has 2 reply lines. "
             "Remove them, or route the turn to the agent."),
        ({"runs": True, "lines": (0,)},
         "agent 'b' made no model call in turn 1, but has 1 reply line. "
         "Remove it, or let the agent ask a model."),
    ],
    ids=["it never ran", "it asked no model"],
)  # fmt: skip
def test_lines_of_an_agent_that_was_not_asked_are_found(turn: dict[str, Any], problem: str) -> None:
    story = ended(**turn)

    data = {"lines": list(turn.get("lines", (0, 1))), "calls": 0}
    assert hits_of("RUN-01", story.trace) == [Hit("RUN-01", problem, 1, "b", data=data, path=PATH)]


def test_lines_that_are_left_over_are_found() -> None:
    story = ended(runs=True, calls=1, lines=(1,))

    assert hits_of("RUN-01", story.trace) == [
        Hit(
            "RUN-01",
            "agent 'b' has 1 unused reply line in turn 1: number 2. It made 1 model call. "
            "Remove it, or let the agent be asked again.",
            1, "b", data={"lines": [1], "calls": 1}, path=PATH,
        )
    ]  # fmt: skip


def test_lines_left_over_by_an_error_are_found_and_break_nothing() -> None:
    story = ended(error=e.ErrorFacts("ModelError", "no"))

    assert [hit.breaks for hit in hits_of("RUN-01", story.trace)] == [False]


def test_a_turn_whose_lines_were_all_used_passes() -> None:
    story = Story()
    story.turn()
    story.answers("a")
    story.end()

    assert hits_of("RUN-01", story.trace) == []


@pytest.mark.parametrize(("turn", "expected"), [(1, 0), (2, 1)], ids=["in the turn", "in another"])
def test_lines_left_over_in_a_turn_with_a_planned_fault_pass(turn: int, expected: int) -> None:
    story = Story(["a", "b"])
    if turn == 2:
        story.turn()
        story.emit(e.FaultInjected(*story.where(), fault="overloaded on call 1"))
        story.end()
    story.turn()
    if turn == 1:
        story.emit(e.FaultInjected(*story.where(), fault="overloaded on call 1"))
    story.end(unused=[e.UnusedLines("b", (0,), 0)])

    assert len(hits_of("RUN-01", story.trace)) == expected


def test_a_providers_failure_is_no_mismatch() -> None:
    story = Story()
    story.turn(agent="a")
    call = story.call()
    story.emit(
        e.ModelFailed(
            *story.where(), call=call, error="rate_limit", status=429, message="slow down"
        )
    )
    story.end(error=e.ErrorFacts("rate_limit", "slow down"))

    assert hits_of("RUN-01", story.trace) == []


NATIVE = """\
version: 1
pipeline: small
agents:
  a: {{instructions: I am a., handoffs: [b], tools: [look, bad]}}
  b: {{instructions: I am b.}}
tools: {{look: {{}}, bad: {{}}}}
flow: {{handoffs: {{start: a}}}}
---
version: 1
scenario: one
pipeline: small
turns:
  - user: hello
    tool_results: {{look: nothing, bad: {{error: No such order.}}}}
    replies: {{{replies}}}
"""


@pytest.mark.parametrize(
    ("replies", "problem", "agent", "call", "path"),
    [
        ("a: [{calls: {look: {}}}]",
         "agent 'a' made model call #2 in turn 1, but the scenario has 1 reply for it.\n"
         "Add one under turns[0].replies.a, or expect the turn to stop earlier.",
         "a", 1, ("turns", 0, "replies", "a")),
        ("a: [{calls: {bad: {}}}]",
         "the call of tool 'bad' by 'a' failed in turn 1: No such order.\n"
         "agent 'a' made model call #2 in turn 1, but the scenario has 1 reply for it.\n"
         "Add one under turns[0].replies.a, or expect the turn to stop earlier.",
         "a", 1, ("turns", 0, "replies", "a")),
        ("a: {handoff: {to: b}}",
         "agent 'b' made a model call in turn 1, but the scenario has no reply for it "
         "(the turn has replies for a).\n"
         "Add one under turns[0].replies.b, or expect another agent to run.",
         "b", 0, ("turns", 0)),
        ("a: [{text: Hi., when: {turn: 7}}]",
         "agent 'a' made model call #1 in turn 1, but none of its unused lines (1) has a `when` "
         "that holds for the context.\n  1. at turn: wanted 7, found 1\n"
         "Change a `when` under turns[0].replies.a, or add a line without one.",
         "a", 0, ("turns", 0, "replies", "a")),
    ],
    ids=["one line too few", "a tool that failed", "no lines", "no line fits"],
)  # fmt: skip
def test_a_call_without_a_line_is_found_where_one_would_stand(
    tmp_path: Path, replies: str, problem: str, agent: str, call: int, path: tuple[str | int, ...]
) -> None:
    trace = ran(tmp_path, NATIVE.format(replies=replies))

    assert hits_of("RUN-01", trace) == [Hit("RUN-01", problem, 1, agent, call, path=path)]


def test_an_unused_line_is_found_natively(tmp_path: Path) -> None:
    trace = ran(tmp_path, NATIVE.format(replies="a: Hi., b: [Ho., Hum.]"))

    assert [(hit.what, hit.path) for hit in hits_of("RUN-01", trace)] == [
        (
            "agent 'b' never ran in turn 1, but has 2 reply lines. "
            "Remove them, or route the turn to the agent.",
            PATH,
        )
    ]


def test_an_uncontrolled_effect_is_found() -> None:
    story = Story()
    story.turn(agent="a")
    story.emit(e.UncontrolledEffect(*story.where(), effect="time.time", where="app.py:3"))

    assert hits_of("RUN-02", story.trace) == [
        Hit(
            "RUN-02", "agent 'a' reached time.time at app.py:3 in turn 1",
            1, "a", data={"effect": "time.time", "where": "app.py:3"},
        )
    ]  # fmt: skip


def test_a_run_without_effects_passes() -> None:
    story = Story()
    story.turn()
    story.answers("a")
    story.end()

    assert hits_of("RUN-02", story.trace) == []


def played(*, fault: bool = False, **end: Any) -> Story:
    """A run that ends with a cassette of which this is said."""
    story = Story()
    story.turn()
    if fault:
        story.emit(e.FaultInjected(*story.where(), fault="overloaded on call 1"))
    story.end()
    story.emit(e.RunFinished(0, **end))
    return story


SIX = tuple(f"interactions[{number}]: POST https://a.test/v1" for number in range(6))


def test_recorded_interactions_that_answered_nothing_are_found_at_the_cassette() -> None:
    assert hits_of("RUN-04", played(unplayed=SIX).trace) == [
        Hit(
            "RUN-04",
            "6 recorded interactions of the cassette answered nothing:\n"
            + "\n".join(SIX[:5]) + "\n… 1 more",
            0, data={"interactions": list(SIX)}, path=("cassette",),
        )
    ]  # fmt: skip


def test_a_cassette_that_is_played_whole_passes() -> None:
    assert hits_of("RUN-04", played().trace) == []


def test_a_planned_fault_may_leave_interactions_over() -> None:
    assert hits_of("RUN-04", played(unplayed=SIX, fault=True).trace) == []


def test_requests_that_drifted_are_found_at_the_cassette() -> None:
    assert hits_of("RUN-05", played(drifted=SIX[:1]).trace) == [
        Hit(
            "RUN-05", f"1 request differed from what was recorded:\n{SIX[0]}",
            0, data={"interactions": [SIX[0]]}, path=("cassette",),
        )
    ]  # fmt: skip


def test_requests_that_are_as_recorded_pass() -> None:
    assert hits_of("RUN-05", played().trace) == []


def test_an_agent_inside_a_tool_that_is_answered_is_told_of(tmp_path: Path) -> None:
    code = """
        from openai import OpenAI

        def ask(system, text):
            messages = [{"role": "system", "content": system}, {"role": "user", "content": text}]
            answer = OpenAI().chat.completions.create(model="gpt-5", messages=messages)
            return answer.choices[0].message.content

        def consult(question):
            return ask("You are the expert.", question)

        def run(text):
            return ask("You are the desk.", text) + consult(text)
        """
    (tmp_path / "consulted.py").write_text(dedent(code), encoding="utf-8")
    scenario = """
        app: {path: [.], tools: {consult: consulted:consult}}
        agents: {desk: {system: {$contains: desk}}, expert: {system: {$contains: expert}}}
        turns:
          - {user: Hm, replies: {desk: ok, expert: Yes.}, tool_results: {consult: No.}}
        """

    ran = run_app("consulted:run", scenario, tmp_path, fits=False)

    (finding,) = [each for each in ran.judgement.findings if each.id == "RUN-01"]
    assert finding.what.endswith(
        "If the agent is asked inside `consult`: a result under `tool_results` takes the place of "
        "the function, and of its agents."
    )
