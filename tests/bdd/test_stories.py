"""Stories of every kind of step: told by pytest-bdd, from outside."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.plugins import OTHERS_OFF

ROOT = Path(__file__).resolve().parent.parent.parent
PIPELINE = """\
version: 1
pipeline: desk
store: sqlite
channels:
  messages: {reducer: append, scope: session}
  town: {scope: session, default: Rome}
  last_visit: {scope: session}
  notes: {reducer: append, scope: project}
  phone: {scope: agent_run}
schemas:
  Ticket: {type: object, required: [kind]}
defaults:
  context: [instructions, notes: {max: 1}, handoff, history, current_message]
  writes: {messages: ["${run.final_message}"]}
agents:
  clerk: {instructions: You are a clerk., tools: [look_up, count], handoffs: [head_clerk]}
  head_clerk: {instructions: You are the head clerk.}
tools: {look_up: {args: {type: object}}, count: {args: {type: object}}}
contracts:
  - {from: clerk, to: head_clerk, type: hard_question,
     payload: {type: object, required: [urgent]}}
flow: {handoffs: {start: clerk}}
"""
BINDING = """
from pytest_bdd import given, scenarios, then

from simkit.bdd import *

scenarios(".")

def is_short(view):
    return len(view.turns) == 1 or "it is long"
"""
SHARED = """\
tool_results: {look_up: {age: 44}}
"""


@pytest.fixture(autouse=True)
def _this_tree(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{pytester.path}")
    monkeypatch.setenv("PYTEST_ADDOPTS", OTHERS_OFF)
    (pytester.path / "desk.pipeline.yaml").write_text(PIPELINE, encoding="utf-8")
    (pytester.path / "ada.yaml").write_text(SHARED, encoding="utf-8")


def run(pytester: pytest.Pytester, scenarios: str) -> pytest.RunResult:
    """Run a feature whose third line gives the pipeline."""
    head = 'Feature: The desk\n  Background:\n    Given the pipeline "desk"\n'
    (pytester.path / "desk.feature").write_text(head + scenarios, encoding="utf-8")
    pytester.makepyfile(test_desk=BINDING)
    return pytester.runpytest_subprocess("-rA", "-W", "error", "-p", "no:cacheprovider")


def first_lines(result: pytest.RunResult) -> dict[str, str]:
    """What the run prints of each failure, without how to reproduce it, by the test's name."""
    texts_by_name: dict[str, str] = {}
    name = ""
    for line in result.outlines:
        if line.startswith("____") or line.startswith("===="):
            name = line.strip("_ ") if line.startswith("____ ") or line[4:5] == "_" else ""
        elif name and not line.startswith("reproduce: ") and line:
            texts_by_name[name] = (
                f"{texts_by_name[name]}\n{line}" if name in texts_by_name else line
            )
    return texts_by_name


@pytest.mark.slow
def test_answers_of_every_kind(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        '''
  Scenario: Tools answer one call after the other, and stand for later turns
    Given look_up returns age 44
    When the user says "Ages?"
    And the clerk calls look_up with name "Ada"
    And the clerk calls look_up with name "Bo"
    And the clerk replies "Done."
    And look_up returns age 1
    And look_up fails with "nobody"
    Then the clerk called look_up and got a result that has age 1
    And the clerk called look_up and got the error "nobody"

    When the user says "Ada again?"
    And the clerk calls look_up with name "Ada"
    And the clerk replies "44."
    Then the clerk called look_up and got a result that has age 44

    When the user says "Thanks."
    And the clerk replies "Bye."
    Then the reply is "Bye."

  Scenario: Tools answer by their arguments, with a delay
    Given look_up returns age 1 for name "Ada"
    And look_up returns age 2 for name "Bo" after 5 ms
    When the user says "Ages?"
    And the clerk calls at the same time:
      | tool    | name |
      | look_up | Bo   |
      | look_up | Ada  |
    And the clerk replies "Done." after 500 ms if it is shown "Ages?"
    Then these tools were called in order:
      | agent | tool    | name | result    |
      | clerk | look_up | Bo   | has age 2 |
      | clerk | look_up | Ada  | has age 1 |
    And the clerk called look_up with name that is one of "Ada" or "Bo"
    And the clerk called look_up with exactly:
      | name | Ada |

  Scenario: Results of every form
    When the user says "Count"
    And the clerk calls count
    And the clerk calls count
    And the clerk calls count
    And the clerk calls count
    And the clerk replies "Done."
    And count returns 8
    And count returns the list 1 and 2
    And count returns:
      """
      many
      """
    And count returns these items:
      | name | age |
      | Ada  | 44  |
    Then the tool calls have an item with result that is 8
    And the tool calls have an item with result that is the list 1 and 2
    And the tool calls have an item with result "many"
    And the clerk called count and got a result that has only items with age 44

  Scenario: Shared files, time, seed and limits
    Given what "ada.yaml" says
    And the seed 7
    And the time is 2026-02-03 04:05
    And at most 3 model calls per run
    And the lint CTX-11 is off because "it is a test"
    When the user says "Ada?"
    And the clerk calls look_up with:
      | name | Ada |
    And the clerk replies "44."
    Then the clerk called look_up and got a result that has age 44
    And in the whole conversation, the event RunStarted happened with seed 7

  Scenario: The model fails
    When the user says "Hello"
    And the model of the clerk fails with status 418 and "I am a teapot"
    Then the turn ends with the error server_error that says "teapot"
    And there is no reply

  Scenario: The model fails on a call that is planned to fail
    Given the model of the clerk fails with overloaded on its call 1 and may be asked again after 2 s
    When the user says "Hello"
    And the clerk replies "Good day."
    Then the turn ends with the error overloaded
    And the event FaultInjected happened with fault "overloaded on call 1"
    And the event ModelFailed happened with retry_after_ms 2000
    When the user says "Hello?"
    And the clerk replies "Good day."
    Then the reply is "Good day."

  Scenario: The model fails on a call in the turn that is told
    When the user says "Hello"
    And the clerk replies "Good day."
    And the model of the clerk fails with timeout on its call 1
    Then the turn ends with the error timeout

  Scenario: A result of one turn must be used there, one of every turn may wait
    Given look_up returns age 44
    When the user says "Hello"
    And the clerk replies "Hello."
    And count returns 1
    Then the lint RUN-01 is found

  Scenario: A line in YAML, and claims in YAML
    When the user says "Hello"
    And the clerk answers with this line:
      """
      text: One moment.
      calls: [count: {}]
      """
    And the clerk answers with this line:
      """
      {json: {kind: greeting}}
      """
    And count returns 1
    Then all of this holds:
      """
      agents: [clerk]
      context: {"clerk[1]": {includes: [One moment.], tokens: {$gt: 1}}}
      model_calls: {clerk: 2, head_clerk: 0}
      reply: {kind: greeting}
      """
    And the reply fits the schema Ticket
''',
    )

    result.assert_outcomes(passed=9)


@pytest.mark.slow
def test_users_sessions_restarts_and_interrupts(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        '''
  Scenario: Two conversations
    When the user says "I am Ada" in session "phone" in project "Ada"
    And the clerk replies "Hello Ada."
    And the user says in session "web" in project "Bo":
      """
      I am Bo
      """
    And the clerk replies "Hello Bo."
    And the user says "And again" in session "phone" in project "Ada"
    And the clerk replies "Hello again."
    Then the history of the clerk is:
      | user      | I am Ada   |
      | assistant | Hello Ada. |
    And in turn 2, the context of the clerk excludes "Ada"
    And in turn 2, the context of the clerk has no section history
    And in the whole conversation, the clerk was asked 3 times

  Scenario: A new process
    Given the state has town "Oslo"
    When the user says "I am Ada"
    And the clerk replies "Hello Ada."
    And a new process takes over
    And the user waits "2 h"
    And the user says "Who am I?"
    And the clerk replies "Ada."
    Then the context of the clerk includes a user message that is "I am Ada"
    And the event CheckpointRestored happened
    And the event TurnStarted happened with at 7200000
    And at the end, the state's town is "Oslo"

  Scenario: A question back
    When the user says "Pizza"
    And the clerk asks the user "Which one?"
    Then the user is asked "Which one?"

    When the user answers "Salami"
    And the clerk replies "Coming."
    Then the reply is "Coming."
    And the user is asked nothing
    And there is no error

  Scenario: A user that is a program
    When the user sends:
      | order | pizza | salami |
      | order | size  | 30     |
    And the clerk replies "Coming."
    Then the input of the clerk has order that has exactly pizza "salami" and size 30
''',
    )

    result.assert_outcomes(passed=4)


@pytest.mark.slow
def test_claims_of_every_kind(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
  Scenario: Contexts
    Given the state has these notes:
      | agent | text        | at                   |
      | clerk | Likes trams | 2026-01-04T08:00:00Z |
      | clerk | Likes ships | 2026-01-03T08:00:00Z |
    And the state has last_visit "May"
    When the user says "Hello"
    And the clerk calls count
    And the clerk replies "Good day."
    And count returns 7
    Then the context of the clerk is exactly:
      | system | You are a clerk.       |
      | system | contains "Likes trams" |
      | user   | Hello                  |
    And the context of the clerk has 3 messages
    And the context of the clerk has at least 5 tokens
    And the tokens in the context of the clerk are between 5 and 50
    And every context of the clerk includes "Hello"
    And the second context of the clerk includes a tool message that contains "7"
    And the last context of the clerk includes these messages:
      | role | content |
      | user | Hello   |
      | tool | 7       |
    And the context of the clerk excludes messages from the head clerk
    And the context of the clerk has a section current message
    And the current message in the last context of the clerk has 1 items
    And the context of the clerk offers the tools count and look_up
    And nothing of the context of the clerk comes from the head clerk
    And "Likes ships" was left out of the context of the clerk by max
    And nothing was dropped from the context of the clerk
    And the settings of the context of the clerk are empty
    And the clerk received the last visit "May"
    And the clerk received no phone
    And what the clerk wrote has messages that have 1 items
    And the output of the clerk is "Good day."
    And the state has two notes
    And the state's notes have an item with text "Likes trams"
    And the run satisfies "test_desk:is_short"
    And one agent started
    And the agents that ran are the list "clerk"

  Scenario: Handoffs
    When the user says "Hello"
    And the clerk hands off to the head clerk as hard question asking "Who?" with urgent true
    And the head clerk replies "Me."
    Then these agents ran in order:
      | clerk      |
      | head clerk |
    And the clerk ran before the head clerk
    And the head clerk ran
    And these handoffs were requested:
      | from  | to         | type          | query | urgent |
      | clerk | head clerk | hard_question | Who?  | true   |
    And the clerk handed off to the head clerk as hard question asking "Who?" with exactly:
      | urgent | true |
    And the handoffs have 1 items
    And no tool was called
    And the clerk called no tool
    And these events happened in order, among others:
      | kind             | agent      |
      | HandoffRequested |            |
      | AgentStarted     | head_clerk |
    And the event LimitReached did not happen

  Scenario: A lint that is meant
    When the user says "Hello"
    And the clerk hands off to the head clerk with wrong 1
    And the clerk replies "Sorry."
    Then the handoff from the clerk to the head clerk was rejected because \
its reason contains "urgent"
    And the head clerk did not run
""",
    )

    result.assert_outcomes(passed=3)


@pytest.mark.slow
def test_backgrounds_rules_and_outlines_work_together(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
  Rule: The clerk is polite
    Background:
      When the user says "Hello"
      And the clerk replies "Good day."

    Scenario Outline: Words
      Then the reply <condition>
      And the history of the clerk <other>

      Examples: those that hold
        | condition           | other     |
        | starts with "Good"  | is empty  |
        | is one of "Good day." or "Hello" | has no items |
""",
    )

    result.assert_outcomes(passed=2)


@pytest.mark.slow
def test_what_is_wrong_with_a_line_is_said_at_its_place(pytester: pytest.Pytester) -> None:
    hello = 'When the user says "Hello"\n    And the clerk replies "Good day."'
    result = run(
        pytester,
        f'''
  Scenario: Contradiction
    {hello}
    Then the clerk was asked once
    And the clerk was asked 2 times

  Scenario: After the end
    {hello}
    Then at the end, the state has 2 messages
    When the user says "Bye"

  Scenario: Nothing follows
    {hello}
    And a new process takes over

  Scenario: Later
    {hello}
    Then in turn 2, nobody handed off

  Scenario: No such schema
    {hello}
    Then the reply fits the schema Tickets

  Scenario: Not so
    {hello}
    Then nobody hands off

  Scenario: Broken table
    {hello}
    Then the tool calls are these items:
      | agent |

  Scenario: Broken text
    When the user says "Hello"
    And the clerk answers with this line:
      """
      text: [a
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
            "  `simkit bdd steps WORD` lists those with a word."
        ),
        "test_broken_table": ("desk.feature:40:5: this table needs a headline, and rows below it"),
        "test_broken_text": (
            "desk.feature:47:7: the `[` opened here is never closed\n"
            "  close it; a text that starts with it, or contains ` #`, needs quotes"
        ),
    }


@pytest.mark.slow
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
    judgement = story.claim(("reply",), {"$contains": "Good day"})
    assert judgement.passed, judgement.findings[0].what
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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
