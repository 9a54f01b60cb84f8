"""A function of the user that ends its program does not end simkit: no command may pass by it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import process as process
from tests.cli.projects import Done, write

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
    turn: str, simkit: Callable[..., Done], project: Path, monkeypatch: pytest.MonkeyPatch
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
    assert "3 held" in done.out


def test_a_function_that_ends_the_process_ends_no_command_with_success(
    process: Callable[..., Done], project: Path
) -> None:
    write("leaves_at_once.py", "import os\n\n\ndef leave(message):\n    os._exit(0)\n")
    write(
        "scenarios/leaves.scenario.yaml",
        "scenario: it leaves\npipeline: leaves_at_once:leave\napp: {path: [..]}\n"
        "turns: [{user: hi, expect: {reply: Bye.}}]\n",
    )

    done = process("replay", "scenarios")

    assert done.code == 2
    assert "leaves_at_once.py:5: the code under test called os._exit(0)" in done.err
