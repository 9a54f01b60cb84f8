"""What is refused in child processes and after the run turns the run red, and ends it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from simkit.session.workers import WorkerDied, start_worker

APP = """
import atexit, contextvars, multiprocessing, os, socket, subprocess, sys, threading, weakref
from concurrent.futures import ProcessPoolExecutor

def dial(port=9):
    socket.create_connection(("127.0.0.1", port))

def child():
    subprocess.run([sys.executable, "-c", "pass"])

def swallow():
    try:
        dial()
    except Exception:
        return "swallowed"

def ask():
    from openai import OpenAI
    OpenAI(max_retries=0).chat.completions.create(model="m", messages=[])

class Kept:
    pass

KEPT, FORK = Kept(), multiprocessing.get_context("fork")

def pool(function):
    with FORK.Pool(1) as workers:
        workers.apply(function)

def executor(function):
    with ProcessPoolExecutor(1, mp_context=FORK) as workers:
        workers.submit(function).result()

def thread():
    started = threading.Thread(target=lambda: contextvars.Context().run(dial))
    started.start()
    started.join()

WAYS = {
    "pool": lambda: pool(dial),
    "pool that catches": lambda: pool(swallow),
    "pool that asks": lambda: pool(ask),
    "executor": lambda: executor(dial),
    "executor that asks": lambda: executor(ask),
    "finalizer": lambda: weakref.finalize(KEPT, dial, 8),
    "exit function": lambda: atexit.register(dial),
    "child at exit": lambda: atexit.register(child),
    "thread": thread,
    "names": lambda: socket.gethostbyname_ex("example.com"),
    "addresses": lambda: socket.gethostbyaddr("192.0.2.1"),
    "services": lambda: socket.getnameinfo(("192.0.2.1", 80), 0),
    "raw names": lambda: __import__("_socket").getaddrinfo("example.com", 80),
    "nothing": lambda: None,
    "its own name": lambda: (socket.gethostbyaddr("127.0.0.1"), socket.getfqdn()),
    "exit function of no effect": lambda: atexit.register(str),
}

def run(text):
    WAYS[text]()
    return "done"
"""
RED = ("pool", "pool that catches", "pool that asks", "executor", "executor that asks", "finalizer")
RED_LATER = ("exit function", "child at exit", "thread")
LOOK_UPS = ("names", "addresses", "services", "raw names")
GREEN = ("nothing", "its own name", "exit function of no effect")


def write_scenarios(folder: Path, ways: Sequence[str]) -> None:
    """Writes a scenario for each way."""
    (folder / "late_app.py").write_text(APP)
    documents = [
        f"version: 1\nscenario: {way}\npipeline: late_app:run\napp: {{path: [.]}}\n"
        f"turns: [{{user: {way}}}]\n"
        for way in ways
    ]
    (folder / "late.scenario.yaml").write_text("---\n".join(documents))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs os.fork")
def test_what_is_refused_where_nobody_catches_it_turns_the_run_red(tmp_path: Path) -> None:
    ways = (*RED, *RED_LATER, *LOOK_UPS, *GREEN)
    write_scenarios(tmp_path, ways)

    done = subprocess.run(
        [sys.executable, "-m", "simkit", "replay", ".", "--format", "json"],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=100,
    )  # fmt: skip

    outcomes = {s["name"]: s["outcome"] for s in json.loads(done.stdout)["scenarios"]}
    assert outcomes == {way: "held" if way in GREEN else "failed" for way in ways}


DOORS = {
    "in one process": ("simkit", "replay", "--in-process", "-q", "."),
    "pytest": ("pytest", "-q", "."),
    "pytest-xdist": ("pytest", "-q", "-n", "1", "."),
    "by hand": ("pytest", "-q", "test_by_hand.py"),
}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs os.fork")
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("ways", [RED[-1:] + RED_LATER[:2], GREEN], ids=["red", "green"])
def test_a_process_of_several_runs_fails_at_its_end(
    tmp_path: Path, door: str, ways: tuple[str, ...]
) -> None:
    write_scenarios(tmp_path, ways)
    (tmp_path / "test_by_hand.py").write_text(
        "import simkit\n"
        "def test_it():\n"
        "    for scenario in simkit.load('late.scenario.yaml'):\n"
        "        assert simkit.simulate(scenario).passed\n"
    )

    done = subprocess.run(
        [sys.executable, "-m", *DOORS[door]],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=100,
    )  # fmt: skip

    named = [
        port for port in ("127.0.0.1', 8", "127.0.0.1', 9", "process at") if port in done.stdout
    ]
    assert (done.returncode, len(named)) == ((0, 0) if ways == GREEN else (1, 3)), done.stdout


def test_a_worker_that_says_nothing_for_too_long_is_ended() -> None:
    with start_worker() as worker, pytest.raises(WorkerDied) as raised:
        worker.call(time.sleep, 60, seconds=0.2)

    assert raised.value.how == "it was killed, since no further turn began within 0.2 s"
