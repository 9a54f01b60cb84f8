# ruff: noqa: E501 -- whole texts are as wide as they are printed
"""Findings as people read them: whole texts."""

from __future__ import annotations

import msgspec

from simkit.checks.findings import Difference, Finding
from simkit.report.results import Result, Summary
from simkit.report.text import (
    findings_text,
    headline,
    result_text,
    summary_lines,
    title_line,
    warning_lines,
)
from simkit.report.wording import Tone

CLAIM = Finding(
    "claim", "E", "context.coach.history does not match", "s/x.scenario.yaml:41:11",
    ("turns", 1, "expect", "context"), 2, "coach", 0,
    (Difference("[1].content", '"Logged"', '"Logged your pizza."'),),
    ("dropped by tool_messages: tool message of nutrition",),
    "history:\n  - user: I ate pizza",
)  # fmt: skip
WARNING = Finding(
    "CTX-11", "W", "67% of what agent 'coach' is sent comes from outside its `sees`",
    "s/x.scenario.yaml:9:5", turn=2, agent="coach", call=1,
    context=("CTX-11 irrelevant-share: the share stays under its limit",),
    fix="Add the filter `agents: {only: […]}` to the agent's history, or a window.",
)  # fmt: skip
RESULT = Result(
    "s/x.scenario.yaml::it's late", "s/x.scenario.yaml", 3, "it's late", "failed", 7, "d1g357"
)


def tagged(text: str, tone: Tone) -> str:
    """Paint that can be read."""
    return f"<{tone}>{text}</>"


def test_a_claim_that_does_not_hold_reads_from_where_to_why() -> None:
    assert (
        findings_text([CLAIM])
        == """\
s/x.scenario.yaml:41:11: context.coach.history does not match (turn 2, call 1)
    history:
      - user: I ate pizza
  at message 2, content: wanted "Logged", found "Logged your pizza."
  dropped by tool_messages: tool message of nutrition"""
    )


def test_a_lint_says_its_id_its_rule_and_what_to_do() -> None:
    assert (
        findings_text([WARNING])
        == """\
s/x.scenario.yaml:9:5: warning CTX-11: 67% of what agent 'coach' is sent comes from outside its
  `sees` (turn 2, call 2)
  CTX-11 irrelevant-share: the share stays under its limit
  → Add the filter `agents: {only: […]}` to the agent's history, or a window."""
    )


def test_findings_are_parted_by_an_empty_line() -> None:
    bare = Finding("claim", "E", "reply does not match", "a:1:1")

    assert findings_text([bare, bare]) == (
        "a:1:1: reply does not match\n\na:1:1: reply does not match"
    )


def test_long_differences_stand_under_each_other() -> None:
    difference = Difference("reply", '"' + "one " * 12 + '"', '"' + "two " * 30 + '"')
    finding = Finding("claim", "E", "reply does not match", "a:1:1", differences=(difference,))

    assert (
        findings_text([finding])
        == """\
a:1:1: reply does not match
  at reply:
    wanted "one one one one one one one one one one one one "
    found  "two two two two two two two two two two two two two two two two two two two two two two
           two two two two two two two two \""""
    )


def test_a_note_that_several_differences_share_is_said_once() -> None:
    differences = (
        Difference("[0]", "1", "nothing", "2 wanted, 0 found"),
        Difference("[1]", "2", "nothing", "2 wanted, 0 found"),
        Difference("", "", "", "and 3 more differences"),
    )
    finding = Finding(
        "claim", "E", "agents does not match", "a:1:1", ("agents",), differences=differences
    )

    assert (
        findings_text([finding])
        == """\
a:1:1: agents does not match
  at agent 1: wanted 1, found nothing
    2 wanted, 0 found
  at agent 2: wanted 2, found nothing
  and 3 more differences"""
    )


def test_a_headline_does_not_repeat_what_it_says() -> None:
    text = "agent 'coach' made no model call in turn 2"
    finding = Finding("claim", "E", text, "a:1:1", turn=2, agent="coach")
    unsaid = Finding("claim", "E", "context.*.sections does not match", "a:1:1",
                     turn=2, agent="coach", call=0)  # fmt: skip

    assert headline(finding) == text
    assert headline(unsaid) == "context.*.sections does not match (turn 2, agent coach, call 1)"


def test_tones_mark_the_headline_and_both_sides_of_a_difference() -> None:
    short = msgspec.structs.replace(CLAIM, context=(), excerpt="")
    long = msgspec.structs.replace(short, differences=(Difference("", "x" * 60, "y" * 60),))

    headline_ = (
        "<bad>s/x.scenario.yaml:41:11: context.coach.history does not match (turn 2, call 1)</>"
    )
    assert findings_text([short], tagged) == (
        f'{headline_}\n  at message 2, content: wanted <good>"Logged"</>, found <bad>"Logged your pizza."</>'
    )
    assert findings_text([long], tagged) == (
        f"{headline_}\n    wanted <good>{'x' * 60}</>\n    found  <bad>{'y' * 60}</>"
    )


def test_a_failing_scenario_tells_findings_warnings_notes_and_how_to_run_it_again() -> None:
    bare = Finding("claim", "E", "reply does not match", "a:1:1")
    result = msgspec.structs.replace(
        RESULT, findings=(bare,),
        warnings=(Finding("CTX-07", "W", "twice", "a:2:1"),),
        noted=(Finding("CTX-11", "W", "67% is irrelevant", "a:3:1", call=0),),
    )  # fmt: skip

    assert (
        result_text(result)
        == """\
a:1:1: reply does not match

a:2:1: warning CTX-07: twice

noted: CTX-11: 67% is irrelevant (call 1)

reproduce: simkit replay "s/x.scenario.yaml::it's late" --seed 7"""
    )


def test_a_broken_file_tells_its_error_and_needs_no_seed() -> None:
    result = Result("s/x y.scenario.yaml", "s/x y.scenario.yaml", 1, "", "broken", error="a:1:1: x")

    assert result_text(result) == ("a:1:1: x\n\nreproduce: simkit replay 's/x y.scenario.yaml'")


def test_a_scenario_that_simply_held_needs_no_more_than_its_title() -> None:
    text = msgspec.structs.replace(RESULT, outcome="held")

    assert result_text(text) == ""
    assert title_line(text, tagged) == "<good>ok     </> it's late"


def test_titles_say_the_outcome_and_why() -> None:
    expected = msgspec.structs.replace(RESULT, outcome="xfailed", reason="bug 12")
    broken = Result("a.scenario.yaml", "a.scenario.yaml", 1, "", "broken")

    assert title_line(RESULT) == "FAILED  it's late"
    assert title_line(expected) == "xfailed it's late (bug 12)"
    assert title_line(broken) == "ERROR   a.scenario.yaml"


def test_warnings_of_a_scenario_that_held_show_cause_and_place_uncut() -> None:
    long = msgspec.structs.replace(WARNING, what="a long story " * 10)
    result = msgspec.structs.replace(RESULT, outcome="held", warnings=(WARNING, long))

    lines = list(warning_lines(result))

    assert lines[0].startswith(f"          warning {WARNING.where}: CTX-11: 67% of what agent")
    assert " ".join(" ".join(lines).split()).endswith(
        f"{long.what.strip()} (turn 2, agent coach, call 2)"
    )


def test_of_very_many_findings_the_first_are_shown_and_the_rest_is_counted() -> None:
    many = tuple(Finding("claim", "E", f"claim {place}", "a:1:1") for place in range(40))
    lints = tuple(Finding("CTX-07", "W", f"lint {place}", "a:1:1") for place in range(12))
    result = msgspec.structs.replace(RESULT, findings=many, warnings=lints, noted=lints[:6])

    blocks = result_text(result).split("\n\n")

    assert blocks[:30] == [f"a:1:1: claim {place}" for place in range(30)]
    assert blocks[30] == "… and 10 more findings; --format json lists all"
    assert blocks[31:41] == [f"a:1:1: warning CTX-07: lint {place}" for place in range(10)]
    assert blocks[41] == "… and 2 more warnings; --format json lists all"
    assert blocks[42] == "\n".join(f"noted: CTX-07: lint {place}" for place in range(5))
    assert blocks[43] == "… and 1 more noted finding; --format json lists all"
    assert list(warning_lines(result))[-1] == "          … and 9 more warnings"


def test_the_last_line_counts_everything_and_relaxations_stand_above_it() -> None:
    summary = Summary(44, 40, 1, 1, 1, 1, 2, 2)

    off, skips = [("HND-12", "nothing to show", 2)], [("not yet", 1)]
    lines = list(summary_lines(summary, off, 0.314, tagged, skips))

    assert lines == [
        "skipped: 1 scenario: not yet",
        "lint turned off: HND-12 in 2 scenarios: nothing to show",
        "<bad>44 scenarios: 40 passed, 1 failed, 1 error, 1 skipped, 1 failed as expected, "
        "2 warnings (0.31 s)</>",
    ]


def test_a_good_end_is_short() -> None:
    assert list(summary_lines(Summary(1, 1, 0, 0, 0, 0, 1, 0), [], 2.0)) == [
        "1 scenario: 1 passed, 1 warning (2.00 s)"
    ]
