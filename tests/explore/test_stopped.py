"""A search that SIGTERM ends, such as a CI's time limit, says what it had found."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.explore.desks import BROKEN
from tests.processes import run_python

ROOT = Path(__file__).parents[2]
STOPS = """
import os, signal, sys
from simkit.cli import main
from simkit.explore import campaigns

converse, count = campaigns.converse, 0

def stop(*arguments, **options):
    global count
    count += 1
    if count == 60:
        os.kill(os.getpid(), signal.SIGTERM)
    return converse(*arguments, **options)

campaigns.converse = stop
sys.argv = ["simkit", "explore", "--runs", "100000", "."]
main()
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_what_was_found_until_the_signal_is_reported(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.pipeline.yaml").write_text(BROKEN, encoding="utf-8")
        text = f"scenario: {name}\npipeline: {name}.pipeline.yaml\nturns: [{{user: Hi.}}]\n"
        (tmp_path / f"{name}.scenario.yaml").write_text(text, encoding="utf-8")

    done = run_python("-c", STOPS, folder=tmp_path)

    assert done.returncode == 143, done.stderr
    assert done.stdout.count("stopped: ") == 1, "what comes after it is not begun"
    assert "FOUND" in done.stdout
