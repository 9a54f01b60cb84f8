"""The steps for pytest-bdd: features run from outside."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.plugins import OTHERS_OFF

ROOT = Path(__file__).resolve().parents[2]
PIPELINE = """\
version: 1
pipeline: desk
channels:
  messages: {reducer: append, scope: session}
  town: {scope: session}
  notes: {reducer: append, scope: project}
defaults:
  context: [instructions, notes, handoff, history, current_message]
  writes: {messages: ["${run.final_message}"]}
agents:
  clerk: {instructions: You are a clerk., tools: [look_up], handoffs: [head_clerk]}
  head_clerk: {instructions: You are the head clerk.}
tools: {look_up: {args: {type: object, required: [name]}}}
contracts:
  - {from: clerk, to: head_clerk, type: question, payload: {type: object, required: [urgent]}}
flow: {handoffs: {start: clerk}}
"""
BINDING = """
from pytest_bdd import given, scenarios, then

from simkit.bdd import *

scenarios(".")
"""
HELLO = """
    When the user says "Hello"
    And the clerk replies "Good day."
"""


@pytest.fixture(autouse=True)
def _this_tree(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYTEST_ADDOPTS", OTHERS_OFF)
    (pytester.path / "desk.pipeline.yaml").write_text(PIPELINE, encoding="utf-8")


def run(pytester: pytest.Pytester, scenarios: str, binding: str = BINDING) -> pytest.RunResult:
    """Run a feature whose first line is its `Feature:`, whose third gives the pipeline."""
    head = 'Feature: The desk\n  Background:\n    Given the pipeline "desk"\n'
    (pytester.path / "desk.feature").write_text(head + scenarios, encoding="utf-8")
    pytester.makepyfile(binding)
    return pytester.runpytest_subprocess("-rA", "-W", "error")


def report_of(result: pytest.RunResult, test: str) -> str:
    """What the run prints of one failure: all between its headline and the next one."""
    lines = result.outlines
    start = next(place for place, line in enumerate(lines) if line.strip("_ ") == test) + 1
    end = next(
        place for place, line in enumerate(lines) if place > start and line[:3] in ("___", "===")
    )
    return "\n".join(lines[start:end]).strip()


@pytest.mark.slow
def test_a_story_of_all_kinds_of_steps_holds(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
  Scenario: The whole desk
    Given the seed 7
    And the state has town "Oslo"
    And the state has these notes:
      | agent | text        | at                   |
      | clerk | Likes trams | 2026-01-04T08:00:00Z |
    And look_up returns:
      | age | 44 |
    When the user says:
      \"\"\"
      Who is
      Ada?
      \"\"\"
    And the clerk calls look_up with name "Ada"
    And the clerk replies "Ada is 44."
    Then these agents ran in order: clerk
    And the clerk called look_up with name "Ada"
    And the head clerk was not asked
    And the reply is "Ada is 44."
    And the reply contains "44"
    And the context of the clerk includes "Likes trams"
    And nobody handed off

    Given the head clerk replies "At nine."
    When the user says "When do you open?"
    And the clerk hands off to the head clerk with urgent false
    Then these agents ran in order: clerk and head clerk
    And the clerk handed off to the head clerk with:
      | urgent | false |
    And the context of the head clerk has the sections instructions, notes, handoff, history \
and current_message
    And the context of the head clerk excludes tool messages
    And the context of the head clerk excludes "44 years"
    And the history of the head clerk is:
      | user      | Who is\\nAda? |
      | assistant | Ada is 44.   |
    And the state has town "Oslo"
    And the state has 4 messages
    And the reply is "At nine."

    When the user says "And Bo?"
    And the clerk calls look_up with:
      | name | Bo |
    And look_up fails with "nobody of that name"
    And the clerk hands off to the head clerk with:
      | urgent | true |
    And the head clerk replies:
      \"\"\"
      Bo is new.
      \"\"\"
    Then the clerk called look_up
    And the clerk handed off to the head clerk
""",
    )

    result.assert_outcomes(passed=1)


@pytest.mark.slow
def test_a_finding_shows_the_step_that_does_not_hold(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        f"""
  Scenario: A reply
    {HELLO.strip()}
    Then the reply contains "Good"
    And the reply is "Good evening."

  Scenario: A history
    {HELLO.strip()}
    Then the history of the clerk is:
      | user | Hello |

  Scenario: An unused line
    {HELLO.strip()}
    And the clerk replies "Good night."
""",
    )

    assert report_of(result, "test_a_reply") == (
        "desk.feature:9:5: reply does not match (turn 1)\n"
        '    And the reply is "Good evening."\n'
        '  wanted "Good evening.", found "Good day."\n'
        "  the last run with an output is clerk's\n"
        "\n"
        "reproduce: pytest test_a_finding_shows_the_step_that_does_not_hold.py::test_a_reply"
    )
    assert report_of(result, "test_a_history").splitlines()[:3] == [
        "desk.feature:14:5: context.clerk.history does not match (turn 1, call [0])",
        "    Then the history of the clerk is:",
        "      | user | Hello |",
    ]
    assert report_of(result, "test_an_unused_line").startswith("desk.feature:20:5: RUN-01: ")
    result.assert_outcomes(failed=3)


@pytest.mark.slow
def test_steps_that_exclude_each_other_are_told_at_the_later_one(
    pytester: pytest.Pytester,
) -> None:
    result = run(
        pytester,
        f"""
  Scenario: A reply
    {HELLO.strip()}
    Then the reply is "Good day."
    And the reply contains "night"
""",
    )

    assert report_of(result, "test_a_reply").splitlines()[0] == (
        'desk.feature:9:5: `"Good day."` and `$contains: "night"` never hold of one value'
    )


@pytest.mark.slow
def test_what_is_wrong_with_a_step_is_said_in_its_own_place(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        f"""
  Scenario: Unknown agent
    When the user says "Hello"
    And the clark replies "Good day."
    Then nobody handed off

  Scenario: Unknown pipeline
    Given the pipeline "desc"

  Scenario: Nobody spoke
    Then nobody handed off

  Scenario: Table dropped
    {HELLO.strip()}
      | a | b |

  Scenario: Table missing
    When the user says "Hello"
    And the clerk decides:
""",
    )
    again = "\n\nreproduce: pytest test_what_is_wrong_with_a_step_is_said_in_its_own_place.py::"

    assert {
        test: report_of(result, test).partition(again)[0]
        for test in (
            "test_unknown_agent",
            "test_unknown_pipeline",
            "test_nobody_spoke",
            "test_table_dropped",
            "test_table_missing",
        )
    } == {
        "test_unknown_agent": (
            "desk.feature:7:5: unknown agent `clark`\n"
            "  did you mean `clerk`?   known: clerk, head_clerk"
        ),
        "test_unknown_pipeline": (
            "desk.feature:11:5: there is no pipeline `desc` beside this file or in the folders of "
            "tests\n  did you mean `desk`?   known: desk"
        ),
        "test_nobody_spoke": (
            "desk.feature:14:5: the user has said nothing yet, so there is nothing to judge"
        ),
        "test_table_dropped": "desk.feature:18:5: this step takes no table under it",
        "test_table_missing": "desk.feature:23:5: this step needs a table under it",
    }


@pytest.mark.slow
def test_a_story_runs_each_turn_once_for_all_its_claims(pytester: pytest.Pytester) -> None:
    count = """
from simkit.runtime.kernel import NativeDriver

taken = []
real = NativeDriver.take
NativeDriver.take = lambda driver, turn: taken.append(1) or real(driver, turn)

def test_zz():
    assert len(taken) == 2
"""
    result = run(
        pytester,
        f"""
  Scenario: Two turns
    {HELLO.strip()}
    Then the reply is "Good day."
    And the reply contains "day"
    And nobody handed off
    {HELLO.strip()}
    Then the reply is "Good day."
    And the state has 4 messages
""",
        BINDING + count,
    )

    result.assert_outcomes(passed=2)


@pytest.mark.slow
def test_outlines_and_own_steps_stand_beside_ours(pytester: pytest.Pytester) -> None:
    own = """
@given("a visitor from Oslo")
def _(story):
    story.state("town", "Oslo")

@then("the story has one turn")
def _(story):
    assert len(story.values["turns"]) == 1
"""
    result = run(
        pytester,
        """
  Scenario Outline: Greetings
    Given a visitor from Oslo
    When the user says "<said>"
    And the clerk replies "<reply>"
    Then the reply is "<reply>"
    And the state has town "Oslo"
    And the story has one turn

    Examples:
      | said  | reply     |
      | Hello | Good day. |
      | Bye   | Farewell. |
""",
        BINDING + own,
    )

    result.assert_outcomes(passed=2)


@pytest.mark.slow
def test_a_claim_that_proves_nothing_is_a_warning(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        f"""
  Scenario: Vacuous
    {HELLO.strip()}
    Then the context of the clerk excludes "pizza"
""",
    )

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        ["*Captured simkit warnings call*", "desk.feature:8:5: warning RUN-03: *"]
    )


@pytest.mark.slow
def test_a_mistake_in_a_feature_has_a_place_and_no_traceback(
    pytester: pytest.Pytester,
) -> None:
    feature = pytester.path / "desk.feature"
    pytester.makepyfile(BINDING)
    broken = """Feature: The desk
  Scenario: ragged
    Given the pipeline "desk"
    And the clerk decides:
      | a | 1 |
      | b |
"""
    feature.write_text(broken, encoding="utf-8")
    ragged = pytester.runpytest_subprocess().stdout.str()
    feature.write_text(
        'Feature: The desk\n  Scenario: first\n    Given the pipline "desk"\n', encoding="utf-8"
    )
    unknown = pytester.runpytest_subprocess().stdout.str()

    assert "desk.feature:6:7: inconsistent cell count within the table" in ragged
    assert "Give every row of the table as many cells" in ragged
    assert "desk.feature:3:5: there is no step `Given the pipline" in unknown
    assert "did you mean `the pipeline {name:text}`, as in `the pipeline" in unknown
    for text in (ragged, unknown):
        assert "Traceback" not in text
        assert "gherkin" not in text
