"""How time and trace grow with the turns: the exponent is 1 where it is linear.

Beside a native pipeline's, the time of looks at an object of somebody's code that holds a growing
history. Each look reads all of it, so its exponent is nearer to 2: what counts is the price.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from benchmarks.conversations import TEXT, conversation
from benchmarks.measuring import medians
from simkit.adapters.plain_values import Snapshots
from simkit.session.simulate import simulate

SIZES = (1_000, 10_000)
LOOKED_AT = (200, 800)
LOOKS = 4
"""In a turn."""


def rows(rounds: int) -> list[list[object]]:
    """Returns one row per size, and one with the exponents, of a native pipeline and of looks."""
    for turns in SIZES:
        conversation(turns)
    sizes: dict[int, int] = {}

    def run(turns: int) -> None:
        outcome = simulate(conversation(turns))
        assert outcome.passed, outcome.judgement.findings[:1]
        sizes[turns] = len(outcome.trace.encoded())

    times = medians({str(turns): partial(run, turns) for turns in SIZES}, rounds)
    table: list[list[object]] = [
        [f"{turns} turns", f"{times[str(turns)] / turns * 1e6:.0f} µs per turn",
         f"{sizes[turns] / turns:.0f} bytes per turn"]
        for turns in SIZES
    ]  # fmt: skip
    small, large = SIZES
    ratio = math.log(large / small)
    time_exponent = math.log(times[str(large)] / times[str(small)]) / ratio
    size_exponent = math.log(sizes[large] / sizes[small]) / ratio
    table.append(["exponent", f"{time_exponent:.2f}", f"{size_exponent:.2f}"])
    return table + _looks(rounds)


def _looks(rounds: int) -> list[list[object]]:
    times = medians({str(turns): partial(_look, turns) for turns in LOOKED_AT}, rounds)
    table: list[list[object]] = [
        [f"state of code, {turns} turns", f"{times[str(turns)] / turns * 1e6:.0f} µs per turn", ""]
        for turns in LOOKED_AT
    ]
    small, large = LOOKED_AT
    exponent = math.log(times[str(large)] / times[str(small)]) / math.log(large / small)
    return [*table, ["exponent", f"{exponent:.2f}", ""]]


def _look(turns: int) -> None:
    snapshots = Snapshots()
    held: dict[str, list[Any]] = {"history": []}
    for turn in range(turns):
        for role in ("user", "assistant"):
            held["history"].append({"role": role, "content": f"{turn} {TEXT}"})
            for _ in range(LOOKS // 2):
                snapshots.changes("s1", held, "context")
