"""Stories told by pytest-bdd, from outside: what their findings and their mistakes read as.

Those that hold, with steps of every kind, are in ``stories/``.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.adapters.test_servers import BY_HAND
from tests.desk import report_of
from tests.plugins import OTHERS_OFF

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parent.parent.parent
PIPELINE = Path(__file__).with_name("stories") / "desk.pipeline.yaml"
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
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{pytester.path}")
    monkeypatch.setenv("PYTEST_ADDOPTS", OTHERS_OFF)
    shutil.copy(PIPELINE, pytester.path)


def run(pytester: pytest.Pytester, scenarios: str, binding: str = BINDING) -> pytest.RunResult:
    """Run a feature whose third line gives the pipeline."""
    head = 'Feature: The desk\n  Background:\n    Given the pipeline "desk"\n'
    (pytester.path / "desk.feature").write_text(head + scenarios, encoding="utf-8")
    pytester.makepyfile(test_desk=binding)
    return pytester.runpytest_subprocess("-rA", "-W", "error", "-p", "no:cacheprovider")


def first_lines(result: pytest.RunResult) -> dict[str, str]:
    """What the run prints of each failure's findings, by the test's name."""
    texts_by_name: dict[str, str] = {}
    name = ""
    for line in result.outlines:
        if line.startswith("    turn  time  "):
            name = ""
        if line.startswith("____") or line.startswith("===="):
            name = line.strip("_ ") if line.startswith("____ ") or line[4:5] == "_" else ""
        elif name and not line.startswith("reproduce: ") and line:
            texts_by_name[name] = (
                f"{texts_by_name[name]}\n{line}" if name in texts_by_name else line
            )
    return texts_by_name


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

  Scenario: Steps that exclude each other
    {HELLO.strip()}
    Then the reply is "Good day."
    And the reply contains "night"

  Scenario: Vacuous
    {HELLO.strip()}
    Then the context of the clerk excludes "pizza"
""",
    )

    assert report_of(result, "test_a_reply") == (
        "desk.feature:9:5: reply does not match (turn 1)\n"
        '    And the reply is "Good evening."\n'
        '  wanted "Good evening.", found "Good day."\n'
        "  the last run with an output is clerk's\n"
        "\n"
        "    turn  time  agent  sent  tokens  dropped  answered   state written\n"
        "    ----  ----  -----  ----  ------  -------  ---------  -------------\n"
        "       1  0 ms  user                          Hello      messages\n"
        "          0 ms  clerk     2       6        0  Good day.  messages\n"
        "\n"
        "reproduce: pytest test_desk.py::test_a_reply"
    )
    assert report_of(result, "test_a_history").splitlines()[:3] == [
        "desk.feature:14:5: context.clerk.history does not match (turn 1, call 1)",
        "    Then the history of the clerk is:",
        "      | user | Hello |",
    ]
    assert report_of(result, "test_an_unused_line").startswith("desk.feature:20:5: RUN-01: ")
    assert report_of(result, "test_steps_that_exclude_each_other").splitlines()[0] == (
        'desk.feature:26:5: `"Good day."` and `$contains: "night"` never hold of one value'
    )
    result.stdout.fnmatch_lines(
        ["*Captured simkit warnings call*", "desk.feature:31:5: warning RUN-03: *"]
    )
    result.assert_outcomes(failed=4, passed=1)


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


def test_a_mistake_in_a_feature_has_a_place_and_no_traceback(pytester: pytest.Pytester) -> None:
    feature = pytester.path / "desk.feature"
    pytester.makepyfile(test_desk=BINDING)
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
    feature.write_text(
        'Feature: The desk\n  Scenario: first\n    Given the pipeline "desk\n', encoding="utf-8"
    )
    unclosed = pytester.runpytest_subprocess().stdout.str()
    feature.write_text(
        "Feature: The desk\n  Scenario: first\n    Given a desk\n    Whn x\n", encoding="utf-8"
    )
    misspelt = pytester.runpytest_subprocess().stdout.str()
    feature.write_text("Feature: The desk\n", encoding="utf-8")
    empty = pytester.runpytest_subprocess().stdout.str()
    feature.write_text(
        'Feature: The desk\n  Scenario: first\n    Given a text\n    """\n', encoding="utf-8"
    )
    endless = pytester.runpytest_subprocess().stdout.str()
    pytester.makepyfile(test_lost=BINDING.replace("scenarios(", "scenarios('dusk.feature',"))
    lost = pytester.runpytest_subprocess("test_lost.py").stdout.str()
    pytester.makepyfile(test_bare="from pytest_bdd import scenarios\nscenarios('.')\n")
    feature.write_text(
        'Feature: The desk\n  Scenario: first\n    Given the pipeline "desk"\n', encoding="utf-8"
    )
    bare = pytester.runpytest_subprocess("test_bare.py").stdout.str()

    assert "desk.feature:6:7: inconsistent cell count within the table" in ragged
    assert "Give every row of the table as many cells" in ragged
    assert "desk.feature:3:5: there is no step `Given the pipline" in unknown
    assert 'a text in the line has one `"`: close it with another' in unclosed
    assert "Did you mean `When`?" in misspelt
    assert ": no feature here has a scenario\n  → Write `Feature: NAME`" in empty
    assert 'Close the text with `"""`' in endless
    assert "dusk.feature: there is no such file or folder\n  did you mean `desk.feature`?" in lost
    assert "did you mean `the pipeline {name:text}`, as in `the pipeline" in unknown
    assert (
        'desk.feature:3:5: `Given the pipeline "desk"` is a step of simkit, and test_bare.py'
        in bare
    )
    assert "Write `from simkit.bdd import *` there, or in a conftest.py." in bare
    for text in (ragged, unknown, bare):
        assert "Traceback" not in text
        assert "gherkin" not in text


def test_what_is_wrong_with_a_line_is_said_at_its_place(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        f'''
  Scenario: Contradiction
    {HELLO.strip()}
    Then the clerk was asked once
    And the clerk was asked 2 times

  Scenario: After the end
    {HELLO.strip()}
    Then at the end, the state has 2 messages
    When the user says "Bye"

  Scenario: Nothing follows
    {HELLO.strip()}
    And a new process takes over

  Scenario: Later
    {HELLO.strip()}
    Then in turn 2, nobody handed off

  Scenario: No such schema
    {HELLO.strip()}
    Then the reply fits the schema Tickets

  Scenario: Not so
    {HELLO.strip()}
    Then nobody hands off

  Scenario: Broken table
    {HELLO.strip()}
    Then the tool calls are these items:
      | agent |

  Scenario: Broken text
    When the user says "Hello"
    And the clerk answers with this line:
      """
      text: [a
      """
    Then nobody handed off

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

  Scenario: Nobody hears
    {HELLO.strip()}
    Then nobody handed off
    Given the clerk replies "Good night."

  Scenario: Nobody asks
    Given look_up returns age 44
    {HELLO.strip()}
    Then nobody handed off

  Scenario: In steps
    Given the scenario has:
      """
      turns: []
      """

  Scenario: Misspelt
    {HELLO.strip()}
    And the turn has:
      """
      schedul: random
      """
    Then nobody handed off
''',
    )

    assert first_lines(result) == {
        "test_contradiction": "desk.feature:9:5: line 8 claims another count: 1",
        "test_after_the_end": "desk.feature:15:5: the story goes on, but line 14 speaks of its end",
        "test_nothing_follows": (
            "desk.feature:20:5: a new process takes over, but the user says nothing after that"
        ),
        "test_later": "desk.feature:25:5: there is no turn 2 yet: this is turn 1",
        "test_no_such_schema": (
            "desk.feature:30:5: the pipeline has no schema `Tickets`\n"
            "  did you mean `Ticket`?   known: Ticket"
        ),
        "test_not_so": (
            "desk.feature:35:5: there is no step `Then nobody hands off`\n"
            "  did you mean `nobody handed off`?\n"
            "  `simkit bdd steps WORD` lists those with a word.\n"
            "  What no phrase says: `all of this holds:`, with claims in YAML."
        ),
        "test_broken_table": ("desk.feature:40:5: this table needs a headline, and rows below it"),
        "test_broken_text": (
            "desk.feature:47:7: the `[` opened here is never closed\n"
            "  close it; a text that starts with it, or contains ` #`, needs quotes"
        ),
        "test_unknown_agent": (
            "desk.feature:53:5: unknown agent `clark`\n"
            "  did you mean `clerk`?   known: clerk, head_clerk"
        ),
        "test_unknown_pipeline": (
            "desk.feature:57:5: there is no pipeline `desc` in or below ., scenarios\n"
            "  did you mean `desk`?   known: desk"
        ),
        "test_nobody_spoke": (
            "desk.feature:60:5: the user has said nothing yet, so there is nothing to judge\n  Write "
            '`When the user says "Hello"` before this line.'
        ),
        "test_table_dropped": "desk.feature:64:5: this step takes no table under it",
        "test_table_missing": "desk.feature:69:5: this step needs a table under it",
        "test_nobody_hears": (
            "desk.feature:75:5: this answers the user's next message, and the user says nothing "
            "after that\n  Remove it, or let the user speak."
        ),
        "test_nobody_asks": (
            "desk.feature:78:5: RUN-01: tool 'look_up' was called in no turn, but has a result\n"
            "  Remove it; results that several scenarios share stand in a `Background`."
        ),
        "test_in_steps": (
            "desk.feature:84:5: `turns` is said in steps, not here\n  `simkit bdd steps`"
        ),
        "test_misspelt": (
            "desk.feature:92:5: unknown key `schedul`\n"
            "  did you mean `schedule`?   known: cancel, crash, elicits, expect, faults, judge_replies, "
            "pause, project, repeat, replies, restart, resume, schedule, session, tool_results, "
            "user"
        ),
    }


def test_an_own_step_speaks_beside_ours_also_from_a_conftest(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
from pytest_bdd import given, then
from simkit.bdd import *

@given("a visitor from Oslo")
def _(story):
    story.state("town", "Oslo")

@then("the visitor is greeted")
def _(story):
    story.claim(("reply",), {"$contains": "Good day"})
"""
    )
    (pytester.path / "desk.feature").write_text(
        """Feature: Own
  Scenario: Oslo
    Given the pipeline "desk"
    And a visitor from Oslo
    When the user says "Hello"
    And the clerk replies "Good day."
    Then the visitor is greeted
    And the state's town is "Oslo"
""",
        encoding="utf-8",
    )
    pytester.makepyfile(test_own="from pytest_bdd import scenarios\nscenarios('.')\n")

    result = pytester.runpytest_subprocess("-W", "error", "-p", "no:cacheprovider")

    result.assert_outcomes(passed=1)


def test_channels_of_a_run_are_told_as_one_table(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
    And the state has last_visit "Monday"
    When the user says "Hello"
    And the clerk replies "Good day."

  Scenario: Some of them
    Then the clerk received:
      | town       | Rome   |
      | last visit | Monday |
    And the clerk wrote exactly:
      | messages | have one item |

  Scenario: Another value
    Then the clerk received:
      | last visit | Friday |

  Scenario: One that is not named
    Then the clerk wrote exactly:
      | town | is absent |
""",
    )

    result.assert_outcomes(passed=1, failed=2)
    assert first_lines(result) == {
        "test_another_value": (
            "desk.feature:17:5: runs.clerk.received does not match (turn 1)\n"
            "    Then the clerk received:\n"
            "      | last visit | Friday |\n"
            '  at last_visit: wanted "Friday", found "Monday"'
        ),
        "test_one_that_is_not_named": (
            "desk.feature:21:5: runs.clerk.update does not match (turn 1)\n"
            "    Then the clerk wrote exactly:\n"
            "      | town | is absent |\n"
            '  at messages: wanted nothing, found [{assistant: "Good day.", agent: "clerk"}]'
        ),
    }


def test_what_a_handoff_must_carry_is_read_from_its_contract(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
    When the user says "Hello"
    And the clerk replies "Good day."

  Scenario: All of it
    Then a handoff from the clerk to the head clerk as hard question must carry urgent

  Scenario: More than that
    Then a handoff from the clerk to the head clerk must carry urgent and reason
""",
    )

    result.assert_outcomes(passed=1, failed=1)


def test_a_story_is_skipped_where_what_it_needs_is_missing(pytester: pytest.Pytester) -> None:
    story = """
  Scenario: Elsewhere
    Given "no-such-library>=2" is installed
    When the user says "Hello"
    And the clerk replies "Good day."
    Then nobody handed off
"""

    skipped = run(pytester, story)
    insisted = pytester.runpytest_subprocess("--simkit-needs-met", "-p", "no:cacheprovider")

    skipped.assert_outcomes(skipped=1)
    skipped.stdout.fnmatch_lines(
        ["*needs no-such-library>=2, which is not installed: pip install 'no-such-library>=2'"]
    )
    insisted.assert_outcomes(passed=1)


def test_the_user_says_something_several_times_and_refers_to_what_was_replied(
    pytester: pytest.Pytester,
) -> None:
    result = run(
        pytester,
        """
  Scenario: Three more questions, in a session of their own
    Given two made-up customers from de_DE
    When the user says "I am ${customers[0].name}"
    And the clerk replies "Hello ${customers[0].first_name}"
    And the user says "Turn ${turn.number} after: ${turns[-1].reply}" three times in session "b"
    And the clerk calls look_up with said "${turns[0].reply}"
    And the clerk replies "And ${turns[-1].reply}"
    And look_up returns "${turns[0].reply}"
    Then the reply is "And And And Hello ${customers[0].first_name}"
    And in turn 2, the reply is "And ${turns[0].reply}"
    And the first context of the clerk includes "Turn 4 after: And And Hello"
    And the clerk called look_up with said "Hello ${customers[0].first_name}"
    And at the end, the tool calls have 3 items

  Scenario: A reply that is not there yet
    When the user says "Hello" in session "a"
    And the clerk replies "Hello"
    And the user says "So: ${turns[1].reply}" in session "b"
    And the clerk replies "Yes"
    Then the reply is "Yes"
""",
    )

    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "desk.feature:*: `turns[[]1[]]` is not before turn 2",
            "  What was said before it is turns[[]0[]].",
        ]
    )


def test_the_user_answers_a_server(pytester: pytest.Pytester) -> None:
    code = BY_HAND.replace("capabilities={}", 'capabilities={"elicitation": {}}')
    pytester.makepyfile(reading=code, test_desk=BINDING)
    asks = "{read_file: {args: {path: string}, asks: Read it?, answer: {sure: boolean}}}"
    story = f'''Feature: Files
  Scenario Outline: <sees>
    Given the pipeline "reading:run"
    And the scenario has:
      """
      app: {{path: [.], fresh: true}}
      agents: {{reader: {{model: m}}}}
      servers: {{files: {{mcp: {{tools: {asks}}}}}}}
      """
    And read_file returns "Buy milk."
    When the user says "Read my notes."
    And the reader calls read_file with path "notes.txt"
    And the reader replies "Done."
    And the user answers the server files with <answer>
    Then the second context of the reader includes "<sees>"
    Examples:
      | answer         | sees      |
      | sure true      | Buy milk. |
      | "decline"      | decline   |
      | sure "perhaps" | nothing   |
'''
    (pytester.path / "files.feature").write_text(story, encoding="utf-8")

    result = pytester.runpytest_subprocess("-W", "error", "-p", "no:cacheprovider")

    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*server `files` asks for another answer:*"])


def test_a_story_that_is_over_is_dropped_with_its_trace(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        import gc

        def pytest_sessionfinish():
            from simkit.bdd.story import Story

            gc.collect()
            print("\\nstories left:", sum(isinstance(each, Story) for each in gc.get_objects()))
        """
    )
    feature = """
  Scenario: {name}
    When the user says "Hello"
    And the clerk replies "{reply}"
    Then the reply is "Hi."
"""

    result = run(
        pytester, feature.format(name="holds", reply="Hi.") + feature.format(name="f", reply="No")
    )

    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["stories left: 0"])
