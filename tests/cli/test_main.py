"""What holds for every command: help, versions, errors and exit codes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from simkit.cli import validate as validate_output
from tests.cli.projects import Done, write

Call = Callable[..., Done]
ROOT = Path(__file__).resolve().parents[2]


def test_help_lists_the_commands(simkit: Call) -> None:
    done = simkit("--help")

    assert done == Done(
        0,
        """\
Usage: simkit [OPTIONS] COMMAND [ARGS]...

  Test what every agent of a multi-agent pipeline is sent: declaratively,
  offline, the same every time.

Options:
  --version    Print the version.
  --traceback  Show the traceback if simkit itself fails.
  -h, --help   Show this message and exit.

Commands:
  bdd        List what the lines of a feature file may say.
  cassettes  List recorded traffic that no scenario uses, is old, or holds a
             secret.
  coverage   Say what of a pipeline no scenario makes happen.
  diff       Compare traces, or a scenario on two pipelines: what each agent
             was sent.
  doctor     Say which client libraries are here, and what of them is seen.
  expect     Write a first full set of claims for turns that have none.
  explain    Explain a finding or an error by its id: cause and fix.
  explore    Search for conversations that break a rule; write scenarios.
  graph      Draw a pipeline: its agents, edges and handoffs.
  init       Write the first test of an app, or a sample project.
  judge      Hold stored traces against today's claims and lints; nothing
             runs.
  live       Run scenarios with real models, many times; say how often each
             claim holds.
  mutate     Change what happened, and say which changes no claim notices.
  record     Run scenarios with real traffic, and keep it as cassettes.
  replay     Run scenarios; show what every agent was sent, and what does not
             hold.
  schema     Print the JSON Schema of scenario and pipeline files, for
             editors.
  serve      Answer programs in other languages from a scenario, on this
             machine's own network.
  validate   Check files without running anything.
  view       Show runs in a browser: one file, with what every agent was sent.

  `simkit COMMAND --help` says more. Exit codes: 0 all held, 1 findings, 2
  broken.
""",
        "",
    )


@pytest.mark.parametrize(
    "command", ["bdd", "diff", "expect", "init", "judge", "live", "replay", "schema", "validate"]
)
def test_the_help_of_a_command_loads_nothing_heavy(project: Path, command: str) -> None:
    code = (
        "import sys; from simkit.cli import main\n"
        f"try: main(['{command}', '--help'])\n"
        "except SystemExit as stop: assert not stop.code\n"
        "heavy = {'pydantic', 'pytest', 'faker', 'vcr', 'yaml', 'tabulate', 'msgspec'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        cwd=Path(__file__).parents[2],
    )  # fmt: skip

    assert done.stdout.startswith(f"Usage: simkit {command}")
    assert done.stderr == "[]\n"


def test_the_version_is_printed(simkit: Call) -> None:
    done = simkit("--version")

    assert done.code == 0
    assert done.out.startswith("simkit ")


def test_a_misspelt_command_is_named_with_the_nearest_known(simkit: Call) -> None:
    done = simkit("relpay")

    assert done == Done(
        2,
        "",
        "Usage: simkit [OPTIONS] COMMAND [ARGS]...\n"
        "Try 'simkit --help' for help.\n\n"
        "Error: There is no command `relpay`. Did you mean `replay`? "
        "Known: bdd, cassettes, coverage, diff, doctor, expect, explain, explore, graph, init, "
        "judge, live, mutate, record, replay, schema, serve, validate, view.\n",
    )


def test_an_unknown_option_is_a_wrong_call(simkit: Call) -> None:
    done = simkit("replay", "--sede", "1")

    assert done.code == 2
    assert "--sede" in done.err.splitlines()[-1]


def test_a_path_that_is_not_there_is_an_error_without_a_traceback(simkit: Call) -> None:
    assert simkit("replay", "nowhere") == Done(2, "", "nowhere: there is no such file or folder\n")


@pytest.mark.parametrize("command", ["replay", "validate"])
def test_a_call_without_a_path_says_what_it_looked_for(simkit: Call, command: str) -> None:
    shutil.move("scenarios", "elsewhere")

    assert simkit(command) == Done(
        2, "", "scenarios: there is no such folder, and the call names no other\n"
        "  Name files or folders (`.` is this one), set pytest's `testpaths`, or begin with "
        "`simkit init`.\n",
    )  # fmt: skip


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

    assert (running.communicate(timeout=20)[1].strip(), running.returncode) == ("stopped", 130)


def test_the_module_runs_as_the_command_does(process: Call, simkit: Call) -> None:
    assert process("validate") == simkit("validate")


@pytest.mark.skipif(sys.platform == "win32", reason="pipes of POSIX")
def test_a_reader_that_went_away_makes_it_neither_held_nor_failed(project: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "simkit", "schema"], stdout=writing, stderr=subprocess.PIPE,
            text=True, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
    finally:
        os.close(writing)

    assert (done.returncode, done.stderr) == (141, "")


def test_a_reader_that_has_enough_is_no_error(project: Path) -> None:
    command = f"{sys.executable} -m simkit schema | head -n 1"

    done = subprocess.run(
        command, shell=True, capture_output=True, text=True, check=True,
        cwd=Path(__file__).parents[2],
    )  # fmt: skip

    assert (done.stdout, done.stderr) == ("{\n", "")
