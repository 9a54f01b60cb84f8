"""How everything here is measured: CPU time, interleaved, median of several rounds."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping


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
