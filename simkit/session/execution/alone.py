"""A file replayed alone, in a new process that inherits nothing from this one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from simkit.capture.http.places import is_library


def replayed_alone(file: str) -> str:
    """Replay a scenario file in a new process; return the error, empty if it holds.

    The process has no ``PYTHON…`` variable of this one, and does not import from its working
    directory, so that it finds only what a user would have.
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
