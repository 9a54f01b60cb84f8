"""`simkit replay -j 2` against one process, by the number of scenarios.

Wall time shows how busy the machine is, so the critical path is measured beside it: the CPU time of
the first process, and half of that of its two copies, which is the wall time on two free cores.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.suites import PIPELINE, SCENARIO_HEAD, TURN

COUNTS = (25, 50, 100, 500)
PER_FILE = 25
PROCESSES = 2
_REPLAY = """
import resource, sys, time
from simkit.cli import main
try:
    main(["replay", "-q", "-j", sys.argv[1], "."])
except SystemExit as end:
    assert not end.code, end.code
children = resource.getrusage(resource.RUSAGE_CHILDREN)
print(time.process_time(), children.ru_utime + children.ru_stime, file=sys.stderr)
"""


def rows(rounds: int) -> list[list[object]]:
    """Returns for each number of scenarios how many times faster two processes are."""
    table: list[list[object]] = [["scenarios", "one: CPU", "-j 2: first + copies", "path", "wall"]]
    for count in COUNTS:
        with tempfile.TemporaryDirectory() as folder:
            _write(Path(folder), count)
            _seconds(folder, 1)
            pairs = [(_seconds(folder, 1), _seconds(folder, PROCESSES)) for _ in range(rounds)]
        one = statistics.median(sum(alone[:2]) for alone, _ in pairs)
        first = statistics.median(both[0] for _, both in pairs)
        copies = statistics.median(both[1] for _, both in pairs)
        walls = [statistics.median(pair[place][2] for pair in pairs) for place in (0, 1)]
        table.append(
            [
                count,
                f"{one:.2f} s",
                f"{first:.2f} + {copies:.2f} s",
                f"{one / (first + copies / PROCESSES):.2f}×",
                f"{walls[0] / walls[1]:.2f}×",
            ]
        )
    return table


def _write(folder: Path, count: int) -> None:
    (folder / "p.pipeline.yaml").write_text(PIPELINE, encoding="utf-8")
    for start in range(0, count, PER_FILE):
        places = range(start, min(count, start + PER_FILE))
        texts = [SCENARIO_HEAD.format(place=place) + TURN * 5 for place in places]
        (folder / f"{start}.scenario.yaml").write_text("---\n".join(texts), encoding="utf-8")


def _seconds(folder: str, processes: int) -> tuple[float, float, float]:
    """Returns CPU seconds of the command's process and of its copies, and wall seconds."""
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", _REPLAY, str(processes)],
        cwd=folder, env=os.environ, text=True, check=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    first, copies = map(float, done.stderr.split())
    return first, copies, time.perf_counter() - started
