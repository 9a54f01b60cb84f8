"""A restart starts a process with nothing of the one before, however the process is made."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from simkit import load, simulate
from simkit.checks.judge import Outcome
from simkit.core.errors import SourceError
from simkit.session.execution import child_processes, fork_server
from simkit.session.simulate import run
from simkit.trace.events import ToolReturned

ROOT = Path(__file__).resolve().parents[3]
pytestmark = pytest.mark.slow
forks = pytest.mark.skipif(not fork_server.can_fork(), reason="processes are not copied here")

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
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delenv("WORN_OUT", raising=False)
    yield
    sys.modules.pop("worn_out", None)


@pytest.fixture
def no_forks(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """A function after which each process is a new interpreter."""
    return lambda: monkeypatch.setattr(child_processes, "fork_server", lambda environment: None)


@pytest.fixture
def own_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], fork_server.ForkServer]]:
    """A function that returns the server of this test alone."""
    monkeypatch.setattr(fork_server, "_server", None)
    monkeypatch.setattr(fork_server, "_is_usable", True)

    def running() -> fork_server.ForkServer:
        assert fork_server._server is not None
        return fork_server._server

    yield running
    if fork_server._server is not None:
        fork_server._server.close()


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
    "os._exit(3)": "ended with code 3",
    "os.kill(os.getpid(), signal.SIGKILL)": "ended with code -9",
    "(sys.stderr.write('no more\\n'), os._exit(4))": "ended with code 4: no more",
}


@pytest.mark.parametrize("end", ENDS)
def test_the_end_of_a_process_is_told_alike(end: str, no_forks: Callable[[], None]) -> None:
    look = f"import os, signal, sys\ndef look():\n    {end}\n"
    with pytest.raises(SourceError, match=ENDS[end]) as copied:
        ran(1, look)
    no_forks()
    with pytest.raises(SourceError) as interpreted:
        ran(1, look)

    assert str(copied.value) == str(interpreted.value)


@forks
@pytest.mark.parametrize("when", ["idle", "at work"])
def test_a_server_that_dies_changes_nothing(
    when: str, own_server: Callable[[], fork_server.ForkServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = ran(3)
    server = own_server()
    if when == "idle":
        server._process.kill()
        server._process.wait()
    else:
        begin = fork_server.ForkServer.fork

        def fork_last(self: fork_server.ForkServer, *args: object) -> int:
            number = begin(self, *args)  # type: ignore[arg-type]
            self._process.kill()
            return number

        monkeypatch.setattr(fork_server.ForkServer, "fork", fork_last)
    Path("pids.txt").unlink()

    outcome = ran(3)

    assert outcome.trace.digest() == expected.trace.digest()
    assert len({pid for pid, *_ in numbers()}) == 3
    assert fork_server.fork_server({**os.environ}) is None


@forks
def test_a_server_that_cannot_start_is_done_without(
    own_server: Callable[[], fork_server.ForkServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fork_server, "serve_forks", None)
    monkeypatch.setattr(fork_server, "MODULE", "simkit.session.nowhere")

    outcome = ran(2)

    assert outcome.passed
    assert len({pid for pid, *_ in numbers()}) == 2
    assert fork_server._server is None


WATCHERS = {
    "a thread": "import threading, time\n"
    "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n",
    "a debugger": "import sys\nsys.settrace(lambda *args: None)\n",
    "a profiler": "import sys\nsys.setprofile(lambda *args: None)\n",
}


@forks
@pytest.mark.parametrize("watcher", WATCHERS)
def test_an_interpreter_that_is_watched_or_has_threads_is_not_copied(
    watcher: str, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(WATCHERS[watcher])

    with pytest.raises(OSError, match="does not serve"):
        fork_server.ForkServer({**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})


@forks
def test_a_changed_variable_is_seen_as_a_new_interpreter_sees_it(
    own_server: Callable[[], fork_server.ForkServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    look = (
        "import os, sys\n"
        "def look(): return [os.environ.get('WORN_OUT'), sys.flags.hash_randomization]\n"
    )
    ran(1, look)
    first = own_server()
    monkeypatch.setenv("PYTEST_CURRENT_TEST", "another")
    ran(1, look)
    assert own_server() is first
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    monkeypatch.setenv("WORN_OUT", "changed")

    outcome = ran(1, look)

    assert results_of(outcome)[-1] == ["changed", 0]
    assert own_server() is not first


@forks
def test_a_copy_of_this_process_has_no_part_in_the_server(
    own_server: Callable[[], fork_server.ForkServer],
) -> None:
    ran(1)
    server = own_server()
    number = os.fork()
    if number == 0:
        os._exit(0 if fork_server._server is None and server._channel.fileno() == -1 else 1)

    assert os.waitstatus_to_exitcode(os.waitpid(number, 0)[1]) == 0
    assert ran(1).passed
    assert own_server() is server


def test_user_code_in_a_run_starts_interpreters(monkeypatch: pytest.MonkeyPatch) -> None:
    guards = SimpleNamespace(active_guard=lambda: object())
    monkeypatch.setitem(sys.modules, "simkit.capture.http.guards", guards)

    assert child_processes._is_guarded()
