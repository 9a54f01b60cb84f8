"""Processes of Python that tests start: one that ends, with what it printed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.plugins import OTHERS_OFF

ROOT = Path(__file__).resolve().parent.parent


def run_python(
    *words: str, folder: str | Path = ".", **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run Python with arguments in a folder, with this tree and variables in its environment.

    Of pytest's plugins it has those that tests ask for.
    """
    return subprocess.run(
        [sys.executable, *words], cwd=folder, capture_output=True, text=True, check=False,
        timeout=300, encoding="utf-8",
        env={"PYTEST_ADDOPTS": OTHERS_OFF, **os.environ, "PYTHONPATH": str(ROOT), **variables},
    )  # fmt: skip
