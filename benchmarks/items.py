"""What one more test costs: a scenario as a pytest item, and the same test as its peers write it.

Each suite runs once with one test and once with many, in a process of its own. The difference is
divided among the tests, and so holds nothing of what starting costs, which stands beside it.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.service import service
from benchmarks.suites import BASE, SCENARIO, Suite, suites

ITEMS = 300


def rows(rounds: int) -> list[list[object]]:
    """Returns what a test of each kind costs, and its ratios."""
    with service() as url:
        found = suites(url)
        return table(found, costs(found, ITEMS, rounds))


def costs(
    found: Sequence[Suite], count: int, rounds: int, *options: str
) -> dict[str, tuple[float, float]]:
    """Returns medians in CPU seconds: one more test of each suite, and pytest with just one."""
    able = [suite for suite in found if not suite.obstacle()]
    first: dict[str, list[float]] = {suite.name: [] for suite in able}
    more: dict[str, list[float]] = {suite.name: [] for suite in able}
    with tempfile.TemporaryDirectory() as place:
        for suite in able:
            suite.write(Path(place, suite.name, "one"), 1)
            suite.write(Path(place, suite.name, "many"), count)
        for _ in range(rounds):
            for suite in able:
                one = suite.seconds(Path(place, suite.name, "one"), *options)
                many = suite.seconds(Path(place, suite.name, "many"), *options)
                first[suite.name].append(one)
                more[suite.name].append((many - one) / (count - 1))
    return {name: (statistics.median(more[name]), statistics.median(first[name])) for name in first}


def table(found: Sequence[Suite], medians: Mapping[str, tuple[float, float]]) -> list[list[object]]:
    """Returns a row for each suite: its costs and two ratios, or why it has none."""
    rows: list[list[object]] = [["", "one more", "to parametrised", "to a scenario", "just one"]]
    for suite in found:
        if suite.name not in medians:
            rows.append([suite.name, suite.obstacle()])
            continue
        more, first = medians[suite.name]
        ratios = [f"{more / medians[name][0]:.2f}×" for name in (BASE, SCENARIO)]
        rows.append([suite.name, f"{more * 1000:.2f} ms", *ratios, f"{first * 1000:.0f} ms"])
    return rows
