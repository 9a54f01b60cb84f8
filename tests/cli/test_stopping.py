"""`simkit replay` that is stopped ends its processes, and shows what failed until then."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

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
def wait_for(message):
    wait()
"""


FAILS: Final = SLOW.format(function="price", name="fails")
WAITS_LONG: Final = SLOW.format(function="wait", name="waits")
ANEW: Final = WAITS_LONG.replace(
    "turns: [", "turns: [{user: first, replies: {a: hello}}, "
).replace("user: hi,", "user: hi, restart: true,")
"""It waits in a new process, that of its second turn."""
RECORDED: Final = """\
version: 1
scenario: waits
pipeline: waits:wait_for
app: {path: [.]}
cassette: talk.cassette.jsonl
turns: [{user: hi}]
"""


class Running:
    """A command in a process group of its own, whose user code waits for ever."""

    def __init__(self, folder: Path, *command: str) -> None:
        self._folder = folder
        self._process = subprocess.Popen(
            [sys.executable, "-m", *command],
            cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)}, process_group=0,
        )  # fmt: skip

    def stopped(self, number: signal.Signals) -> tuple[int, str]:
        """Sends a signal once user code waits; returns the exit code, and all that was said."""
        while self._process.poll() is None and not [*self._folder.glob("started-*")]:
            time.sleep(0.05)
        self._process.send_signal(number)
        reply, _ = self._process.communicate(
            timeout=60
        )  # It ends with the last who holds the pipe.
        for started in self._folder.glob("started-*"):
            while _is_there(int(started.name.rpartition("-")[2])):
                time.sleep(0.05)
        return self._process.returncode, reply


def _is_there(process: int) -> bool:
    with contextlib.suppress(OSError):
        os.kill(process, 0)
        # What has ended and was not asked how is there in name only.
        stat = Path(f"/proc/{process}/stat")
        return not (stat.exists() and stat.read_text().rpartition(")")[2].split()[0] == "Z")
    return False


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("processes", ["1", "2"])
@pytest.mark.parametrize("second", [WAITS_LONG, ANEW], ids=["here", "anew"])
def test_a_replay_that_is_stopped_leaves_nobody_behind(
    tmp_path: Path, number: signal.Signals, processes: str, second: str
) -> None:
    (tmp_path / "waits.py").write_text(WAITS)
    (tmp_path / "a.scenario.yaml").write_text(FAILS)
    (tmp_path / "b.scenario.yaml").write_text(second)

    code, reply = Running(
        tmp_path, "tests.cli.in_processes", "replay", "-j", processes, "."
    ).stopped(number)

    assert code == 128 + number
    # Whether the first one's end was heard of before the signal is the system's to say.
    assert ("stopped after 1 of 2" in reply) == ("a.scenario.yaml::fails" in reply)
    text = "what" if "a.scenario.yaml::fails" in reply else "nothing"
    assert f"{text} failed until then" in reply
    if processes == "1":
        assert "a.scenario.yaml::fails" in reply
    assert [*(tmp_path / ".simkit" / "runs").iterdir()] == []


@pytest.mark.slow
def test_a_recording_that_is_stopped_writes_no_half_cassette(tmp_path: Path) -> None:
    (tmp_path / "waits.py").write_text(WAITS)
    (tmp_path / "b.scenario.yaml").write_text(RECORDED)

    code, reply = Running(tmp_path, "simkit", "record", ".").stopped(signal.SIGTERM)

    assert (code, "Traceback" in reply) == (143, False)
    assert [*tmp_path.glob("talk*")] == []


@pytest.mark.slow
@pytest.mark.parametrize("processes", ["0", "2"])
def test_a_test_run_that_is_stopped_leaves_nobody_behind(tmp_path: Path, processes: str) -> None:
    (tmp_path / "waits.py").write_text(WAITS)
    (tmp_path / "a.scenario.yaml").write_text(FAILS)
    (tmp_path / "b.scenario.yaml").write_text(WAITS_LONG)
    command = ("pytest", "-p", "no:randomly", "-n", processes, "--junitxml=report.xml", ".")

    code, reply = Running(tmp_path, *command).stopped(signal.SIGTERM)

    assert code == 143
    assert "Terminated" in reply
    if processes == "0":
        assert "reply does not match" in reply
    assert "</testsuites>" in (tmp_path / "report.xml").read_text()
