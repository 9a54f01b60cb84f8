"""A restart starts a process with nothing of the one before, however the process is made."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from simkit import load, simulate
from simkit.checks.judge import Outcome
from simkit.session.simulate import run
from simkit.session.workers import application, worker
from simkit.trace.events import ToolReturned

ROOT = Path(__file__).resolve().parents[3]
pytestmark = pytest.mark.slow
forks = pytest.mark.skipif(not application.can_fork(), reason="processes are not copied here")

PIPELINE = """
version: 1
pipeline: desk
agents: {clerk: {instructions: Help., tools: [look]}}
tools: {look: {function: "worn_out:look"}}
flow: {handoffs: {start: clerk}}
"""
HEAD = """
version: 1
scenario: one
pipeline: desk.pipeline.yaml
lints: {RUN-02: user code starts a thread, STA-06: it keeps everything in variables}
turns:
  - {user: Hello., replies: {clerk: Hello.}}
"""
TURN = "  - {user: Look., restart: true, replies: {clerk: [{calls: {look: {}}}, Done.]}}\n"
LOOK = """
import atexit, codecs, decimal, functools, gc, json, logging, os, random, re, signal, sys, threading
import time, warnings

BEGAN_WITH = sorted(name for name in sys.modules if name.startswith("worn_out"))
SEEN = []

@functools.lru_cache
def remembered():
    return len(SEEN)

def leave(word):
    with open("ends.txt", "a") as file:
        file.write(f"{os.getpid()} {word}\\n")

def look():
    found = {
        "globals": len(SEEN), "cached": remembered(), "began": BEGAN_WITH,
        "decimal": decimal.getcontext().prec, "limit": sys.getrecursionlimit(),
        "handlers": len(logging.getLogger().handlers), "variable": os.environ.get("WORN_OUT"),
        "folder": os.path.basename(os.getcwd()), "umask": os.umask(0o22),
        "modules": "this" in sys.modules, "attribute": hasattr(json, "worn_out"),
        "signal": str(signal.getsignal(signal.SIGUSR1)), "interrupt": str(signal.getsignal(2)),
        "switch": sys.getswitchinterval(), "threads": len(os.listdir("/proc/self/task")),
        "files": len(os.listdir("/proc/self/fd")), "gc": (gc.get_threshold(), gc.isenabled()),
        "profile": sys.getprofile() is None, "filters": len(warnings.filters),
        "main": (sys.modules["__main__"].__spec__.name, len(sys.argv)),
        "streams": [(s.name, s.encoding, s.line_buffering) for s in (sys.stdin, sys.stdout, sys.stderr)],
        "path": sys.path,
    }
    with open("pids.txt", "a") as file:
        file.write(f"{os.getpid()} {random.random()} {hash('a')}\\n")
    SEEN.append(1)
    decimal.getcontext().prec = 5
    sys.setrecursionlimit(4_321)
    sys.setswitchinterval(0.5)
    logging.getLogger().addHandler(logging.NullHandler())
    warnings.simplefilter("ignore")
    os.environ["WORN_OUT"] = "yes"
    random.seed(3)
    json.worn_out = True
    sys.modules["this"] = json
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    gc.set_threshold(9, 9, 9)
    look.kept = open("kept.txt", "w")
    atexit.register(leave, "end")
    threading.Thread(target=time.sleep, args=(9,), daemon=True).start()
    return found
"""  # noqa: E501


def ran(restarts: int, look: str = LOOK) -> Outcome:
    """The outcome of a scenario in the working directory, with restarts before all turns but one.

    User code runs in the new processes alone.
    """
    Path("desk.pipeline.yaml").write_text(PIPELINE, encoding="utf-8")
    Path("worn_out.py").write_text(look, encoding="utf-8")
    Path("one.scenario.yaml").write_text(HEAD + TURN * restarts, encoding="utf-8")
    (item,) = load("one.scenario.yaml")
    return simulate(item)


def results_of(outcome: Outcome) -> list[Any]:
    """What the tool returned in each turn."""
    return [event.result for event in outcome.trace.events if isinstance(event, ToolReturned)]


def numbers() -> list[list[str]]:
    return [line.split() for line in Path("pids.txt").read_text().splitlines()]


@pytest.fixture(autouse=True)
def _own_folder(cwd: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(cwd))
    monkeypatch.delenv("WORN_OUT", raising=False)
    yield
    sys.modules.pop("worn_out", None)


@pytest.fixture
def no_forks(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """A function after which each process is a new interpreter."""
    return lambda: monkeypatch.setattr(worker, "application_process", lambda *_: None)


@forks
def test_a_copy_is_as_a_new_interpreter_and_holds_nothing_of_the_process_before(
    no_forks: Callable[[], None],
) -> None:
    copies = ran(3)
    pids = numbers()
    Path("pids.txt").unlink()
    no_forks()
    interpreters = ran(3)

    assert results_of(copies) == results_of(interpreters)
    assert results_of(copies)[0] == results_of(copies)[1] == results_of(copies)[2]
    assert copies.trace.digest() == interpreters.trace.digest()
    assert len({pid for pid, *_ in pids} - {str(os.getpid())}) == 3
    assert len({chance for _, chance, _ in pids}) == 3


RESTARTING = [
    str(file.relative_to(ROOT))
    for file in sorted((ROOT / "scenarios").rglob("*.scenario.yaml"))
    if "restart: true" in file.read_text(encoding="utf-8")
]


@forks
@pytest.mark.parametrize("name", RESTARTING)
def test_scenarios_with_restarts_have_one_digest(
    name: str, no_forks: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    scenarios = load(name)
    copied = [run(scenario).digest() for scenario in scenarios]
    no_forks()

    assert copied == [run(scenario).digest() for scenario in scenarios]


@forks
def test_functions_for_the_end_of_a_copy_run_once_and_in_it() -> None:
    ran(3, LOOK.replace("threading.Thread", "str or threading.Thread"))

    ends = Path("ends.txt").read_text().splitlines()
    assert sorted(ends) == sorted(f"{pid} end" for pid, *_ in numbers())


@forks
def test_a_module_that_changed_is_read_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    change = LOOK.replace(
        "    SEEN.append(1)",
        '    Path = __import__("pathlib").Path; text = Path("worn_out.py").read_text()\n'
        '    Path("worn_out.py").write_text(text.replace("BEGAN_WITH = ", "BEGAN_WITH = [] and "))',
    )

    results = results_of(ran(2, change))

    assert [result["began"] for result in results] == [["worn_out"], []]


ENDS = {
    "os._exit(3)": r":3 called os._exit\(3\)$",
    "os.kill(os.getpid(), signal.SIGKILL)": ": by signal SIGKILL$",
    "(sys.stderr.write('no more\\n'), os._exit(4))": r":3 called os._exit\(4\): no more$",
}


@pytest.mark.parametrize("end", ENDS)
def test_the_end_of_a_process_is_told_alike(end: str, no_forks: Callable[[], None]) -> None:
    look = f"import os, signal, sys\ndef look():\n    {end}\n"
    copied = ran(1, look)
    no_forks()
    interpreted = ran(1, look)

    assert copied.trace.digest() == interpreted.trace.digest()
    for outcome in (copied, interpreted):
        (finding,) = outcome.judgement.findings
        assert (finding.id, finding.turn) == ("RUN-09", 2)
        assert re.search(ENDS[end], finding.what)
        errors = [turn.error and turn.error.type for turn in outcome.view.turns]
        assert errors == [None, "ProcessEnded"]
