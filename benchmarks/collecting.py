"""Collecting 1,000 scenarios: against PyYAML's C loader, which only parses them, and in pytest.

The second part is `pytest --collect-only` over the suites of `items`, each in a process of its own.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from benchmarks.items import costs, table
from benchmarks.measuring import medians
from benchmarks.suites import SCENARIO as SCENARIO_SUITE
from benchmarks.suites import Suite, suites
from simkit.spec.scenario.files import items_in

COUNT = 1_000
NOWHERE = "http://127.0.0.1:9/chat"
"""Collecting asks no service."""
SCENARIO = """version: 1
scenario: number {place}
pipeline: support
turns:
  - user: Where is my order {place}?
    replies: {{triage: {{json: {{to: billing}}}}, billing: It is on its way.}}
    expect: {{agents: [triage, billing], reply: {{$contains: way}}}}
  - user: Thanks
    replies: {{triage: {{json: {{to: billing}}}}, billing: You are welcome.}}
    expect: {{agents: [triage, billing]}}
"""


def rows(rounds: int) -> list[list[object]]:
    """Returns the medians and the ratio to parsing alone, then what collecting in pytest costs."""
    found = suites(NOWHERE)
    collected = costs(found, COUNT, rounds, "--collect-only")
    return [*_parsing(rounds), *table(found, collected), _in_pytest(found, collected, rounds)]


def _in_pytest(
    found: Sequence[Suite], collected: Mapping[str, tuple[float, float]], rounds: int
) -> list[object]:
    """Returns the ratio of one more scenario in pytest to PyYAML's C parse of the same scenario."""
    (suite,) = (suite for suite in found if suite.name == SCENARIO_SUITE)
    text = suite.files(COUNT)["many.scenario.yaml"]
    parse = medians({"": lambda: list(yaml.load_all(text, yaml.CSafeLoader))}, rounds)[""] / COUNT
    more, _ = collected[suite.name]
    return ["simkit in pytest, to PyYAML", f"{more * 1000:.2f} ms", f"{more / parse:.2f}×"]


def _parsing(rounds: int) -> list[list[object]]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "many.scenario.yaml"
        text = "---\n".join(SCENARIO.format(place=place) for place in range(COUNT))
        file.write_text(text, encoding="utf-8")

        def parse() -> None:
            list(yaml.load_all(file.read_text(encoding="utf-8"), yaml.CSafeLoader))

        times = medians({"PyYAML": parse, "simkit": lambda: items_in(str(file))}, rounds)
    base = times["PyYAML"]
    return [[name, f"{t * 1000:.0f} ms", f"{t / base:.2f}×"] for name, t in times.items()]
