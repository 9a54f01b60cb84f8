"""How time and trace grow from 1,000 to 10,000 turns: the exponent is 1 where it is linear."""

from __future__ import annotations

import math
from functools import partial

from benchmarks.conversations import conversation
from benchmarks.measuring import medians
from simkit.session import simulate

SIZES = (1_000, 10_000)


def rows(rounds: int) -> list[list[object]]:
    """Returns one row per size, and one with the exponents."""
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
    return table
