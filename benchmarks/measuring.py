"""How everything here is measured: CPU time, interleaved, median of several rounds."""

from __future__ import annotations

import gc
import resource
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path


def medians(subjects: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Returns the median CPU seconds of each subject, run in turns so that load hits all alike."""
    times: dict[str, list[float]] = {name: [] for name in subjects}
    for _ in range(rounds):
        for name, subject in subjects.items():
            gc.collect()
            before = time.process_time()
            subject()
            times[name].append(time.process_time() - before)
    return {name: statistics.median(found) for name, found in times.items()}


def child_seconds(command: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> float:
    """Returns the CPU seconds of a process and its children; RuntimeError where it fails."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if found.returncode:
        # The end of what was said: a suite of hundreds that fail alike says the same each time.
        raise RuntimeError(f"{command} failed in {cwd}:\n{(found.stdout + found.stderr)[-2_000:]}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
