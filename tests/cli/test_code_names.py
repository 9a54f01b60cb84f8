"""Code that is named where a scenario is wanted: one error, which says how to begin with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from simkit import Simulation, SourceError
from tests.cli.conftest import project as project
from tests.cli.conftest import simkit as simkit
from tests.cli.projects import Call, write

DESK = "LIMIT = 3\n_own = 1\n\n\ndef answer(text):\n    return text\n\n\nclass Desk:\n    pass\n"


@pytest.fixture(autouse=True)
def code(project: object) -> None:
    write("desk.py", DESK)
    write("shop/app.py", "raise SystemExit('it was run')\n\n\ndef ask(text):\n    return text\n")
    write("broken.py", "def broken(:\n")
    write("talk.ipynb", '{"cells": [], "nbformat": 4}')


@pytest.mark.slow
def test_a_module_that_is_no_program_is_told_its_names(simkit: Call) -> None:
    done = simkit("init", "--app", "desk")

    assert done.code == 2
    assert "ended without reading a message" in done.err
    assert "where NAME is one of `answer`, `Desk`" in done.err


METHODS = """
class Desk:
    def answer(self, text):
        return text.upper()

    def other(self, text):
        return text.nothing

    class Inner:
        def ask(self, text):
            return text


def make():
    return Desk()
"""
CALLS_MODEL = """
import openai


class Desk:
    def answer(self, text):
        client = openai.OpenAI(api_key="x")
        messages = [{"role": "user", "content": text}]
        reply = client.chat.completions.create(model="gpt-4o", messages=messages)
        return reply.choices[0].message.content

    def other(self, text):
        raise NotImplementedError
"""


@pytest.mark.slow
def test_a_method_is_explored_and_its_scenarios_call_it(simkit: Call) -> None:
    write("counter.py", METHODS)

    assert simkit("explore", "counter:Desk.answer", "--runs", "3").code == 0
    done = simkit("explore", "counter:Desk.other", "--runs", "3")

    assert done.code == 1
    (file,) = Path("found").iterdir()
    text = file.read_text(encoding="utf-8")
    assert "pipeline: counter:Desk\napp: {call: other}\n" in text
    assert simkit("replay", str(file)).code == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["counter:Desk.answer", "counter.py:Desk.answer"])
def test_the_first_scenario_of_a_method_calls_it(name: str, simkit: Call) -> None:
    write("counter.py", CALLS_MODEL)

    done = simkit("init", "--app", name)

    assert done.code == 0, done.err
    files_text = "".join(file.read_text(encoding="utf-8") for file in Path().rglob("counter*.yaml"))
    assert "call: answer" in files_text
    assert ": counter:Desk\n" in files_text


def test_a_test_is_told_how_a_method_is_named(project: object) -> None:
    write("counter.py", METHODS)

    with pytest.raises(SourceError, match=r"`counter:Desk`, with `app: \{call: answer\}`"):
        Simulation("counter:Desk.answer")
