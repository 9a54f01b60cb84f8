"""Processes that work for this one: their answers, their deaths, and what they have from it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from simkit.session.workers import Pool, Worker, WorkerDied, application, start_worker, worker
from tests.own_processes import OWN_PROCESSES

CALLS = """
import atexit, os, signal, sys, time
from simkit.session.workers import ask_parent, at_end

class Odd(Exception):
    def __init__(self, what, why): super().__init__(f"{what} {why}")

def double(number): return number * 2, os.getpid()
def fail(number): raise ValueError(number)
def fail_oddly(): raise Odd("7", "less")
def shout():
    print("aloud"); os.write(1, b"raw"); return sys.stdin.read()
def ask(number): return ask_parent(number) + 1
def end_later(file): at_end(lambda: open(file, "w").close())
def leave_pipe():
    if os.fork() == 0:
        time.sleep(5)
    os._exit(4)
def note(number):
    open(f"started-{os.getpid()}", "w").close(); return number
def surroundings():
    return [os.getcwd(), sys.path, os.environ.get("PYTEST_CURRENT_TEST"),
            signal.getsignal(signal.SIGINT), len(sys.argv)]
"""


@pytest.fixture(autouse=True)
def calls(cwd: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The module with the functions that workers are asked to call."""
    monkeypatch.syspath_prepend(str(cwd))
    Path("worker_calls.py").write_text(CALLS, encoding="utf-8")
    import worker_calls  # type: ignore[import-not-found]

    yield worker_calls
    del sys.modules["worker_calls"]


KINDS: dict[str, Any] = {
    "copy": pytest.param(lambda **rest: start_worker(**rest), marks=OWN_PROCESSES),
    "interpreter": lambda **rest: start_worker(variables={}, **rest),
}


@pytest.fixture(params=[*KINDS.values()], ids=[*KINDS])
def start(request: pytest.FixtureRequest) -> Iterator[Callable[..., Worker]]:
    """A function that starts a worker of a kind, which is ended after the test."""
    workers: list[Worker] = []

    def started(**rest: Any) -> Worker:
        workers.append(request.param(**rest))
        return workers[-1]

    yield started
    for each in workers:
        each.kill()
        each.close()


def test_a_worker_answers_with_what_is_returned_raised_or_asked(
    start: Callable[..., Worker], calls: ModuleType, capfd: pytest.CaptureFixture[str]
) -> None:
    own = start()

    number, process = own.call(calls.double, 4)
    assert (number, process) == (8, own.call(os.getpid))
    assert process != os.getpid()
    with pytest.raises(ValueError, match="7"):
        own.call(calls.fail, 7)
    with pytest.raises(RuntimeError, match=r"Odd\('7 less'\)"):
        own.call(calls.fail_oddly)
    assert own.call(calls.ask, 4, answering=lambda number: number * 10) == 41
    assert own.call(calls.shout) == ""
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize(
    ("function", "arguments", "seconds", "code"),
    [
        ("_exit", [3], None, 3),
        ("abort", [], None, -6),
        ("leave_pipe", [], None, 4),
        ("sleep", [60], 0.1, -9),
    ],
)
def test_a_death_is_told_with_its_exit_code(
    function: str,
    arguments: list[int],
    seconds: float | None,
    code: int,
    start: Callable[..., Worker],
    calls: ModuleType,
) -> None:
    homes = (calls, os, time)
    called = next(getattr(home, function) for home in homes if hasattr(home, function))

    with pytest.raises(WorkerDied) as death:
        start().call(called, *arguments, seconds=seconds)

    assert death.value.code == code


def test_a_worker_has_this_processes_surroundings(
    start: Callable[..., Worker], calls: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    monkeypatch.setenv("PYTEST_CURRENT_TEST", "this one")
    of_this = start().call(calls.surroundings)
    (tmp_path / "below").mkdir()
    of_other = start(folder="below", ignores_interrupt=False).call(calls.surroundings)

    path = [str(tmp_path), *map(os.path.abspath, sys.path[1:])]
    assert of_this == [str(tmp_path), path, "this one", 1, 1]
    assert of_other[0] == str(tmp_path / "below")
    assert of_other[1] == path
    assert of_other[3].__name__ == "default_int_handler"


def test_a_worker_that_is_closed_comes_to_its_end(
    start: Callable[..., Worker], calls: ModuleType
) -> None:
    own = start()
    own.call(calls.end_later, "ended")
    own.close()

    assert Path("ended").exists()


ENDING = """
import os, time, worker_calls as calls
from simkit.session.workers import Pool, start_worker
pool = Pool(2, start_worker)
pool.submit(lambda own: own.call(time.sleep, 600))
for future in [pool.submit(lambda own: own.call(calls.note, 1)) for _ in range(2)]:
    future.result()
os._exit(0)
"""


@OWN_PROCESSES
def test_workers_end_with_their_first_process() -> None:
    subprocess.run(
        [sys.executable, "-c", ENDING],
        check=True, timeout=60, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip

    workers = [file.name.rpartition("-")[2] for file in Path().glob("started-*")]
    assert workers
    while [name for name in workers if Path("/proc", name).exists()]:
        time.sleep(0.02)  # Until the limit of a test.


def test_a_pool_tries_again_if_a_worker_dies(calls: ModuleType) -> None:
    with Pool(1, start_worker, tries=2) as pool:

        def die_once(own: Worker) -> object:
            if not Path("died").exists():
                Path("died").touch()
                own.call(os._exit, 3)
            return own.call(calls.double, 4)[0]

        assert pool.submit(die_once).result() == 8
        with pytest.raises(WorkerDied):
            pool.submit(lambda own: own.call(os._exit, 3)).result()


# The application process


def called(function: Callable[..., Any], *arguments: Any, modules: Sequence[str] = ()) -> Any:
    """What a function returns in a worker of its own."""
    with start_worker(modules) as own:
        return own.call(function, *arguments)


@pytest.fixture
def applications(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], list[Any]]]:
    """A function that returns the application processes of this test alone."""
    own = application._Applications()
    monkeypatch.setattr(application, "_applications", own)
    yield lambda: [*own.by_modules.values()]
    application._end()


@OWN_PROCESSES
def test_an_application_process_has_imported_its_modules_for_all_copies(
    applications: Callable[[], list[Any]],
) -> None:
    Path("app.py").write_text("import os\nHERE = os.getpid()\ndef home(): return HERE\n")
    import app  # type: ignore[import-not-found]

    homes = [called(app.home, modules=("app", "no_such_module")) for _ in range(2)]
    other = called(app.home)

    assert homes == [applications()[0]._process.pid] * 2
    assert other not in (*homes, os.getpid())
    assert len(applications()) == 2


@OWN_PROCESSES
def test_a_dead_application_process_is_done_without(
    applications: Callable[[], list[Any]], calls: ModuleType
) -> None:
    called(os.getpid)
    applications()[0]._process.kill()
    applications()[0]._process.wait()

    assert called(calls.double, 1)[0] == 2
    assert applications() == [None]
    assert called(calls.double, 1)[0] == 2


WATCHERS = {
    "a thread": "import threading, time\n"
    "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n",
    "a debugger": "import sys\nsys.settrace(lambda *args: None)\n",
    "a profiler": "import sys\nsys.setprofile(lambda *args: None)\n",
}


@OWN_PROCESSES
@pytest.mark.parametrize("text", WATCHERS.values(), ids=WATCHERS)
def test_a_process_that_is_watched_or_has_threads_is_not_copied(text: str) -> None:
    Path("sitecustomize.py").write_text(text, encoding="utf-8")

    process = worker.start_application(application.check_copyable)
    with pytest.raises(OSError, match="it has threads"):
        process.wait()


@OWN_PROCESSES
def test_other_variables_need_another_application_process(
    applications: Callable[[], list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    called(os.getpid)
    (first,) = applications()
    monkeypatch.setenv("PYTEST_CURRENT_TEST", "another")
    called(os.getpid)
    assert applications() == [first]
    monkeypatch.setenv("WORN_OUT", "changed")

    assert called(os.getenv, "WORN_OUT") == "changed"
    assert applications() != [first]


@OWN_PROCESSES
def test_a_copy_of_this_process_has_no_part_in_its_application_process(
    applications: Callable[[], list[Any]],
) -> None:
    called(os.getpid)
    (process,) = applications()
    number = os.fork()
    if number == 0:
        is_left = False
        try:
            is_left = not application._applications.by_modules and process._channel.fileno() == -1
        finally:  # Whatever is raised: a copy that goes on would run the tests after this one.
            os._exit(0 if is_left else 1)

    assert os.waitstatus_to_exitcode(os.waitpid(number, 0)[1]) == 0
    assert called(os.getpid) != os.getpid()
    assert applications() == [process]


def test_user_code_in_a_run_starts_interpreters(monkeypatch: pytest.MonkeyPatch) -> None:
    guards = SimpleNamespace(active_guard=lambda: object())
    monkeypatch.setitem(sys.modules, "simkit.capture.http.guards", guards)

    assert worker._is_guarded()


@OWN_PROCESSES
def test_threads_that_end_one_process_at_the_same_time_end_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    process = worker.fork_application(bool)
    kill, closed = os.kill, threading.Event()

    def close() -> None:
        process.close()
        closed.set()

    def kill_late(number: int, which: int) -> None:
        if not other.is_alive():
            other.start()
            assert not closed.wait(0.2)  # Else the number could be another process's by now.
        kill(number, which)

    other = threading.Thread(target=close)
    monkeypatch.setattr("simkit.session.workers.worker.os.kill", kill_late)
    process.close()
    other.join()

    assert closed.is_set()


@OWN_PROCESSES
def test_an_application_process_whose_start_is_interrupted_ends() -> None:
    numbers: list[int] = []

    def start(channel: socket.socket) -> application.ForkedProcess:
        numbers.append(os.fork())
        if numbers[0]:
            raise KeyboardInterrupt
        signal.alarm(20)  # It would wait for ever.
        os._exit(len(channel.recv(1)))

    with suppress(KeyboardInterrupt):
        application.ApplicationProcess(start, bool)

    assert os.waitpid(numbers[0], 0)[1] == 0


@OWN_PROCESSES
def test_what_is_stopped_while_it_begins_takes_no_request_for_the_beginning() -> None:
    class Stopped:
        def __reduce__(self) -> Any:  # A signal comes while the first message is made.
            raise KeyboardInterrupt

    start = partial(application.start_interpreter, dict(os.environ))
    process = application.ApplicationProcess(start, Stopped())  # type: ignore[arg-type]

    with pytest.raises(KeyboardInterrupt):
        process.begin()

    with pytest.raises(OSError, match="Bad file descriptor"):
        process.call(bool)


@OWN_PROCESSES
def test_no_request_comes_before_the_beginning() -> None:
    results: list[object] = []
    other = threading.Thread(target=lambda: results.append(process.call(bool)))

    class Slow:
        def __reduce__(self) -> Any:
            other.start()
            other.join(0.2)
            return partial, (application.import_modules, ())

    start = partial(application.start_interpreter, dict(os.environ))
    process = application.ApplicationProcess(start, Slow())  # type: ignore[arg-type]
    process.begin()
    other.join(20)

    process.close()
    assert results == [False]
