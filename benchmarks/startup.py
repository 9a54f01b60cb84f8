"""What starting costs: `simkit --help` against importing click, in CPU time of a child."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys

COMMANDS = {
    "python -c pass": ["-c", "pass"],
    'python -c "import click"': ["-c", "import click"],
    'python -c "import simkit"': ["-c", "import simkit"],
    "simkit --help": ["-m", "simkit", "--help"],
}


def rows(rounds: int) -> list[list[object]]:
    """Returns the median CPU time of each command, and its ratio to importing click."""
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(rounds):
        for name, words in COMMANDS.items():
            before = _children()
            subprocess.run(
                [sys.executable, *words], check=True, stdout=subprocess.DEVNULL, env=os.environ
            )
            times[name].append(_children() - before)
    medians = {name: statistics.median(found) for name, found in times.items()}
    base = medians['python -c "import click"']
    return [[name, f"{t * 1000:.0f} ms", f"{t / base:.2f}×"] for name, t in medians.items()]


def _children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
