"""A function of the user that ends its program does not end simkit: no command may pass by it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

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
