"""What a line denies: of a misspelt name it would hold of every story, else it is of all named."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from simkit import Simulation, SourceError
from simkit.checks.findings import Finding
from simkit.matchers import contains, partial
from simkit.session.simulation import TurnOutcome
from tests.bdd.telling import findings_of
from tests.session.simulation.test_asking import PIPELINE

FEATURE = """\
Feature: Support
  Scenario: Hello
    Given the pipeline "support"
    When the user says "Hello"
    And the triage replies "Hi."
    Then {line}
"""
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
    return findings_of(FEATURE.format(line=line), folder)


@pytest.mark.parametrize(("line", "target"), LINES)
def test_a_misspelt_name_in_a_line_is_told_with_the_near_one(
    line: str, target: str, tmp_path: Path
) -> None:
    with pytest.raises(SourceError) as caught:
        tell(line, tmp_path)

    assert (Path(caught.value.where).name, caught.value.near) == ("desk.feature:6:5", target)


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


DESK = """\
version: 1
pipeline: desk
agents:
  a: {instructions: You greet., handoffs: [b]}
  b: {instructions: You pay.}
contracts: [{from: a, to: b, payload: {type: object, required: [order]}}]
flow: {handoffs: {start: a}}
"""
REJECTED = """\
Feature: Desk
  Scenario: Hello
    Given the pipeline "desk.pipeline.yaml"
    When the user says "Hello"
    And a hands off to b with card 4111
    And a replies "Sorry."
    Then %s
"""


def _of_feature(line: str, folder: Path) -> Sequence[Finding]:
    """What is found of a story whose last line is given."""
    (folder / "desk.pipeline.yaml").write_text(DESK, encoding="utf-8")
    return findings_of(REJECTED % line, folder)


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
    with Simulation(textwrap.dedent(DESK)) as desk:
        turn = desk.say(
            "Hello", replies={"a": [{"handoff": {"to": "b", "payload": {"card": 4111}}}, "Sorry."]}
        )

        assert not denial(turn)
        assert turn.handoffs[0]["outcome"] == "rejected"
