"""What a restart costs: the first, which starts a server, later ones, and a new interpreter each.

Wall time of a restart alone, since the user waits for it; the kinds are interleaved.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import simkit
from benchmarks.suites import PIPELINE, SCENARIO_HEAD, TURN
from simkit.session.execution.starts import STARTS
from simkit.session.workers import application, worker
from simkit.spec.scenario.files import Prepared

RESTARTS = 5
FIRST, LATER, INTERPRETER = "the first restart", "each later one", "a new interpreter each"


def rows(rounds: int) -> list[list[object]]:
    """Returns the medians of a restart of each kind, and their ratios to a new interpreter."""
    times: dict[str, list[float]] = {FIRST: [], LATER: [], INTERPRETER: []}
    with tempfile.TemporaryDirectory() as folder, _inside(folder):
        Path("p.pipeline.yaml").write_text(PIPELINE, encoding="utf-8")
        turns = TURN + (TURN + "    restart: true\n") * RESTARTS
        text = SCENARIO_HEAD.format(place=1) + turns
        Path("one.scenario.yaml").write_text(text, encoding="utf-8")
        (scenario,) = simkit.load("one.scenario.yaml")
        for place in range(rounds):
            with patch.object(worker, "application_process", lambda *_: None):
                times[INTERPRETER] += _seconds(scenario)
            # A server of its own for each round.
            os.environ["SIMKIT_BENCHMARK_ROUND"] = str(place)
            first, *later = _seconds(scenario)
            times[FIRST].append(first)
            times[LATER] += later
    medians = {name: statistics.median(values) for name, values in times.items()}
    base = medians[INTERPRETER]
    kind = "copies" if application.can_fork() else "no copies on this system"
    table: list[list[object]] = [["", "wall", "to a new interpreter", kind]]
    return table + [[name, f"{t * 1000:.0f} ms", f"{t / base:.2f}×"] for name, t in medians.items()]


def _seconds(scenario: Prepared) -> list[float]:
    """Returns how long each restart of a scenario took."""
    seconds: list[float] = []
    with patch.object(STARTS, "note", lambda is_restart, took: seconds.append(took)):
        if not simkit.simulate(scenario).passed:
            raise RuntimeError("the scenario with restarts failed")
    return seconds


@contextmanager
def _inside(folder: str) -> Iterator[None]:
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
