"""Code that is named where a scenario is wanted: one error, which says how to begin with it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.cli.conftest import project as project
from tests.cli.conftest import simkit as simkit
from tests.cli.projects import Done, write

Call = Callable[..., Done]
DESK = "LIMIT = 3\n_own = 1\n\n\ndef answer(text):\n    return text\n\n\nclass Desk:\n    pass\n"
INIT = "`simkit init --app {}`"


@pytest.fixture(autouse=True)
def code(project: object) -> None:
    write("desk.py", DESK)
    write("shop/app.py", "raise SystemExit('it was run')\n\n\ndef ask(text):\n    return text\n")
    write("broken.py", "def broken(:\n")
    write("talk.ipynb", '{"cells": [], "nbformat": 4}')


@pytest.mark.parametrize("command", ["replay", "explore"])
@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("desk", INIT.format("desk.py:NAME") + ", where NAME is one of `answer`, `Desk`."),
        ("desk.py", INIT.format("desk.py:NAME")),
        ("shop/app.py", INIT.format("shop/app.py:ask")),
        ("shop.app", INIT.format("shop/app.py:ask")),
        ("shop/app.py:ask", INIT.format("shop/app.py:ask")),
        ("broken.py", INIT.format("broken.py")),
        ("talk.ipynb", "`jupyter nbconvert --to script talk.ipynb`"),
        ("talk.ipynb", INIT.format("talk.py:NAME")),
    ],
)
def test_code_is_told_how_to_begin(command: str, name: str, advice: str, simkit: Call) -> None:
    done = simkit(command, name)

    assert (done.code, done.out) == (2, "")
    assert advice in done.err
    assert "Name it" not in done.err
    assert len(done.err.splitlines()) == 2


def test_code_by_its_module_is_no_scenario_for_replay(simkit: Call) -> None:
    done = simkit("replay", "desk:answer")

    assert done.code == 2
    assert INIT.format("desk:answer") in done.err


@pytest.mark.parametrize("name", ["nothing", "nothing.py", "nothing.ipynb"])
def test_a_name_of_nothing_has_no_advice(name: str, simkit: Call) -> None:
    done = simkit("explore", name)

    assert (done.code, "simkit init" in done.err) == (2, False)


def test_a_module_that_is_no_program_is_told_its_names(simkit: Call) -> None:
    done = simkit("init", "--app", "desk")

    assert done.code == 2
    assert "ended without reading a message" in done.err
    assert "where NAME is one of `answer`, `Desk`" in done.err


@pytest.mark.parametrize(
    ("name", "problem"), [("talk.ipynb", "is a notebook"), ("broken:broken", "SyntaxError")]
)
def test_no_option_is_advised_where_none_helps(name: str, problem: str, simkit: Call) -> None:
    done = simkit("init", "--app", name)

    assert done.code == 2
    assert problem in done.err
    assert "--option" not in done.err
