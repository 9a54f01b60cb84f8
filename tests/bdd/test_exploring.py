"""Features that leave open what happens, and claim what always holds."""

from __future__ import annotations

import pytest

from tests.bdd.test_stories import _this_tree as _this_tree
from tests.bdd.test_stories import first_lines, run
from tests.explore.desks import DESK
from tests.explore.test_simulations import BUYER, REFUNDS

pytestmark = pytest.mark.slow

SIMULATION = DESK + BUYER + REFUNDS


def test_what_always_holds_passes_and_what_does_not_shows_a_scenario(
    pytester: pytest.Pytester,
) -> None:
    result = run(
        pytester,
        """
  Scenario: Sound
    When users say anything in 20 conversations, whatever the models do
    Then it always holds that the event LimitReached did not happen
    And at the end, the context of the clerk includes a user message

  Scenario: Not so
    When users say one of "Money!" or "Hello." in 20 conversations, whatever the models do
    Then it always holds that the context of the clerk includes a message that contains "Hello."

  Scenario: Not at the end
    When users say one of "Money!" in 20 conversations, whatever the models do
    Then at the end, the clerk was asked once
""",
    )

    outcomes = result.parseoutcomes()
    assert (outcomes["passed"], outcomes["failed"]) == (1, 2)
    text = result.stdout.str()
    assert "always: the claim on `context.clerk` does not hold" in text
    assert "    turns:\n      - user: Money!" in text
    assert "finally: the claim on `model_calls.clerk` does not hold" in text


def test_users_of_a_simulation_speak(pytester: pytest.Pytester) -> None:
    own, _, simulation = SIMULATION.partition("---\n")
    (pytester.path / "desk.pipeline.yaml").write_text(own, encoding="utf-8")
    simulation = simulation.replace("pipeline: desk\n", "pipeline: desk.pipeline.yaml\n")
    pytester.makefile(".simulation.yaml", desk=simulation, other=SIMULATION)
    speaking = 'When users speak as in "desk.simulation.yaml" in 60 conversations, whatever the'

    result = run(
        pytester,
        f"""
  Scenario: Paid twice
    {speaking} models do
    Then it always holds that the state has at most 1 refunds

  Scenario: Nobody of this name
    {speaking} models do
    Then it always holds that the context of the dsk excludes "tram"

  Scenario: Its own beginning
    Given the seed 7
    {speaking} models do
    Then nothing breaks

  Scenario: Another pipeline
    When users speak as in "other.simulation.yaml", whatever the models do
    Then nothing breaks

  Scenario: Not looked at
    {speaking} models do
    Then it always holds that the 9th context of billing excludes "tram"
""",
    )

    lines = {name: text.splitlines()[0] for name, text in first_lines(result).items()}
    del lines["test_paid_twice"], lines["test_not_looked_at"]
    assert lines == {
        "test_nobody_of_this_name": "desk.feature:11:5: unknown agent `dsk`",
        "test_its_own_beginning": (
            "desk.feature:16:5: `desk.simulation.yaml` says how its conversations begin: it would "
            "ignore what the story says of `seed`"
        ),
        "test_another_pipeline": (
            "desk.feature:20:5: `other.simulation.yaml` simulates another pipeline: desk"
        ),
    }
    text = result.stdout.str()
    assert "1 claim not looked at: what it speaks of happened in no conversation" in text
    assert "desk.feature:7:5: always: the claim on `state.refunds` does not hold" in text
    assert "# `simkit explore desk.simulation.yaml --runs 60 --seed 0` found it" in text


def test_mistakes_are_told_at_their_line(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
  Scenario: Nobody explores
    When the user says "Hello"
    And the clerk replies "Hello."
    Then it always holds that nobody handed off

  Scenario: Nothing explored
    When the user says "Hello"
    Then nothing breaks

  Scenario: Both
    When the user says "Hello"
    And users say anything, whatever the models do

  Scenario: Which turn
    When users say anything, whatever the models do
    Then nobody handed off

  Scenario: No file
    When users speak as in "none.simulation.yaml", whatever the models do
    Then nothing breaks

  Scenario: None at all
    When users say anything in 0 conversations, whatever the models do
    Then nothing breaks

  Scenario: No such agent
    When users say anything, whatever the models do
    Then it always holds that the clrk was asked once
""",
    )

    explored = "speaks of conversations that are explored"
    lines = {name: text.splitlines()[0] for name, text in first_lines(result).items()}
    assert lines == {
        "test_nobody_explores": f"desk.feature:8:5: `it always holds that` {explored}",
        "test_nothing_explored": f"desk.feature:12:5: `nothing breaks` {explored}",
        "test_both": "desk.feature:16:5: the story says already what happens",
        "test_which_turn": (
            "desk.feature:20:5: no turn is the last one of conversations that are explored"
        ),
        "test_no_file": "desk.feature:24:5: there is no simulation `none.simulation.yaml`",
        "test_no_such_agent": "desk.feature:32:5: unknown agent `clrk`",
        "test_none_at_all": "desk.feature:27:5: no conversation shows nothing",
    }
