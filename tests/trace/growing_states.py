"""Pipelines that add one or two entries to their state in every turn."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from simkit.spec.scenario.files import Library, Prepared, items_in

APPS: Final = Path(__file__).resolve().parents[1] / "apps"
NATIVE: Final = """
version: 1
pipeline: growing
channels: {log: {reducer: "growing_desk:joined"}}
agents: {desk: {function: "growing_desk:logged", writes: {log: "${run.output}"}}}
flow: {graph: {nodes: {desk: {start: true, exit: true}}, edges: []}}
limits: {turns: 100000}
"""


class Case(msgspec.Struct, frozen=True):
    """One pipeline whose state grows."""

    pipeline: str
    scenario: Mapping[str, Any]
    turn: Mapping[str, Any]


def _agent(shape: str) -> Case:
    app = {"path": [str(APPS)], "call": "ask"}
    return Case(f"growing_desk:of_{shape}", {"app": app}, {"replies": {"desk": "Yes."}})


CASES: Final[Mapping[str, Case]] = {
    "OpenAI Agents, a list": _agent("list"),
    "OpenAI Agents, a list in a mapping": _agent("nested"),
    "OpenAI Agents, keys": _agent("mapping"),
    "simkit.state, a list": Case(
        "growing_desk:Reporter", {"app": {"path": [str(APPS)], "call": "ask"}}, {}
    ),
    "declared, a reducer's list": Case("./growing.pipeline.yaml", {}, {}),
}


def prepared_for(case: Case, turns: int) -> Prepared:
    """Return the scenario of so many turns, ready to run."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "growing.pipeline.yaml").write_text(NATIVE)
        file = Path(folder) / "growing.scenario.yaml"
        lines = [{"user": f"Question {turn}", **case.turn} for turn in range(turns)]
        scenario = {"version": 1, "scenario": "growing", "pipeline": case.pipeline}
        file.write_text(json.dumps({**scenario, **case.scenario, "turns": lines}))
        (item,) = items_in(str(file))
        return Library().prepared(item)
