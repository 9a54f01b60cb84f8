"""The command line, called from outside in a folder with scenarios."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

import simkit.spec.json_schemas as schema_commands
from simkit.cli import main
from tests.cli.projects import ECHO, GOOD, ROWS, Call, Done, run_simkit, without_times, write
from tests.cli.projects import ROOT as ROOT


@pytest.fixture(scope="package", autouse=True)
def _schemas_made_once() -> Iterator[None]:
    """Make the schemas once for all commands of this process: that takes most of a second."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schema_commands, "schemas", functools.cache(schema_commands.schemas))
        yield


@pytest.fixture
def project(cwd: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: `scenarios/` with one good file."""
    monkeypatch.delenv("SIMKIT_TRACEBACK", raising=False)
    (cwd / "scenarios").mkdir()
    write("scenarios/good.scenario.yaml", ECHO + GOOD + ROWS)
    return cwd


@pytest.fixture
def simkit(project: Path, capsys: pytest.CaptureFixture[str]) -> Call:
    """Calls the command line in this process; times are taken out of what it prints."""

    def call(*arguments: str) -> Done:
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        out, err = capsys.readouterr()
        return Done(int(stop.value.code or 0), without_times(out), err)

    return call


@pytest.fixture
def process(project: Path) -> Call:
    """Calls the command line in a process of its own, with `-j` in several for any scenario."""

    def call(*arguments: str, **environment: str) -> Done:
        module = "tests.cli.in_processes" if "-j" in arguments else "simkit"
        done = run_simkit(*arguments, module=module, **environment)
        return done._replace(out=without_times(done.out))

    return call
