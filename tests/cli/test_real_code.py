"""Pipelines that are code: how they are called, and functions that end the program."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.cli.conftest import process as process
from tests.cli.projects import Call, write
from tests.own_processes import OWN_PROCESSES

CODE = """\
import sys

class Desk:
    def answer(self, text):
        return text

class Many(Desk):
    def run(self, text):
        return text

    def ask(self, text):
        return text

class Needs:
    def __init__(self, client):
        self.client = client

desk, count = Desk(), 3

def named(*, text):
    return text

def with_user(text, user_id, role="guest"):
    return text

def empty():
    pass

def failing():
    return {}["client"]

def stops(text):
    sys.exit(3)

def breaks(text):
    return deeper({})

def deeper(found):
    return found["missing"]
"""


def run_desk(simkit: Call, pipeline: str, app: str = "{path: [code]}", code: str = CODE) -> str:
    """Runs a scenario of a pipeline whose module is `code/shop_desk.py`; returns what is told."""
    Path("code").mkdir(exist_ok=True)
    write("code/shop_desk.py", code)
    write(
        "shop.scenario.yaml",
        f"version: 1\nscenario: s\npipeline: {pipeline}\napp: {app}\nturns: [{{user: Hello}}]\n",
    )
    done = simkit("replay", "shop.scenario.yaml")
    before, _, _ = done.out.partition("\n\nreproduce:")
    _, _, result = before.partition("shop.scenario.yaml:")
    return result


def far_scenario(project: Path, folder: str, module: str = "far_desk") -> None:
    """Write a scenario in `tests`, and its module in a folder of the project."""
    (project / folder).mkdir(parents=True, exist_ok=True)
    (project / folder / "far_desk.py").write_text(CODE, encoding="utf-8")
    write(
        str(project / "tests" / "flows" / "far.scenario.yaml"),
        f"scenario: s\npipeline: {module}:stops\nturns: [{{user: Hello}}]\n",
    )


@pytest.mark.parametrize("folder", ["tests/flows", "tests", ".", "src", "lib", "app"])
def test_a_module_is_looked_for_upwards_in_the_project(
    simkit: Call, project: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    (project / "pyproject.toml").touch()
    far_scenario(project, folder)
    monkeypatch.delitem(sys.modules, "far_desk", raising=False)
    (project / "elsewhere").mkdir()
    monkeypatch.chdir(project / "elsewhere")

    done = simkit("replay", "../tests/flows/far.scenario.yaml")

    assert "`far_desk:stops` raised" in done.out


def test_a_module_above_the_project_is_not_found(
    simkit: Call, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = project / "inner"
    far_scenario(inner, "tests")
    (inner / "tests" / "far_desk.py").rename(project / "far_desk.py")
    (inner / "pyproject.toml").touch()
    monkeypatch.delitem(sys.modules, "far_desk", raising=False)
    monkeypatch.chdir(inner)

    done = simkit("replay", "tests")

    assert "there is no module 'far_desk'" in done.out


@pytest.mark.slow
def test_a_module_that_is_not_found_is_told_with_what_to_write(
    process: Call, project: Path
) -> None:
    # In a process whose working directory is another than the scenario's folder.
    far_scenario(project, "elsewhere")

    done = process("replay", "tests/flows/far.scenario.yaml")

    assert done.out.splitlines()[3:5] == [
        "tests/flows/far.scenario.yaml:2:11: function `far_desk:stops`: there is no module "
        "'far_desk'. It is looked for in the working directory and on sys.path.",
        "Name the folder that 'far_desk' is in, from this file's: `app: {path: [..]}`.",
    ]


@pytest.mark.slow
def test_folders_of_which_nothing_was_imported_are_told_with_the_module_that_was(
    simkit: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("empty").mkdir()
    monkeypatch.syspath_prepend(str(Path("code").absolute()))
    echo = "def run(text):\n    return text\n"

    assert run_desk(simkit, "shop_desk:run", "{path: [empty], fresh: true}", echo) == (
        "4:13: nothing was imported from `empty`: module 'shop_desk' is code/shop_desk.py.\n"
        "Name the folder of the module that is meant, or leave `path` out."
    )


MODULE = """\
import sys


def leave(*_, **__):
    sys.exit(0)
"""
PIPELINE = """\
pipeline: desk
agents: {desk: {instructions: Help., tools: [look_up]}}
tools: {look_up: {function: "NAME:leave"}}
flow: {handoffs: {start: desk}}
"""
TURNS = {
    "a predicate": '{replies: {desk: Hello.}, expect: {satisfies: "NAME:leave"}}',
    "a tool": "{replies: {desk: [{calls: {look_up: {}}}, Hello.]}, expect: {reply: Bye.}}",
    "a reply": '{replies: {desk: {function: "NAME:leave"}}}',
}


@pytest.mark.parametrize("turn", TURNS.values(), ids=TURNS)
def test_a_function_that_exits_fails_its_scenario(
    turn: str, simkit: Call, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"leaves_{list(TURNS.values()).index(turn)}"
    monkeypatch.syspath_prepend(str(project))
    write(f"{name}.py", MODULE)
    write("scenarios/desk.pipeline.yaml", PIPELINE.replace("NAME", name))
    write(
        "scenarios/leaves.scenario.yaml",
        "scenario: it leaves\npipeline: desk.pipeline.yaml\n"
        f"turns: [{{user: hi, {turn[1:].replace('NAME', name)}]\n",
    )

    done = simkit("replay", "scenarios")

    assert done.code in (1, 2)
    assert "SystemExit: 0" in done.out
    assert "3 passed" in done.out


@pytest.mark.slow
@OWN_PROCESSES
def test_a_function_that_ends_the_process_ends_no_command_with_success(
    process: Call, project: Path
) -> None:
    write("leaves_at_once.py", "import os\n\n\ndef leave(message):\n    os._exit(0)\n")
    write(
        "scenarios/leaves.scenario.yaml",
        "scenario: it leaves\npipeline: leaves_at_once:leave\napp: {path: [..]}\n"
        "turns: [{user: hi, expect: {reply: Bye.}}]\n",
    )

    done = process("replay", "scenarios")

    assert done.code == 1
    assert "RUN-09: the process of this scenario ended in turn 1" in done.out
    assert "leaves_at_once.py:5 called os._exit(0)" in " ".join(done.out.split())
    assert "3 passed, 1 failed" in done.out
