"""A file replayed by itself, in a new process that has nothing of this one's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from simkit.capture.http.places import is_library


def replayed_alone(file: str) -> str:
    """Replay a scenario file in a new process; return what it says against it, empty if it holds.

    The process has no ``PYTHON…`` variable of this one, and does not import from its folder of
    work: what is found here by chance is not found there.
    """
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("PYTHON")
    }
    done = subprocess.run(
        [sys.executable, "-P", "-m", "simkit", "replay", "-q", file],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    return "" if done.returncode == 0 else f"{done.stdout}{done.stderr}".strip()


def root_of(pipeline: str) -> Path | None:
    """Return the folder from which a pipeline's module was imported; None for an installed one."""
    name = pipeline.partition(":")[0].partition(".")[0]
    module = sys.modules.get(name)
    files = [getattr(module, "__file__", None), *getattr(module, "__path__", ())]
    file = next((file_ for file_ in files if file_), None)
    if file is None or is_library(file):
        return None
    place = Path(file).resolve()
    return place.parent.parent if place.name == "__init__.py" else place.parent
