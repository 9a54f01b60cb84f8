"""`simkit replay` that is stopped ends its processes, and shows what failed until then."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.conftest import ROOT

SLOW = """\
version: 1
pipeline: shop
agents: {{a: {{instructions: Say., tools: [price]}}}}
tools: {{price: {{function: "waits:{function}"}}}}
flow: {{handoffs: {{start: a}}}}
---
version: 1
scenario: {name}
pipeline: shop
turns: [{{user: hi, replies: {{a: [calls: {{price: {{}}}}, done]}}, expect: {{reply: other}}}}]
"""
WAITS = """
import signal
def price():
    return 3
def wait():
    import os
    open(f"started-{os.getpid()}", "w").close()
    signal.pause()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code", "processes"),
    [(signal.SIGTERM, {143}, "2"), (signal.SIGINT, {130}, "2"), (signal.SIGINT, {130}, "1")],
)
def test_a_replay_that_is_stopped_leaves_nobody_behind(
    tmp_path: Path, number: signal.Signals, code: set[int], processes: str
) -> None:
    (tmp_path / "waits.py").write_text(WAITS)
    (tmp_path / "a.scenario.yaml").write_text(SLOW.format(function="price", name="fails"))
    (tmp_path / "b.scenario.yaml").write_text(SLOW.format(function="wait", name="waits"))
    running = subprocess.Popen(
        [sys.executable, "-m", "simkit", "replay", "-j", processes, "."],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, process_group=0,
    )  # fmt: skip
    while running.poll() is None and not [*tmp_path.glob("started-*")]:
        time.sleep(0.05)

    running.send_signal(number)
    said, _ = running.communicate(timeout=30)  # It ends with the last who holds the pipe.

    assert running.returncode in code
    if code == {130}:
        # Whether the first one's end was heard of before the signal is the system's to say.
        assert ("stopped after 1 of 2" in said) == ("a.scenario.yaml::fails" in said)
        assert "what failed until then:" in said
    if processes == "1":
        assert "stopped after 1 of 2" in said
        assert "a.scenario.yaml::fails" in said
