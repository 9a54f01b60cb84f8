"""What is denied is denied of everything that it names: in YAML, in Gherkin and in Python."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pytest_bdd.parser import FeatureParser

from simkit import Simulation
from simkit.bdd.assembling import FeatureText, Places
from simkit.bdd.story import Story
from simkit.bdd.vocabulary import VOCABULARIES
from simkit.checks.findings import Finding
from simkit.matchers import contains, partial
from simkit.session.simulation import TurnOutcome
from simkit.spec.scenario.files import Library

PIPELINE = """\
version: 1
pipeline: desk
agents:
  a: {instructions: You greet., handoffs: [b]}
  b: {instructions: You pay.}
contracts: [{from: a, to: b, payload: {type: object, required: [order]}}]
flow: {handoffs: {start: a}}
"""
FEATURE = """\
Feature: Desk
  Scenario: Hello
    Given the pipeline "desk.pipeline.yaml"
    When the user says "Hello"
    And a hands off to b with card 4111
    And a replies "Sorry."
    Then %s
"""
_BY_KEYWORD = {vocabulary.keyword.lower(): vocabulary for vocabulary in VOCABULARIES}


def _of_feature(line: str, folder: Path) -> tuple[Finding, ...]:
    """What is found of a story whose last line is given."""
    (folder / "desk.pipeline.yaml").write_text(PIPELINE, encoding="utf-8")
    file = folder / "desk.feature"
    file.write_text(FEATURE % line, encoding="utf-8")
    (scenario,) = FeatureParser(str(folder), file.name).parse().scenarios.values()
    story = Story(Library(), root=folder, folders=[folder])
    story.begin(
        Places(FeatureText("desk.feature", file.read_text(encoding="utf-8")), (2, 2)), "Hello"
    )
    for step in scenario.steps:
        reply = _BY_KEYWORD[step.type].line(step.name)
        assert reply is not None, step.name
        story.lines = (step.line_number, step.line_number)
        story.last_turn, story.text, story.table = reply.owner, step.docstring, None
        reply.step.tell(story, reply.holes)
    return story.end().findings


@pytest.mark.parametrize(
    ("line", "holds"),
    [
        ('the handoffs do not have an item with to "b"', False),
        ('the handoffs do not have an item with reason that contains "order"', False),
        ('the handoffs have an item with reason that contains "order"', True),
        ('the handoffs have an item with to "b"', True),
        ('the handoffs do not have an item with to "b" and outcome "made"', True),
        ("a handed off to b", False),
        ("the handoff from a to b was rejected", True),
    ],
)
def test_a_phrase_denies_rejected_handoffs_too(line: str, holds: bool, tmp_path: Path) -> None:
    assert (not _of_feature(line, tmp_path)) is holds


@pytest.mark.parametrize(
    "denial",
    [
        lambda run: partial({"to": "b"}) not in run.handoffs,
        lambda run: partial({"payload": {"card": 4111}}) not in run.handoffs,
        lambda run: partial({"reason": contains("order")}) not in run.handoffs,
    ],
)
def test_python_denies_rejected_handoffs_too(denial: Callable[[TurnOutcome], Any]) -> None:
    with Simulation(textwrap.dedent(PIPELINE)) as desk:
        turn = desk.say(
            "Hello", replies={"a": [{"handoff": {"to": "b", "payload": {"card": 4111}}}, "Sorry."]}
        )

        assert not denial(turn)
        assert turn.handoffs[0]["outcome"] == "rejected"
