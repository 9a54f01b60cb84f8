"""`simkit replay --watch`, as a process of its own: what is edited runs again, and nothing else."""

from __future__ import annotations

import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from simkit.core.file_reads import FileReads, stamp
from tests.cli.conftest import ROOT
from tests.cli.projects import ECHO, GOOD, Done, write

DEADLINE_S = 60
"""For one round, on a machine that is busy with other things."""
PYTHON = """\
version: 1
pipeline: shop
agents: {a: {instructions: Say., tools: [price]}}
tools: {price: {function: "shop:price"}}
flow: {handoffs: {start: a}}
---
version: 1
scenario: the price
pipeline: shop
turns: [{user: hi, replies: {a: [calls: {price: {}}, done]}, expect: {tool_calls: [{result: 3}]}}]
"""


class Watch:
    """A running watch; what it prints is read line by line."""

    def __init__(self, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "simkit", "replay", "--watch", *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, encoding="utf-8",
            env={**os.environ, "PYTHONPATH": str(ROOT)}, process_group=0,
        )  # fmt: skip
        self._lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.printed: list[str] = []

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line.rstrip("\n"))

    def round(self) -> str:
        """The line that ends the next round, without its time."""
        end = time.monotonic() + DEADLINE_S
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"no round in {DEADLINE_S} s: {self.printed}") from None
            self.printed.append(line)
            if re.search(r"\(\d+\.\d\d s\)", line):
                return re.sub(r" \(\d+\.\d\d s\)", "", line)

    def stop(self, how: int = signal.SIGINT) -> int:
        """Ends it, as Ctrl-C does: every process of its group is told."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, how)
        code = self._process.wait(DEADLINE_S)
        self._reader.join(DEADLINE_S)
        assert self._process.stdout is not None
        self._process.stdout.close()
        return code


@pytest.fixture
def watch(project: Path) -> Iterator[Callable[..., Watch]]:
    """Starts watches in the project, and ends them."""
    started: list[Watch] = []

    def start(*arguments: str) -> Watch:
        started.append(Watch(*arguments))
        return started[-1]

    yield start
    for item in started:
        item.stop(signal.SIGKILL)


@pytest.mark.slow
def test_what_is_edited_runs_again_until_ctrl_c(watch: Callable[..., Watch]) -> None:
    write("scenarios/other.scenario.yaml", ECHO + GOOD)
    watching = watch()
    rounds = [watching.round()]

    write("scenarios/other.scenario.yaml", ECHO + GOOD.replace("{reply: hello}", "{reply: bye}"))
    rounds.append(watching.round())
    printed = list(watching.printed)
    write("scenarios/other.scenario.yaml", ECHO + GOOD.replace("it holds", "it holds again"))
    rounds.append(watching.round())
    write("scenarios/new.scenario.yaml", ECHO + GOOD)
    rounds.append(watching.round())
    Path("scenarios/other.scenario.yaml").unlink()
    rounds.append(watching.round())

    other = "scenarios/other.scenario.yaml changed"
    assert rounds == [
        "4 scenarios: 4 held; watching 2 files, Ctrl-C stops",
        f"{other}, 1 scenario ran; all 4 scenarios: 3 held, 1 failed",
        f"{other}, 1 scenario ran; all 4 scenarios: 4 held",
        "scenarios/new.scenario.yaml changed, 1 scenario ran; all 5 scenarios: 5 held",
        f"{other}, 0 scenarios ran; all 4 scenarios: 4 held",
    ]
    assert '  wanted "bye", found "hello"' in printed
    assert watching.stop() == 0


@pytest.mark.slow
def test_every_file_that_a_scenario_reads_belongs_to_it(
    project: Path, watch: Callable[..., Watch]
) -> None:
    write("shop.py", "from prices import PRICE\n\ndef price():\n    return PRICE\n")
    write("prices.py", "PRICE = int(open('price.txt').read())\n")
    write("price.txt", "3")
    write("shop.scenario.yaml", PYTHON)
    pipeline, scenario = ECHO, GOOD.removeprefix("---\n").replace("echo", "echo.pipeline.yaml")
    write("echo.pipeline.yaml", pipeline)
    write("shared/used.yaml", "version: 1\ngiven: {}\n")
    write("echo.scenario.yaml", scenario.replace("turns:", "use: [shared/used.yaml]\nturns:"))
    watching = watch(".")
    rounds = [watching.round()]

    for name, text in (
        ("price.txt", "3\n"),
        ("prices.py", "PRICE = 1 + 2\n"),
        ("shop.py", "def price(:\n"),
        ("shop.py", "def price():\n    return 3\n"),
        ("echo.pipeline.yaml", f"{pipeline}\n"),
        ("shared/used.yaml", "version: 1\n"),
    ):
        write(name, text)
        rounds.append(watching.round())
    # Nothing reads it any more: no round comes of it.
    write("prices.py", "\n")
    write("echo.pipeline.yaml", pipeline)
    rounds.append(watching.round())

    reply, value = "changed, 1 scenario ran; all 5 scenarios", "5 held"
    assert rounds == [
        "5 scenarios: 5 held; watching 8 files, Ctrl-C stops",
        f"price.txt {reply}: {value}",
        f"prices.py {reply}: {value}",
        f"shop.py {reply}: 4 held, 1 broken",
        f"shop.py {reply}: {value}",
        f"echo.pipeline.yaml {reply}: {value}",
        f"shared/used.yaml {reply}: {value}",
        f"echo.pipeline.yaml {reply}: {value}",
    ]
    assert watching.stop() == 0


@pytest.mark.slow
def test_what_a_broken_scenario_lacks_is_waited_for(watch: Callable[..., Watch]) -> None:
    write("lone.scenario.yaml", GOOD.removeprefix("---\n").replace("echo", "echo.pipeline.yaml"))
    watching = watch("lone.scenario.yaml")
    rounds = [watching.round()]

    write("echo.pipeline.yaml", ECHO)
    rounds.append(watching.round())
    write("lone.scenario.yaml", "\tversion: 1\n")
    rounds.append(watching.round())
    write("lone.scenario.yaml", ECHO + GOOD)
    rounds.append(watching.round())

    assert [re.sub("^.*: ", "", line.partition(";")[0] if n == 0 else line)
            for n, line in enumerate(rounds)] == [
        "0 held, 1 broken", "1 held", "0 held, 1 broken", "1 held",
    ]  # fmt: skip


@pytest.mark.slow
def test_ctrl_c_ends_a_scenario_that_never_ends(watch: Callable[..., Watch]) -> None:
    write("shop.py", "def price():\n    open('began', 'w').close()\n    while True: pass\n")
    write("shop.scenario.yaml", PYTHON)
    watching = watch("shop.scenario.yaml")
    end = time.monotonic() + DEADLINE_S
    while not Path("began").exists():
        assert time.monotonic() < end
        time.sleep(0.05)

    assert watching.stop() == 0


def test_where_nothing_can_run_nothing_is_watched(process: Callable[..., Done]) -> None:
    assert process("replay", "--watch", "nowhere") == Done(
        2, "", "nowhere: there is no such file or folder\n"
    )


@pytest.mark.parametrize(
    "others", [["--verify"], ["--failed"], ["--update"], ["--base", "b"], ["--format", "json"]]
)
def test_watching_is_for_people_at_work(simkit: Callable[..., Done], others: list[str]) -> None:
    done = simkit("replay", "--watch", *others)

    wrong = " ".join(others) if others[0] == "--format" else others[0]
    assert done.code == 2
    assert f"Error: --watch is for people, at work on files; leave out {wrong}." in done.err


def test_a_stamp_differs_when_a_file_does(project: Path) -> None:
    write("a.yaml", "a")
    before = stamp("a.yaml")
    write("a.yaml", "ab")

    assert before is not None
    assert stamp("a.yaml") != before
    assert stamp("b.yaml") is None
    assert stamp(".") == ("a.yaml",)


def test_reads_are_those_below_here_that_the_run_does_not_write_itself(project: Path) -> None:
    reads = FileReads()
    for path, mode, flags in (
        ("a.txt", "r", 0),
        ("sub/../b.txt", "rb", 0),
        ("log.txt", "a", 0),
        ("log.txt", "r", 0),
        ("db", None, os.O_RDWR),
        (".simkit/last.json", "r", 0),
        ("venv/lib/site-packages/x.py", "r", 0),
        ("__pycache__/m.cpython-311.pyc", "rb", 0),
        (str(project.parent / "far.txt"), "r", 0),
        (str(project.parent / "far.yaml"), "r", 0),
        (3, "r", 0),
    ):
        reads.note("open", (path, mode, flags))
    reads.note("os.listdir", ("c.txt",))

    assert list(reads.stamps()) == ["a.txt", "b.txt", "m.py", "../far.yaml"]
