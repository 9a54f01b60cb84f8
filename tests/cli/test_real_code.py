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


NO_PIPELINE = {
    "shop_desk:Neds": "3:11: `shop_desk:Neds`: module 'shop_desk' has no 'Neds'. "
    "Did you mean `shop_desk:Needs`?",
    "shop_desk:Many": "3:11: `shop_desk:Many` is or makes an object of class `Many`, and it "
    "is not clear which method takes the user's message: run, ask.\nName it: `app: {call: run}`, "
    "or `shop_desk:Many.run` for `init` and `explore`.",
    "shop_desk:Needs": "3:11: `shop_desk:Needs` is a class that cannot be instantiated without "
    "`client`.\nName a function without parameters that returns one, or the object itself.",
    "shop_desk:count": "3:11: `shop_desk:count` is an object of class `int`, not a function of the "
    "user's message, nor an object with such a method.",
    "shop_desk:named": "3:11: `shop_desk:named` is called with the user's message alone, and takes "
    "no argument by its place.\n"
    "Name a function that takes the message and adds the rest: `def run(text): …`.",
    "shop_desk:with_user": "3:11: `shop_desk:with_user` is called with the user's message alone, "
    "and needs `user_id` as well.\n"
    "Name a function that takes the message and adds the rest: `def run(text): …`.",
    "shop_desk:empty": "3:11: `shop_desk:empty` takes no parameter, so it must return the "
    "pipeline: a function of the user's message, or an object. It returned nothing.\n"
    "If it is a program that reads the user's messages by `input()`, run it as it is: "
    "`app: {input: turns}`. Else name a function that takes one message and returns the reply, "
    "`def answer(text): …`.",
    "shop_desk:failing": "3:11: `shop_desk:failing` takes no parameter, so it was called to make "
    "the pipeline, and raised KeyError: 'client' at shop_desk.py:30 in failing.\n"
    "If it is a program that reads the user's messages by `input()`, run it as it is: "
    "`app: {input: turns}`. Else name a function that takes one message and returns the reply, "
    "`def answer(text): …`.",
    "shop_desk.py:Desk": "3:11: `shop_desk.py:Desk` names a file. Name its module: "
    "`shop_desk:Desk`.",
    "code/shop_desk.py::Desk": "3:11: `code/shop_desk.py::Desk` is no `module:function`\n"
    "  at pipeline\n"
    "  Code is named as it is imported: `shop_desk:Desk`, with `app: {path: [code]}`.",
    "shop_desk:Desk.answer": "3:11: `shop_desk:Desk.answer` is no `module:function`\n"
    "  at pipeline\n"
    "  Code is named as it is imported: `shop_desk:Desk`, with `app: {call: answer}`.",
    "shop_desk.Desk": "3:11: there is no pipeline `shop_desk.Desk` in this file\n"
    "  at pipeline\n"
    "  A pipeline that is code is named `shop_desk:Desk`.",
    "shop_desk.Dsk": "3:11: there is no pipeline `shop_desk.Dsk` in this file\n"
    "  at pipeline\n"
    "  Module `shop_desk` defines no `Dsk`. Did you mean `shop_desk:Desk`? It has: Desk, Many, "
    "Needs, named, with_user, empty, failing, stops, ….",
    "shop_desk": "3:11: there is no pipeline `shop_desk` in this file\n"
    "  at pipeline\n"
    "  `shop_desk` is a module. Name what it holds: `shop_desk:Desk`. It has: Desk, Many, Needs, "
    "named, with_user, empty, failing, stops, ….",
    "code/shop_desk.py": "3:11: there is no pipeline `code/shop_desk.py` in this file\n"
    "  at pipeline\n"
    "  Code is named as it is imported: `shop_desk:Desk`, with `app: {path: [code]}`.",
}


@pytest.mark.parametrize("pipeline", NO_PIPELINE)
def test_a_name_that_leads_to_no_pipeline_is_told_with_what_was_near(
    simkit: Call, pipeline: str
) -> None:
    assert run_desk(simkit, pipeline) == NO_PIPELINE[pipeline]


def test_a_method_that_is_not_there_is_told_with_those_that_are(simkit: Call) -> None:
    assert run_desk(simkit, "shop_desk:Desk", "{path: [code], call: chat}") == (
        "3:11: `shop_desk:Desk` is or makes an object of class `Desk`, which has no method 'chat' "
        "(`app.call`). It has: answer."
    )


def test_a_module_that_is_misspelt_is_told_with_the_one_that_is_there(simkit: Call) -> None:
    assert run_desk(simkit, "shop_dsk:Desk", "{path: [code]}") == (
        "3:11: function `shop_dsk:Desk`: there is no module 'shop_dsk'. It is looked for in the "
        "working directory and on sys.path.\nDid you mean 'shop_desk'?"
    )


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


@pytest.mark.parametrize(
    ("path", "says"),
    [
        (
            "[code, cod]",
            "4:20: there is no folder `cod`, seen from the folder of this file. "
            "Did you mean `code`?\n"
            "Name the folder that 'shop_desk' is in, from this file's: `app: {path: [..]}`.",
        ),
        (
            "[code/shop_desk.py]",
            "4:14: `code/shop_desk.py` is a file, seen from the folder of this file.\n"
            "Name the folder that 'shop_desk' is in, from this file's: `app: {path: [..]}`.",
        ),
    ],
    ids=["misspelt", "a file"],
)
def test_a_folder_that_is_not_there_is_told_with_the_one_that_has_the_module(
    simkit: Call, path: str, says: str
) -> None:
    assert run_desk(simkit, "shop_desk:breaks", f"{{path: {path}}}") == says


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


IMPORTS = {
    "import os\nKEY = os.environ['SHOP_KEY']\n": " at shop_desk.py:2 in <module>: KeyError: "
    "'SHOP_KEY'\nSet it for the scenario: `app: {env: {SHOP_KEY: …}}`.",
    "KEY = {}['SHOP_KEY']\n": " at shop_desk.py:1 in <module>: KeyError: 'SHOP_KEY'",
    "import no_such_library\n": " at shop_desk.py:1 in <module>: ModuleNotFoundError: No module "
    "named 'no_such_library'\nInstall 'no_such_library' into this environment, or name the folder "
    "that it is in: `app: {path: [..]}`.",
    "raise SystemExit(2)\n": " at shop_desk.py:1 in <module>: SystemExit: 2\n"
    'What a module does as a program belongs under `if __name__ == "__main__":`.',
    "def run(text)\n": ": SyntaxError: expected ':' (shop_desk.py, line 1)",
}


@pytest.mark.parametrize("code", IMPORTS)
def test_a_module_that_cannot_be_imported_is_told_with_its_line(simkit: Call, code: str) -> None:
    assert run_desk(simkit, "shop_desk:run", code=code) == (
        f"3:11: function `shop_desk:run`: importing 'shop_desk' failed{IMPORTS[code]}"
    )


@pytest.mark.parametrize(
    ("pipeline", "raised"),
    [
        ("shop_desk:breaks", "KeyError: 'missing', at shop_desk.py:39 in deeper"),
        ("shop_desk:stops", "SystemExit: 3, at shop_desk.py:33 in stops"),
    ],
)
def test_what_the_code_raises_is_an_error_of_the_turn_with_its_own_line(
    simkit: Call, pipeline: str, raised: str
) -> None:
    findings = run_desk(simkit, pipeline)

    assert " ".join(findings.split("\n    turns:")[0].split()) == (
        f"5:9: turn 1 ended with error FunctionFailed: `{pipeline}` raised {raised}"
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
    assert "3 held" in done.out


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
    assert "3 held, 1 failed" in done.out
