"""A conversation that is looked at after every turn costs what it says, not its square."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from simkit import Simulation
from simkit.bdd.assembling import FeatureText, Places
from simkit.bdd.story import Story
from simkit.bdd.vocabulary import VOCABULARIES
from simkit.spec.scenario.files import Library
from tests.test_linear import GROWTH_MAX, counted

SIZES = (50, 100, 200)
PIPELINE = """
version: 1
pipeline: desk
agents:
  triage: {instructions: Choose., context: [instructions, current_message]}
  billing: {instructions: Bill., context: [instructions, history, current_message]}
flow: {router: {decide: triage, to: "${run.output.to}"}}
"""
REPORT = (
    (1, 'the user says "Where is my order?"'),
    (1, 'triage decides to "billing"'),
    (1, 'billing replies "It is on its way."'),
    (2, 'the reply contains "way"'),
    (2, "billing was asked once"),
)


def simulated(turns: int) -> None:
    desk = Simulation(PIPELINE)
    replies = {"triage": {"json": {"to": "billing"}}, "billing": "It is on its way."}
    for _ in range(turns):
        run = desk.say("Where is my order?", replies=replies)
        assert run.reply == "It is on its way."
        # Its context holds the whole history: to read that costs what it holds.
        assert run.agents == ["triage", "billing"]
        assert run.findings == []
    desk.check()


def tell_story(turns: int) -> None:
    story = Story(Library(), root=Path(), folders=[Path()], seed=None)
    story.begin(
        Places(FeatureText("desk.feature", "\n" * (turns * len(REPORT) + 2)), (1, 1)), "Many turns"
    )
    tell(story, 0, 'the pipeline "desk"', 2)
    for place in range(turns * len(REPORT)):
        tell(story, *REPORT[place % len(REPORT)], place + 3)
    assert story.end().judgement.passed


def tell(story: Story, keyword: int, text: str, number: int) -> None:
    line = VOCABULARIES[keyword].line(text)
    assert line is not None, text
    story.lines, story.last_turn = (number, number), line.owner
    judgement = line.step.tell(story, line.holes)
    assert judgement is None or judgement.passed


def grown(costs: dict[int, float]) -> dict[int, float]:
    """What a turn costs at each length, if it costs more at one than it may."""
    return costs if max(costs.values()) > GROWTH_MAX * min(costs.values()) else {}


@pytest.mark.slow
@pytest.mark.parametrize("lead", [simulated, tell_story])
def test_a_turn_that_is_looked_at_costs_the_same_however_long_the_conversation_is(
    lead: Callable[[int], None], cwd: Path
) -> None:
    (cwd / "desk.pipeline.yaml").write_text(PIPELINE, encoding="utf-8")
    lead(2)  # what is compiled once is in the caches

    costs = {turns: counted(partial(lead, turns))[1] / turns for turns in SIZES}

    assert grown(costs) == {}


def test_looking_at_every_turn_anew_would_be_seen() -> None:
    # The nearest that fails: every look reads all turns again.
    def look(turns: int) -> list[int]:
        return [len(str(number)) for _ in range(turns) for number in range(turns)]

    assert grown({n: counted(partial(look, n))[1] / n for n in (5, 10)}) != {}
