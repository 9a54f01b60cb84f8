"""A simulated model answers lines that are written in scenarios, in any order."""

from __future__ import annotations

from pathlib import Path

import pytest

from simkit.core.errors import SourceError
from simkit.explore.choices import Plan, TurnPlan
from simkit.explore.conversations import converse
from tests.explore.test_simulations import DESK, subject_of

LINES = """
---
scenario: ${column.order}
pipeline: desk
examples: [{order: A-1}, {order: B-2}]
turns:
  - user: Hi
    replies:
      desk: [{calls: {look: {order: "${column.order}"}}}, "$${order} is sent."]
      billing: Refunded.
---
scenario: short
pipeline: desk
turns: [{user: Hi, replies: {desk: Bye.}}]
"""


def lines_of(folder: Path, models: str) -> list[object]:
    pipeline = DESK.partition("---")[0]
    (folder / "lines.scenario.yaml").write_text(pipeline + LINES, encoding="utf-8")
    return [*subject_of(folder, f"models: {models}\n").lines["desk"]]


def test_the_lines_of_all_scenarios_and_rows_are_taken_once(tmp_path: Path) -> None:
    lines = lines_of(tmp_path, "{desk: {replies_of: lines.scenario.yaml}}")

    assert lines == [
        {"calls": {"look": {"order": "A-1"}}},
        "${order} is sent.",
        {"calls": {"look": {"order": "B-2"}}},
        "Bye.",
    ]


def test_a_literal_stays_one_beside_references(tmp_path: Path) -> None:
    persona = "users: {u: {says: 'My ${persona.a}', persona: {a: 1}}}\n"
    models = "models: {desk: {replies_of: lines.scenario.yaml}}\n"
    lines_of(tmp_path, "{desk: Hi}")

    lines = [*subject_of(tmp_path, persona + models).lines["desk"]]

    assert lines[1] == "${order} is sent."


def test_they_stand_beside_others_and_share_a_weight(tmp_path: Path) -> None:
    models = "{desk: [{anything: true}, {replies_of: lines.scenario.yaml, weight: 3}, Hm.]}"
    lines = lines_of(tmp_path, models)
    subject = subject_of(tmp_path, f"models: {models}\n")

    assert [lines[0], lines[-1], len(lines)] == [None, "Hm.", 6]
    assert [line.weight for line in subject.simulation.models["desk"]] == [1, 3, 3, 3, 3, 1]
    record = converse(subject, Plan((TurnPlan(answers=(10,)), TurnPlan(answers=(13,)))))
    assert [turn["replies"]["desk"] for turn in record.turns] == ["Bye.", "Hm."]


@pytest.mark.parametrize(
    ("line", "problem", "at"),
    [
        ("{desk: {replies_of: line.scenario.yaml}}", "there is no scenario file", ".replies_of"),
        ("{dsk: {replies_of: lines.scenario.yaml}}", "has no line of agent `dsk`", ".replies_of"),
        ("{desk: {replies_of: lines.scenario.yaml, wait: 2}}", "unknown key `wait`", ".wait"),
    ],
)
def test_a_mistake_is_told_at_its_place(line: str, problem: str, at: str, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=problem) as raised:
        lines_of(tmp_path, line)

    assert raised.value.at.endswith(at)
    assert raised.value.where.startswith(f"{tmp_path}/desk.simulation.yaml:")
