"""The check of a first test: it is replayed in a new process, which inherits nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from simkit.capture.http.places import is_library
from simkit.spec.scenario.code_names import file_of


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
    return f"{done.stdout}{done.stderr}".strip() if done.returncode else ""


def root_of(pipeline: str, folders: Iterable[Path]) -> Path | None:
    """Return the folder from which a pipeline's module is imported; None for an installed one.

    It is looked for in ``folders`` first.
    """
    module = pipeline.partition(":")[0]
    file = file_of(module, [*map(str, folders), *sys.path])
    if file is None or is_library(str(file)):
        return None
    package = file.parent if file.name == "__init__.py" else file
    return package.resolve().parents[module.count(".")]
