"""How time and trace grow with the turns: the exponent is 1 where it is linear.

Beside a native pipeline's, the time of looks at an object of somebody's code that holds a growing
history. Each look compares all old items, because mappings can change in place; texts cannot.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from benchmarks.conversations import conversation
from benchmarks.graph import TEXT
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
    subjects = {
        f"{name}, {turns} turns": partial(_look, turns, made)
        for name, made in HISTORIES.items()
        for turns in LOOKED_AT
    }
    times = medians(subjects, rounds)
    table: list[list[object]] = []
    small, large = LOOKED_AT
    for name in HISTORIES:
        table += [
            [subject, f"{times[subject] / turns * 1e6:.0f} µs per turn", ""]
            for turns in LOOKED_AT
            for subject in (f"{name}, {turns} turns",)
        ]
        ratio = times[f"{name}, {large} turns"] / times[f"{name}, {small} turns"]
        growth = math.log(ratio) / math.log(large / small)
        table.append(["exponent", f"{growth:.2f}", ""])
    return table


def _look(turns: int, made: Callable[[str, str], Any]) -> None:
    snapshots = Snapshots()
    held: dict[str, list[Any]] = {"history": []}
    for turn in range(turns):
        for role in ("user", "assistant"):
            held["history"].append(made(role, f"{turn} {TEXT}"))
            for _ in range(LOOKS // 2):
                snapshots.changes("s1", held, "context")


HISTORIES: Final[Mapping[str, Callable[[str, str], Any]]] = {
    "state of code, messages": lambda role, text: {"role": role, "content": text},
    "state of code, texts": lambda role, text: text,
}
"""What makes the items of a history."""
