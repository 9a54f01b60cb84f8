"""The command line as a whole: help, errors, being stopped, and what it loads."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

import pytest

from simkit.cli import validate as validate_output
from simkit.cli.commands import cli
from tests.cli.conftest import ROOT
from tests.cli.projects import Call, Done, write
from tests.conftest import sample_by_day
from tests.own_processes import OWN_PROCESSES
from tests.processes import run_python

HELP_OF_ALL: Final = """
import sys
from simkit.cli import main
from simkit.cli.commands import cli
for words in ([], *([name] for name in cli.commands)):
    try:
        main([*words, "--help"])
    except SystemExit as stop:
        assert not stop.code
heavy = {"_pytest", "faker", "hypothesis", "msgspec", "pydantic", "pydantic_core", "pytest"}
print(sorted((heavy | {"tabulate", "vcr", "yaml"}) & {*sys.modules}), file=sys.stderr)
"""


def test_the_help_of_no_command_loads_anything_heavy() -> None:
    done = run_python("-c", HELP_OF_ALL, folder=ROOT)

    assert done.stdout.count("Usage: simkit") == 1 + len(cli.commands)
    assert done.stderr == "[]\n"


def test_the_version_is_printed(simkit: Call) -> None:
    done = simkit("--version")

    assert done.code == 0
    assert done.out.startswith("simkit ")


def test_a_bug_in_simkit_asks_to_be_reported(simkit: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validate_output, "checked", lambda paths: dict[str, Any]()["missing"])

    done = simkit("validate")

    assert done == Done(
        2,
        "",
        "simkit itself failed: KeyError: 'missing'\n"
        "  This is a bug in simkit. Please report it with the traceback, which this prints:\n"
        "  simkit --traceback …\n",
    )


def test_a_bug_shows_its_traceback_if_asked(simkit: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIMKIT_TRACEBACK", "")
    monkeypatch.setattr(validate_output, "checked", lambda paths: dict[str, Any]()["missing"])

    done = simkit("--traceback", "validate")

    assert done.code == 2
    assert done.err.startswith("Traceback (most recent call last):\n")
    assert done.err.endswith("KeyError: 'missing'\n")


def test_ctrl_c_ends_with_130(simkit: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(paths: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(validate_output, "checked", stopped)

    done = simkit("validate")

    assert (done.code, done.out, done.err.strip()) == (130, "", "stopped")


IN_PROCESSES = "tests.cli.in_processes"
FOREVER = """\
version: 1
pipeline: forever
agents: {a: {tools: [spin]}}
tools: {spin: {function: "spinning:spin"}}
flow: {handoffs: {start: a}}
---
version: 1
scenario: it never ends
pipeline: forever
turns: [{user: hi, replies: {a: {calls: [{spin: {}}]}}}]
"""
SPINNING = """\
import pathlib
def spin():
    pathlib.Path("began").touch()
    while True:
        pass
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals of a terminal")
def test_ctrl_c_ends_processes_that_would_run_forever(project: Path) -> None:
    write("forever.scenario.yaml", FOREVER)
    write("spinning.py", SPINNING)
    running = subprocess.Popen(
        [sys.executable, "-m", IN_PROCESSES, "replay", "forever.scenario.yaml", "-j", "2"],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    while not Path("began").exists():
        assert running.poll() is None
        time.sleep(0.02)

    running.send_signal(signal.SIGINT)

    assert (running.communicate(timeout=120)[1].strip(), running.returncode) == ("stopped", 130)


@pytest.mark.slow
def test_the_module_runs_as_the_command_does(process: Call, simkit: Call) -> None:
    assert process("validate") == simkit("validate")


@pytest.mark.skipif(sys.platform == "win32", reason="pipes of POSIX")
def test_a_reader_that_went_away_makes_it_neither_held_nor_failed(project: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "simkit", "explain", "HND-12"], stdout=writing,
            stderr=subprocess.PIPE, text=True, check=False,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
    finally:
        os.close(writing)

    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.slow
def test_a_reader_that_has_enough_is_no_error(project: Path) -> None:
    command = f"{sys.executable} -m simkit schema | head -n 1"

    done = subprocess.run(
        command, shell=True, capture_output=True, text=True,
        cwd=Path(__file__).parents[2],
    )  # fmt: skip

    assert (done.stdout, done.stderr) == ("{\n", "")


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

    def stopped(
        self, number: signal.Signals, after: str = "started-*", late_s: float = 0
    ) -> tuple[int, str]:
        """Sends a signal late after a file is there; returns the exit code, and all that was said.

        Without arguments, it is sent once user code waits.
        """
        while self._process.poll() is None and not [*self._folder.glob(after)]:
            time.sleep(0.01)
        time.sleep(late_s)
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
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_replay_can_be_stopped_at_any_moment(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "waits.py").write_text(WAITS)
    for name, text in (("a", FAILS), ("b", ANEW), ("c", WAITS_LONG)):
        (tmp_path / f"{name}.scenario.yaml").write_text(text)

    for moment in sample_by_day(range(12), 4):
        shutil.rmtree(tmp_path / ".simkit", ignore_errors=True)
        running = Running(tmp_path, "tests.cli.in_processes", "replay", "-j", "2", ".")
        code, reply = running.stopped(number, after=".simkit/runs/*", late_s=moment * 0.05)

        assert (code, "stopped after" in reply, "Traceback" in reply) == (
            128 + number, True, False
        ), f"{moment}: {reply}"  # fmt: skip


STOPS = """
import os, signal, sys
from simkit.cli import main
from simkit.session.execution.applications import OwnProcesses

def close(self, close=OwnProcesses.close):
    close(self)
    raise ProcessLookupError(3, "No such process")

def run(self, entry, seed=None):
    os.kill(os.getpid(), signal.{number})

OwnProcesses.close = close
from simkit.cli.processes import RunsInProcesses
RunsInProcesses.run = run
sys.argv = ["simkit", "replay", "."]
main()
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize(("number", "code"), [("SIGTERM", 143), ("SIGINT", 130)])
def test_an_error_while_a_signal_ends_processes_hides_neither_it_nor_the_counts(
    tmp_path: Path, number: str, code: int
) -> None:
    (tmp_path / "waits.py").write_text(WAITS)
    (tmp_path / "a.scenario.yaml").write_text(RECORDED.replace("cassette", "#"))

    done = run_python("-c", STOPS.format(number=number), folder=tmp_path)

    assert (done.returncode, done.stderr) == (code, "stopped\n")
    assert "stopped after 0 of 1; nothing failed until then" in done.stdout


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


PIPELINE = """version: 1
pipeline: desk
agents:
  triage: {instructions: Choose., context: [instructions, current_message]}
  billing: {instructions: Bill., context: [instructions, history, current_message]}
flow: {router: {decide: triage, to: "${run.output.to}"}}
"""
SCENARIO = """version: 1
scenario: an order
pipeline: desk.pipeline.yaml
turns:
  - user: Where is my order?
    replies: {triage: {json: {to: billing}}, billing: It is on its way.}
    expect: {agents: [triage, billing], reply: {$contains: way}}
"""
NEEDLESS = {
    "simkit": {
        *("adapters", "capture", "testing", "update", "vcr", "pytest_plugin", "bdd"),
        *("providers.openai", "providers.anthropic", "providers.gemini", "providers.protocols"),
        *("runtime.models.recorded"),
        *(
            "session.execution.new_process",
            "session.workers",
            "session.execution.answering",
            "cli.processes",
        ),
        *("core.determinism.installing", "core.determinism.draws"),
        "core.determinism.library_rng",
        *("report.diffs", "report.json"),
        *("checks.comparative_runs", "spec.json_schemas", "trace.diff"),
    },
    "standard library": {
        *("asyncio", "concurrent", "ctypes", "configparser", "http", "multiprocessing", "sqlite3"),
        *("ssl", "subprocess", "tomllib", "unittest"),
    },
    "packages": {
        *("_pytest", "aiohttp", "anthropic", "faker", "google", "httpx", "jinja2", "langgraph"),
        *("openai", "packaging", "pytest", "pytest_bdd", "regex", "tabulate", "jsonschema"),
        *("requests", "time_machine", "urllib3", "vcr"),
    },
}

MODULES_MOST = 250
"""The largest number of simkit's own modules: each takes a two-thousandth of the command."""


def loaded(folder: Path, *words: str) -> set[str]:
    """The modules that a command has loaded at its end."""
    report = "import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr)); "
    done = run_python(
        "-c", f"{report}from simkit.cli import main; main({list(words)})", folder=folder
    )
    return set(done.stderr.split())


@pytest.mark.slow
@OWN_PROCESSES
def test_the_replay_of_a_declared_pipeline_loads_nothing_for_code_or_recordings(
    tmp_path: Path,
) -> None:
    (tmp_path / "desk.pipeline.yaml").write_text(PIPELINE, encoding="utf-8")
    (tmp_path / "desk.scenario.yaml").write_text(SCENARIO, encoding="utf-8")

    modules = loaded(tmp_path, "replay", "desk.scenario.yaml")

    assert "simkit.runtime.kernel" in modules
    needless = {f"simkit.{name}" for name in NEEDLESS["simkit"]}
    needless |= NEEDLESS["standard library"] | NEEDLESS["packages"]
    assert sum(name.startswith("simkit.") for name in modules) <= MODULES_MOST
    assert not {
        name for name in modules if any(f"{name}.".startswith(f"{other}.") for other in needless)
    }


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("test",), "There is no command `test`. Did you mean `replay`?"),
        (("replay", "--turn", "one"), "'one' is not a valid whole number."),
        (("explain", "CTX-1"), "did you mean `CTX-01`?"),
    ],
)
def test_a_wrong_word_is_refused_with_what_was_meant(
    simkit: Call, words: tuple[str, ...], text: str
) -> None:
    done = simkit(*words)

    assert done.code == 2
    assert text in done.err
