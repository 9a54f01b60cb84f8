"""What starting costs: `simkit --help`, and `simkit replay` of one small scenario.

CPU times of a child, and the number of modules that it imports, which no other load changes.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.suites import PIPELINE, SCENARIO_HEAD, TURN

COMMANDS = {
    "python -c pass": ["-c", "pass"],
    'python -c "import click"': ["-c", "import click"],
    'python -c "import simkit"': ["-c", "import simkit"],
    "simkit --help": ["-m", "simkit", "--help"],
    "simkit replay, one scenario": ["-m", "simkit", "replay", "one.scenario.yaml"],
}
HELP = "simkit --help"


def rows(rounds: int) -> list[list[object]]:
    """Returns each command's median, its ratios to importing click and to help, and its modules."""
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "p.pipeline.yaml").write_text(PIPELINE, encoding="utf-8")
        scenario = SCENARIO_HEAD.format(place=1) + TURN
        (Path(folder) / "one.scenario.yaml").write_text(scenario, encoding="utf-8")
        modules = {name: _modules(words, folder) for name, words in COMMANDS.items()}
        for _ in range(rounds):
            for name, words in COMMANDS.items():
                before = _children()
                _run(words, folder)
                times[name].append(_children() - before)
    medians = {name: statistics.median(found) for name, found in times.items()}
    base, help_time = medians['python -c "import click"'], medians[HELP]
    table: list[list[object]] = [["", "CPU", "to click", "to --help", "modules"]]
    for name, t in medians.items():
        ratios = (f"{t / base:.2f}×", f"{t / help_time:.2f}×")
        table.append([name, f"{t * 1000:.0f} ms", *ratios, modules[name]])
    return table


def _run(words: list[str], folder: str) -> str:
    """Runs Python in a folder, and returns what it wrote to stderr."""
    return subprocess.run(
        [sys.executable, *words],
        check=True, cwd=folder, env=os.environ, text=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    ).stderr  # fmt: skip


def _modules(words: list[str], folder: str) -> int:
    """Returns the number of modules that a command imports."""
    return _run(["-X", "importtime", *words], folder).count("import time:") - 1


def _children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
