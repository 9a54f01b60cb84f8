"""Two runs as text, JSON, annotations and Markdown."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from simkit.report.diff_lines import Sides, diff_blocks
from simkit.report.diffs import (
    Compared,
    diff_annotations,
    diff_json,
    diff_markdown,
    exit_code,
    pair_lines,
    summary_line,
)
from simkit.trace.diff.traces import FirstDifference, TraceDiff, trace_diff
from simkit.trace.events import JudgeAnswered
from simkit.trace.views import view_of
from tests.building import trace_yaml
from tests.golden import assert_file_is
from tests.report.conftest import COACH, TWO_TURNS

PIPELINE = COACH.removesuffix("---\n")
NAME = "scenarios/coach.scenario.yaml::two turns"
FILES = ("base/two-turns.jsonl", ".simkit/traces/two-turns.jsonl")
GOLDEN = Path(__file__).with_name("golden")
SIDES = Sides("base", "now")


def compared(
    pipeline: Callable[[str], str] = str, scenario: Callable[[str], str] = str
) -> Compared:
    """The two turns with the coach, and the same, changed."""
    result: TraceDiff = trace_diff(
        view_of(trace_yaml(PIPELINE, TWO_TURNS).events),
        view_of(trace_yaml(pipeline(PIPELINE), scenario(TWO_TURNS)).events),
    )
    return Compared(NAME, FILES, result, file="scenarios/coach.scenario.yaml", line=3)


def kinder(text: str) -> str:
    return text.replace("instructions: Coach.", 'instructions: "Coach.\\nBe kind."').replace(
        "[instructions, handoff", "[instructions, notes, handoff"
    )


def other_payload(text: str) -> str:
    return text.replace("payload: {km: 8}", "payload: {km: 9}").replace(
        "analyst: Faster than last week.", "analyst: Slower."
    )


def text_of(*pairs: Compared) -> str:
    blocks = ["\n".join(pair_lines(pair, SIDES)) for pair in pairs]
    return "\n\n".join(block for block in (*blocks, summary_line(pairs, SIDES)) if block)


def slower(text: str) -> str:
    return text.replace("1500", "2500")


def longer(text: str) -> str:
    rules = "\\n".join(f"Rule {n}." for n in range(30))
    return text.replace("instructions: Coach.", f'instructions: "{rules}"')


def more_notes(text: str) -> str:
    return text.replace("[knee hurts]", "[knee hurts, no milk]")


DIFFERENT = {
    "contexts": lambda: compared(kinder),
    "handoffs": lambda: compared(scenario=other_payload),
    "times": lambda: compared(scenario=slower),
    "long-messages": lambda: compared(longer, lambda text: text.replace("Well done.", "Great.")),
}
BROKEN = Compared("b.scenario.yaml::bad", ("", ""), error="no trace", file="b.scenario.yaml")


@pytest.mark.golden
@pytest.mark.parametrize("name", DIFFERENT)
def test_differences_are_shown_and_the_rest_is_counted(name: str) -> None:
    assert_file_is(GOLDEN / f"diff-{name}.txt", text_of(DIFFERENT[name]()) + "\n")


@pytest.mark.golden
def test_every_form_shows_the_differences() -> None:
    json_text = diff_json([compared(scenario=more_notes)], SIDES, "1.0")
    annotations = diff_annotations([compared(), compared(scenario=slower), BROKEN], SIDES)

    assert_file_is(GOLDEN / "diff.json", json_text + "\n")
    assert_file_is(GOLDEN / "diff-annotations.txt", "\n".join(annotations) + "\n")
    markdown = diff_markdown([compared(kinder), compared()], SIDES)
    assert_file_is(GOLDEN / "diff.md", markdown + "\n")


def test_a_message_that_one_side_dropped_says_what_dropped_it() -> None:
    def keeps_tools(text: str) -> str:
        return text.replace("[tool_messages, tool_calls]}", "[tool_calls], window: {rounds: 1}}")

    lines = text_of(compared(keeps_tools)).splitlines()

    assert [line for line in lines if "dropped by" in line] == [
        "    + 4. tool coach log_run · history · turn 1 · was dropped by tool_messages",
        "    + 5. tool coach log_run · history · turn 1 · was dropped by tool_messages",
        "    + 8. tool coach transfer_to_analyst · history · turn 2 · was dropped by tool_messages",
        "    + 9. tool coach transfer_to_analyst · history · turn 2 · was dropped by tool_messages",
    ]


def test_equal_runs_take_one_line_that_says_what_is_only_declared_differently() -> None:
    same = compared()
    renamed = compared(
        lambda text: text.replace("pipeline: coach", "pipeline: other"),
        lambda text: text.replace("pipeline: coach", "pipeline: other"),
    )

    assert text_of(same) == "1 scenario: 1 equal"
    assert text_of(renamed) == (f"{NAME}: equal, declared differently: name\n\n1 scenario: 1 equal")


def test_a_scenario_that_one_side_lacks_and_one_that_is_broken_are_counted_apart() -> None:
    pairs = [
        compared(),
        Compared("a.scenario.yaml::gone", ("base/a.jsonl", "")),
        Compared("a.scenario.yaml::new", ("", "now/a.jsonl")),
        Compared("a.scenario.yaml::bad", ("base/b.jsonl", "now/b.jsonl"), error="b.jsonl: cut off"),
    ]

    assert (
        text_of(*pairs)
        == """\
a.scenario.yaml::gone: only in base

a.scenario.yaml::new: only in now

a.scenario.yaml::bad
  b.jsonl: cut off

4 scenarios: 1 equal, 1 only in base, 1 only in now, 1 error"""
    )


@pytest.mark.parametrize(
    ("pairs", "code"),
    [
        ([compared()], 0),
        ([compared(), compared(kinder)], 1),
        ([Compared("gone", ("a", ""))], 1),
        ([compared(kinder), Compared("bad", ("a", "b"), error="cut off")], 2),
    ],
)
def test_the_exit_code_is_that_of_the_worst(pairs: list[Compared], code: int) -> None:
    assert exit_code(pairs) == code


def test_runs_that_differ_only_in_a_judge_s_answer_say_so() -> None:
    left, right = (JudgeAnswered(0, question="Is it kind?", answer=word) for word in ("yes", "no"))
    first = FirstDifference(1, (), left, right)

    *_, last = diff_blocks(TraceDiff((), first), Sides())

    assert last == [
        "every context, handoff and state is the same: only answers of the judge, times, order or "
        "causes differ"
    ]


def test_json_of_equal_runs_is_the_same_bytes() -> None:
    assert diff_json([compared(kinder)], SIDES, "1") == diff_json([compared(kinder)], SIDES, "1")


def test_markdown_fences_hold_what_messages_fence() -> None:
    pair = compared(lambda text: text.replace("Coach.", "Use ``` here <b>|"))

    reply = diff_markdown([pair], SIDES)

    assert reply.count("````") == 2
    assert "<b>" in reply.partition("````text")[2]


def test_no_line_is_wider_than_a_page() -> None:
    long = "word " * 100
    pair = compared(
        lambda text: kinder(text).replace("instructions: Analyse.", f"instructions: {long}"),
        lambda text: other_payload(text).replace("knee hurts", long),
    )

    assert [line for line in text_of(pair).splitlines() if len(line) > 100] == []


def test_long_texts_and_values_are_shown_where_they_part() -> None:
    def long(end: str) -> Callable[[str], str]:
        reply = " ".join([*["Faster"] * 200, end])
        return lambda text: text.replace("Faster than last week.", reply)

    result: TraceDiff = trace_diff(
        view_of(trace_yaml(PIPELINE, long("today")(TWO_TURNS)).events),
        view_of(trace_yaml(PIPELINE, long("tomorrow")(TWO_TURNS)).events),
    )
    lines = text_of(Compared(NAME, FILES, result, file="scenarios/coach.scenario.yaml", line=3))

    assert lines.count("today") > 1
    assert lines.count("today") == lines.count("tomorrow")
