"""Code that is named where a scenario is wanted: one error, which says how to begin with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from simkit import Simulation, SourceError
from tests.cli.conftest import project as project
from tests.cli.conftest import simkit as simkit
from tests.cli.projects import Call, Done, write

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


@pytest.mark.slow
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
DEEPER = ("counter:Desk.Inner.ask", "counter:make().answer", "counter:Desk()")
"""Names that are no method of a class at the top of the module."""
FILES = {
    "pipeline": "scenario: s\npipeline: {name}\nturns: [{{user: Hi.}}]\n",
    "code": "scenario: s\npipeline: p\nturns: [{{user: Hi.}}]\n---\npipeline: p\ncode: {name}\n",
    "setup": (
        "scenario: s\npipeline: counter:make\napp: {{setup: '{name}'}}\nturns: [{{user: Hi.}}]\n"
    ),
}
"""Each place of a scenario's file that holds a name of code."""


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


@pytest.mark.parametrize("name", DEEPER)
@pytest.mark.parametrize(
    "command", [("explore",), ("replay",), ("coverage",), ("graph",), ("init", "--app")]
)
def test_a_name_further_inside_is_told_what_can_be_named(
    command: tuple[str, ...], name: str, simkit: Call
) -> None:
    write("counter.py", METHODS)

    done = simkit(*command, name)

    assert done.code == 2
    inner = name.partition(":")[2]
    assert f"`{inner}` is no name at the top of `counter`. Write a function there" in done.err
    assert "`counter:pipeline`" in done.err


@pytest.mark.parametrize("name", ["a.scenario.yaml", "absent.pipeline.yaml", "notes.md:run"])
def test_an_app_in_a_file_of_another_kind_is_no_code(name: str, simkit: Call) -> None:
    write("a.scenario.yaml", "scenario: a\npipeline: counter:answer\nturns: []\n")
    write("notes.md", "# Notes\n")
    before = sorted(Path().rglob("*"))

    done = simkit("init", "--app", name)

    assert done == Done(
        2,
        "",
        f"{name}: this is no Python code\n"
        "  Name a function of a module, such as `myapp.agents:run`.\n",
    )
    assert sorted(Path().rglob("*")) == before


@pytest.mark.parametrize("place", FILES)
@pytest.mark.parametrize("name", [*DEEPER, "counter:Desk.answer"])
def test_a_file_names_what_can_stand_there(place: str, name: str, simkit: Call) -> None:
    write("counter.py", METHODS)
    write("s.scenario.yaml", FILES[place].format(name=name))

    done = simkit("replay", "s.scenario.yaml")

    assert done.code == 2
    assert "is no `module:function`" in done.out
    ways = ("Write a function there", "write a function there", "`app: {call: answer}`")
    assert any(way in done.out for way in ways)


def test_a_test_is_told_how_a_method_is_named(project: object) -> None:
    write("counter.py", METHODS)

    with pytest.raises(SourceError, match=r"`counter:Desk`, with `app: \{call: answer\}`"):
        Simulation("counter:Desk.answer")
