"""The names of the files in which failed live runs are kept."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from simkit.session.live.trials import ReplayFiles
from simkit.spec.scenario.items import SCENARIO_SUFFIX

STEM_MAX: Final = 60
"""The longest name of a kept file in characters, without its number and endings."""
STEM_BYTES_MAX: Final = 150
"""The same in bytes of UTF-8: file systems take 255, and a file is first written beside its place
under a longer name."""


def unique_stems(names: Sequence[str]) -> list[str]:
    """Return a name for the files of each scenario, all different."""
    stems: list[str] = []
    for scenario_name in names:
        name = re.sub(r"[^\w-]+", "-", scenario_name.lower()).strip("-")[:STEM_MAX]
        stem = name.encode()[:STEM_BYTES_MAX].decode(errors="ignore") or "scenario"
        count = 2
        unique = stem
        while unique in stems:
            unique, count = f"{stem}-{count}", count + 1
        stems.append(unique)
    return stems


def free_files(folder: Path, stem: str) -> ReplayFiles:
    """Return names of files that do not exist yet."""
    count, unique = 2, stem
    while True:
        scenario = folder / f"{unique}{SCENARIO_SUFFIX}"
        cassette = folder / "cassettes" / f"{unique}.yaml"
        if not os.path.lexists(scenario) and not os.path.lexists(cassette):
            return ReplayFiles(scenario, cassette)
        unique, count = f"{stem}-{count}", count + 1
