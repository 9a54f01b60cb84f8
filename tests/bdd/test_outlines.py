"""Outlines: holes without a column, tables without a row, and any text in a cell."""

from __future__ import annotations

import pytest

from tests.bdd.test_stories import _this_tree as _this_tree
from tests.bdd.test_stories import run
from tests.desk import report_of

_SAYS = """
    When the user says "{}"
    And the clerk replies "Good day."
    Then the reply is "Good day."
"""
_TABLE = "    Examples:\n      | what |\n"


@pytest.mark.slow
def test_what_pytest_bdd_passes_over_is_an_error_with_its_line(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        f"""
  Scenario Outline: Misspelt
{_SAYS.format("<waht>")}
{_TABLE}      | Hello |

  Scenario Outline: No row
{_SAYS.format("<what>")}
{_TABLE}
  Scenario Outline: No table
{_SAYS.format("Hello")}
  Scenario: Twice
{_SAYS.format("Hello")}
  Scenario: Twice
{_SAYS.format("Hello")}
  Scenario: Angles
{_SAYS.format("<name> is no hole where there is no table")}
  Scenario: Keyword
    The reply is what matters.
    Wehn the user says "Hello"
{_SAYS.format("Hello")}
  Scenario Outline: Markup
{_SAYS.format("<b><what></b>")}
{_TABLE}      | Hello |
""",
    )

    result.assert_outcomes(passed=2, failed=5)
    again = "\n\nreproduce:"
    assert [
        report_of(result, f"test_{test}").partition(again)[0]
        for test in ("misspelt[Hello]", "no_row", "no_table", "twice", "keyword")
    ] == [
        "desk.feature:7:5: no column fills `<waht>` in the outline `Misspelt` (its table is in "
        "line 11)\n  did you mean `what`?   known: what\n"
        "  To send the text `<waht>` itself, make it the cell of a column.",
        "desk.feature:15:3: the outline `No row` has no row, so nothing in it is tested\n"
        "  Add a row below the names of the columns under `Examples:`.",
        "desk.feature:24:3: the outline `No table` has no row, so nothing in it is tested\n"
        "  Add a row below the names of the columns under `Examples:`.",
        "desk.feature:36:3: 2 scenarios are called `Twice` (also line 30), and pytest-bdd runs "
        "the last one alone\n  Give each a name of its own.",
        'desk.feature:48:3: `Wehn the user says "Hello"` is no step, so Gherkin takes it for a '
        "description\n  did you mean `When`?   known: Given, When, Then, And, But",
    ]


@pytest.mark.slow
def test_a_missing_answer_is_a_step_to_write_and_the_rest_follows(
    pytester: pytest.Pytester,
) -> None:
    result = run(
        pytester,
        """
  Scenario: No result
    When the user says "Who is Ada?"
    And the clerk calls look_up with name "Ada"
    And the clerk replies "Ada is 44."
    Then the reply is "Ada is 44."

  Scenario: No reply
    When the user says "Hello"
    Then the reply is "Good day."
""",
    )

    result.assert_outcomes(failed=2)
    no_result = report_of(result, "test_no_result")
    assert 'Add the step `And look_up returns "…"` below line 6, or' in " ".join(no_result.split())
    assert "turns[" not in no_result
    assert "2 more findings follow from it, in line" in no_result
    no_reply = " ".join(report_of(result, "test_no_reply").split())
    assert 'Add the step `And clerk replies "…"` below line 12, or' in no_reply
