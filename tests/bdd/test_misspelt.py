"""What a line denies of a name that leads nowhere is refused: it would hold of every story."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from pytest_bdd.parser import FeatureParser

from simkit import SourceError
from simkit.bdd.assembling import FeatureText, Places
from simkit.bdd.story import Story
from simkit.bdd.vocabulary import VOCABULARIES
from simkit.checks.findings import Finding
from simkit.spec.scenario.files import Library
from tests.session.simulation.test_asking import PIPELINE

FEATURE = """\
Feature: Support
  Scenario: Hello
    Given the pipeline "support"
    When the user says "Hello"
    And the triage replies "Hi."
    Then {line}
"""
BY_KEYWORD = {vocabulary.keyword.lower(): vocabulary for vocabulary in VOCABULARIES}
LINES = [
    ('the context of triag excludes "zzz"', "triage"),
    ("the context of triage excludes messages from refuns", "refunds"),
    ("the context of triage has no section histry", "history"),
    ("the context of triage has a section histry", "history"),
    ("the context of triage has the sections instructions and histry", "history"),
    ("the histry of triage is empty", "history"),
    ("the histry section in the context of triage is empty", "history"),
    ("the history of triag is empty", "triage"),
    ('the tools in the context of triage do not have an item that is "lok_up"', "look_up"),
    ('the handoffs in the context of triage do not have an item that is "refuns"', "refunds"),
    ("the context of triag offers no tools", "triage"),
    ("at most 90 % of the context of triage comes from refuns", "refunds"),
    ("the shares in the context of triage have refuns that is at most 0.5", "refunds"),
    (
        'what was left out of the context of triage does not have an item with channel "nots"',
        "notes",
    ),
    ('what was left out of the context of triage does not have an item with by "maxx"', "max"),
    ("nothing was dropped from the context of triag", "triage"),
    ("triage received no nots", "notes"),
    ("triag received no notes", "triage"),
    ("triage wrote no nots", "notes"),
    ("what triage received does not have nots 1", "notes"),
    ("what triage wrote has no nots", "notes"),
    ("refuns did not run", "refunds"),
    ("refuns called no tool", "refunds"),
    ('the tool calls do not have an item with tool "pai"', "pay"),
    ('the tool calls do not have an item with tol "pay"', "tool"),
    ('the handoffs do not have an item with to "refuns"', "refunds"),
    ('the handoffs do not have an item with mode "transfr"', "transfer"),
    ("refuns was not asked", "refunds"),
    ("refuns was asked 0 times", "refunds"),
    ("the state has no nots", "notes"),
    ("the state does not have nots that is 1", "notes"),
    ("the event ToolCaled did not happen", "ToolCalled"),
    ('the events do not have an item with kind "ToolCaled"', "ToolCalled"),
    ('the log has no EROR record whose message contains "x"', "ERROR"),
    ("every context excludes messages from refuns", "refunds"),
    ("what refuns wrote is absent", "refunds"),
    ("the reply of refuns is absent", "refunds"),
    ("the input of refuns is absent", "refunds"),
]


def tell(line: str, folder: Path) -> Sequence[Finding]:
    """Tells a story whose last line is given; returns what does not hold in it."""
    (folder / "support.pipeline.yaml").write_text(PIPELINE, encoding="utf-8")
    file = folder / "desk.feature"
    file.write_text(FEATURE.format(line=line), encoding="utf-8")
    (scenario,) = FeatureParser(str(folder), file.name).parse().scenarios.values()
    story = Story(Library(), root=folder, folders=[folder])
    story.begin(
        Places(FeatureText("desk.feature", file.read_text(encoding="utf-8")), (2, 2)), "Hello"
    )
    for step in scenario.steps:
        reply = BY_KEYWORD[step.type].line(step.name)
        assert reply is not None, step.name
        story.lines = (step.line_number, step.line_number)
        story.last_turn, story.text, story.table = reply.owner, step.docstring, None
        reply.step.tell(story, reply.holes)
    return story.end().findings


@pytest.mark.parametrize(("line", "target"), LINES)
def test_a_misspelt_name_in_a_line_is_told_with_the_near_one(
    line: str, target: str, tmp_path: Path
) -> None:
    with pytest.raises(SourceError) as caught:
        tell(line, tmp_path)

    assert (caught.value.where, caught.value.near) == ("desk.feature:6:5", target)


@pytest.mark.parametrize(
    ("line", "finding"),
    [
        ('the context of triage excludes "zzz"', ""),
        ("the context of triage excludes messages from refunds", ""),
        ("the context of triage has no section history", ""),
        ("refunds did not run", ""),
        ("refunds called no tool", ""),
        ("the event ToolCalled did not happen", ""),
        ("triage did not run", "agents does not match"),
    ],
)
def test_the_same_lines_with_names_that_there_are_are_judged(
    line: str, finding: str, tmp_path: Path
) -> None:
    findings = tell(line, tmp_path)

    assert [each.what for each in findings] == ([finding] if finding else [])
