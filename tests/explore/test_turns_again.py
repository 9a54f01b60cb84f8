"""A turn that waits for the user runs again in a new process: as it ran, not by new choices."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
import yaml

from simkit.explore.choices import ChoiceLog, Plan
from simkit.explore.conversations import ExploredRun, converse
from simkit.session.simulate import simulate
from simkit.spec.scenario.files import Library
from simkit.spec.scenario.items import items_in
from tests.explore.searching import search
from tests.explore.test_simulations import subject_of

PIPELINE: Final = """
pipeline: asking
agents:
  first: {instructions: You are first., tools: [look]}
  left: {instructions: You are left.}
  right: {instructions: You are right.}
tools: {look: {args: {type: object, properties: {}}, returns: {enum: [a, b]}}}
flow:
  graph:
    nodes: {first: {start: true, role: split}, left: {exit: true}, right: {exit: true}}
    edges: [{from: first, to: left}, {from: first, to: right}]
"""
SIMULATION: Final = """
---
simulation: s
pipeline: asking
turns: 2
users: {ann: {says: [Hi.], answers: [Yes.]}}
models:
  first: [{calls: {look: {}}}, Done.]
  left: [{interrupt: Which?}, {interrupt: When?}, L]
  right: [R]
faults: {restart: 0.5}
"""


@pytest.mark.slow
def test_what_runs_again_is_what_ran_and_is_kept_once(tmp_path: Path) -> None:
    subject = subject_of(tmp_path, SIMULATION, pipeline=PIPELINE)
    records: list[ExploredRun] = []

    def run(choices: Plan | ChoiceLog) -> ExploredRun:
        records.append(converse(subject, choices))
        return records[-1]

    campaign = search(run, runs=80, turns_max=2, seed=0, rare=1)
    again = [r for r in records if len(r.turns) == 2 and r.turns[1].get("restart")]
    resumed = [r for r in again if "resume" in r.turns[1]]

    assert [str(each.cause) for each in campaign.discoveries] == []
    assert any("schedule" in r.turns[0] for r in resumed)
    assert any("tool_results" in r.turns[0] for r in resumed)
    for record in resumed[:: max(1, len(resumed) // 8)]:
        assert findings_of(record, tmp_path) == []


def findings_of(record: ExploredRun, folder: Path) -> list[str]:
    """Return what a scenario of the conversation finds: it says what each model answers."""
    data = {"scenario": "s", "pipeline": "asking", "turns": list(record.turns)}
    file = folder / "a.scenario.yaml"
    file.write_text(f"{PIPELINE}\n---\n{yaml.safe_dump(data)}", encoding="utf-8")
    library = Library()
    (item,) = items_in(str(file), library.cache)
    return [str(finding) for finding in simulate(library.prepared(item)).judgement.findings]
