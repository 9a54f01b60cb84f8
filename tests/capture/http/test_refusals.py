"""What is refused in child processes and after the run turns the run red, and ends it."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from simkit.capture.http import processes
from simkit.capture.http.refusals import begin_refusals, late_refusals, note_refusal, taken_refusals
from simkit.session.workers import WorkerDied, start_worker
from tests.processes import run_python

APP = """
import atexit, contextvars, multiprocessing.util, os, socket, subprocess, sys, threading, weakref
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

class Cycle:
    def __init__(self):
        self.me = self

    def __del__(self):
        dial(14)

def slow(port):
    threading.Event().wait(0.3)
    dial(port)

def begin(*arguments):
    threading.Thread(target=slow, args=arguments).start()

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
    "end of threads": lambda: threading._register_atexit(dial, 10),
    "end of children": lambda: multiprocessing.util.Finalize(None, dial, (11,), exitpriority=1),
    "exit function of an exit function": lambda: atexit.register(atexit.register, dial, 12),
    "thread that is left": lambda: begin(13),
    "cycle": lambda: Cycle() and None,
    "timer": lambda: threading.Timer(0.3, dial, (15,)).start(),
    "thread of an exit function": lambda: atexit.register(begin, 16),
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
LEFT = {
    "finalizer": "127.0.0.1', 8)",
    "exit function": "127.0.0.1', 9)",
    "child at exit": "process at",
    "end of threads": "127.0.0.1', 10)",
    "end of children": "127.0.0.1', 11)",
    "exit function of an exit function": "127.0.0.1', 12)",
    "thread that is left": "127.0.0.1', 13)",
    "cycle": "127.0.0.1', 14)",
    "timer": "127.0.0.1', 15)",
    "thread of an exit function": "127.0.0.1', 16)",
}
"""What code leaves behind, with what the refusal names."""
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
    ways = tuple(dict.fromkeys((*RED, *RED_LATER, *LEFT, *LOOK_UPS, *GREEN)))
    write_scenarios(tmp_path, ways)

    done = run_python("-m", "simkit", "replay", ".", "--format", "json", folder=tmp_path)

    outcomes = {s["name"]: s["outcome"] for s in json.loads(done.stdout)["scenarios"]}
    assert outcomes == {way: "held" if way in GREEN else "failed" for way in ways}


DOORS = {
    "in one process": ("simkit", "replay", "--in-process", "--format", "json", "."),
    "pytest": ("pytest", "-q", "."),
    "pytest-xdist": ("pytest", "-q", "-n", "1", "."),
    "by hand": ("pytest", "-q", "test_by_hand.py"),
}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs os.fork")
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("ways", [tuple(LEFT), GREEN], ids=["red", "green"])
def test_a_process_of_several_runs_fails_at_its_end(
    tmp_path: Path, door: str, ways: tuple[str, ...]
) -> None:
    write_scenarios(tmp_path, ways)
    (tmp_path / "test_by_hand.py").write_text(
        "import simkit\n"
        "def test_it():\n"
        "    outcomes = [*map(simkit.simulate, simkit.load('late.scenario.yaml'))]\n"
        "    assert [f.what for o in outcomes for f in o.judgement.findings] == []\n"
    )

    done = run_python("-m", *DOORS[door], folder=tmp_path)

    named = [way for way, place in LEFT.items() if place in done.stdout]
    assert (done.returncode, named) == ((0, []) if ways == GREEN else (1, [*LEFT])), done.stdout


def test_a_worker_that_says_nothing_for_too_long_is_ended() -> None:
    with start_worker() as worker, pytest.raises(WorkerDied) as raised:
        worker.call(time.sleep, 60, seconds=0.2)

    assert raised.value.how == "it was killed, since it recorded nothing for 0.2 s"


def test_what_earlier_runs_were_refused_after_their_end_is_late_for_the_next_run() -> None:
    begin_refusals()
    late_refusals()
    note_refusal("of the run before")

    begin_refusals()
    note_refusal("of this run")

    assert taken_refusals() == ["of this run"]
    assert late_refusals() == ["of the run before"]
    assert late_refusals() == []


class _Stillborn(threading.Thread):
    """A thread that was started and never begins; CPython 3.11 answers `join` like this."""

    def join(self, timeout: float | None = None) -> None:
        assert timeout is None


def test_a_thread_that_cannot_be_waited_for_is_passed_over(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_left", [_Stillborn(daemon=False)])

    processes.end_what_is_left()

    assert capsys.readouterr().err == ""
