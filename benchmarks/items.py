"""A scenario of five turns as a pytest item, against a parametrised test that does nothing."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ITEMS = 300
TURN = """  - user: Where is my order?
    replies: {{triage: {{json: {{to: billing}}}}, billing: It is on its way.}}
    expect: {{agents: [triage, billing], reply: {{$contains: way}}}}
"""
SCENARIO = (
    "---\nversion: 1\nscenario: number {place}\npipeline: p.pipeline.yaml\nturns:\n" + TURN * 5
)
PIPELINE = """version: 1
pipeline: p
agents:
  triage: {instructions: Choose., context: [instructions, current_message]}
  billing: {instructions: Bill., context: [instructions, history, current_message]}
flow: {router: {decide: triage, to: "${run.output.to}"}}
"""
PLAIN = """import pytest

@pytest.mark.parametrize("place", range({count}))
def test_number(place):
    assert place >= 0
"""


def rows(rounds: int) -> list[list[object]]:
    """Returns the cost of one more item of each kind, and the ratio."""
    with tempfile.TemporaryDirectory() as folder:
        costs: dict[str, list[float]] = {"parametrised test": [], "scenario of 5 turns": []}
        for _ in range(rounds):
            for name, few, many in (
                ("parametrised test", _plain(folder, 1), _plain(folder, ITEMS)),
                ("scenario of 5 turns", _yaml(folder, 1), _yaml(folder, ITEMS)),
            ):
                costs[name].append((_cost(many) - _cost(few)) / (ITEMS - 1))
    medians = {name: statistics.median(found) for name, found in costs.items()}
    base = medians["parametrised test"]
    return [[name, f"{c * 1000:.2f} ms", f"{c / base:.1f}×"] for name, c in medians.items()]


def _plain(folder: str, count: int) -> Path:
    place = Path(folder) / f"plain{count}"
    place.mkdir(exist_ok=True)
    (place / "test_plain.py").write_text(PLAIN.format(count=count), encoding="utf-8")
    return place


def _yaml(folder: str, count: int) -> Path:
    place = Path(folder) / f"yaml{count}"
    place.mkdir(exist_ok=True)
    (place / "p.pipeline.yaml").write_text(PIPELINE, encoding="utf-8")
    text = "".join(SCENARIO.format(place=number) for number in range(count))
    (place / "many.scenario.yaml").write_text(text.removeprefix("---\n"), encoding="utf-8")
    return place


def _cost(folder: Path) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, "."],
        cwd=folder, check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
