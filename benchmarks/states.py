"""What state that grows costs: the trace's bytes, memory, function calls, and how they grow.

Each pipeline adds one or two entries to its state in every turn, and claims the last one.
"""

from __future__ import annotations

import gc
import json
import math
import os
import sys
import tempfile
import tracemalloc
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from benchmarks.measuring import calls
from simkit.checks.judge import Outcome
from simkit.session.simulate import simulate
from simkit.spec.scenario.files import Library, Prepared, items_in

APPS: Final = Path(__file__).parent / "apps"
SIZES: Final = (200, 800)
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


def rows(_: int = 1) -> list[list[object]]:
    """Return the table's rows: bytes, peak memory and calls of both sizes, and their exponents."""
    os.environ.setdefault("OPENAI_API_KEY", "none")
    sys.path.insert(0, str(APPS))
    ratio = math.log(SIZES[1] / SIZES[0])
    table: list[list[object]] = [["", "turns", "trace", "its updates", "peak memory", "calls"]]
    try:
        for name, case in CASES.items():
            figures = []
            for turns in SIZES:
                figures.append(measure(case, turns))
                *sizes, count = figures[-1]
                table.append([name, turns, *(f"{size / 1e6:.2f} MB" for size in sizes), count])
            growth = [
                math.log(large / small) / ratio for small, large in zip(*figures, strict=True)
            ]
            table.append([name, "exponent", *(f"{exponent:.2f}" for exponent in growth)])
    finally:
        sys.path.remove(str(APPS))
    return table


def measure(case: Case, turns: int) -> tuple[int, int, int, int]:
    """Return the bytes of a trace and of its updates, those of the run's memory, and its calls."""
    prepared = prepared_for(case, 2)
    _simulated(prepared)  # At its first run a framework reads its types.
    prepared = prepared_for(case, turns)
    gc.collect()
    tracemalloc.start()
    try:
        outcome = _simulated(prepared)
        memory = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    lines = outcome.trace.lines()
    of_updates = sum(len(line) for line in lines if b'"StateUpdated"' in line)
    return sum(map(len, lines)), of_updates, memory, calls(lambda: _simulated(prepared))


def _simulated(prepared: Prepared) -> Outcome:
    outcome = simulate(prepared)
    assert outcome.passed, outcome.judgement.findings[:1]
    return outcome


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
