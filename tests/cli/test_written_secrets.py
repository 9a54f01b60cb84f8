"""What a user writes into files under a secret's name leaves by no door, wherever it turns up."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from simkit.cli import processes
from tests.cli.projects import Done, write
from tests.conftest import sample_by_day
from tests.processes import run_python

ROOT = Path(__file__).resolve().parents[2]
SECRET: Final = "Wq81plainly-mine"
"""It has no shape by which it could be known."""

CODE: Final = """\
import os
def run(message):
    return f"I say {os.environ['DB_PASSWORD']} aloud"
"""
SHOP: Final = """\
version: 1
pipeline: shop
channels: {vault: {scope: session, default: none}}
agents:
  a:
    instructions: "Say it: ${state.vault}"
    tools: [login]
    context: [instructions, history, current_message]
flow: {handoffs: {start: a}}
"""
_APP: Final = """\
version: 1
scenario: s
pipeline: talk:run
app: {path: [.], env: {DB_PASSWORD: Wq81plainly-mine}}
turns: [{user: hi, expect: {reply: other}}]
"""
_TURN: Final = """\
---
version: 1
scenario: s
pipeline: shop
turns:
  - user: say Wq81plainly-mine
    replies: {a: [calls: {login: ARGS}, "it is Wq81plainly-mine"]}
    tool_results: {login: {said: "Wq81plainly-mine", more: RESULT}}
    expect: {reply: other}
"""


def _with(args: str = "{}", result: str = "{}") -> str:
    return SHOP + _TURN.replace("ARGS", args).replace("RESULT", result)


FILES: Final = {
    "app.env": {"s.scenario.yaml": _APP},
    "app.env of a pipeline's file": {
        "talk.pipeline.yaml": "version: 1\npipeline: talk\ncode: talk:run\n"
        "app: {path: [.], env: {DB_PASSWORD: Wq81plainly-mine}}\n" ,
        "s.scenario.yaml": "version: 1\nscenario: s\npipeline: talk.pipeline.yaml\n"
        "turns: [{user: hi, expect: {reply: other}}]\n",
    },
    "tool arguments": {"s.scenario.yaml": _with(args="{password: Wq81plainly-mine}" )},
    "headers": {
        "s.scenario.yaml": _with(result="{headers: {Authorization: Bearer Wq81plainly-mine}}" )
    },
    "a variable's name": {"s.scenario.yaml": _with(result="{OPENAI_API_KEY: Wq81plainly-mine}" )},
    "a list": {"s.scenario.yaml": _with(result="{api_key: [Wq81plainly-mine]}" )},
    "given state": {
        "s.scenario.yaml": _with().replace(
            "turns:", "given: {state: {vault: {api_key: Wq81plainly-mine}}}\nturns:" 
        )
    },
    "a shared file": {
        "shared.yaml": "given: {state: {vault: {api_key: Wq81plainly-mine}}}\n" ,
        "s.scenario.yaml": _with().replace("turns:", "use: [shared.yaml]\nturns:"),
    },
    "a table of examples": {
        "s.scenario.yaml": _with(args="{password: '${column.password}'}").replace(
            "turns:", "examples: [{password: Wq81plainly-mine}]\nturns:" 
        )
    },
    "a claim": {
        "s.scenario.yaml": _with().replace(
            "expect: {",
            "expect: {tool_calls: [{tool: login, args: {password: Wq81plainly-mine}}], ",
        )
    },
}  # fmt: skip


@pytest.fixture(params=[*FILES.values()], ids=[*FILES])
def secret_project(request: pytest.FixtureRequest, project: Path) -> Path:
    """A project that holds a secret, in one of the places where users write them down."""
    shutil.rmtree(project / "scenarios")
    write("talk.py", CODE)
    for name, text in request.param.items():
        write(name, text)
    return project


CALLS: Final = {
    "table": ("replay", "."),
    "context": ("replay", ".", "--show", "context"),
    "state": ("replay", ".", "--show", "state"),
    "events": ("replay", ".", "--show", "events"),
    "json": ("replay", ".", "--format", "json"),
    "github": ("replay", ".", "--format", "github"),
    "processes": ("replay", ".", "-j", "2"),
    "judge": ("judge",),
    "validate": ("validate", "."),
}


def test_a_secret_that_a_file_holds_reaches_no_output(
    secret_project: Path, simkit: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "SIZE_MIN", 1)
    for name, call in CALLS.items():
        done = simkit(*call)

        assert SECRET not in done.out + done.err, name
        assert "Traceback" not in done.err, name
    assert SECRET not in "".join(
        file.read_text() for file in (secret_project / ".simkit").rglob("*") if file.is_file()
    )
    assert "[redacted:env]" in simkit("replay", ".").out


@pytest.mark.slow
@pytest.mark.parametrize("secret_project", sample_by_day(FILES.values(), 4), indirect=True)
def test_pytest_and_its_reports_hold_no_secret_of_a_file(secret_project: Path) -> None:
    done = run_python("-m", "pytest", "-q", "-n0", "-rA", "--junitxml=report.xml", ".")

    assert done.returncode == 1, done.stdout + done.stderr
    assert SECRET not in done.stdout + done.stderr
    assert SECRET not in (secret_project / "report.xml").read_text()
    assert "[redacted:env]" in done.stdout


def test_a_misspelt_key_beside_a_secret_is_told_without_it(simkit: Callable[..., Done]) -> None:
    write("scenarios/bad.scenario.yaml", _APP + f"start: {SECRET}\n")

    done = simkit("replay", "scenarios/bad.scenario.yaml")

    assert done.code == 2
    assert SECRET not in done.out + done.err
    assert "[redacted:env]" in done.out


def test_a_claim_that_a_written_secret_is_nowhere_fails_of_its_stored_trace_too(
    simkit: Callable[..., Done],
) -> None:
    text = _with(args="{password: Wq81plainly-mine}")
    claim = 'expect: {context: {"a[0]": {excludes: [{$contains: Wq81plainly-mine}]}}}'
    write("scenarios/good.scenario.yaml", text.replace("expect: {reply: other}", claim))

    ran, judged = simkit("replay", "-q"), simkit("judge", "-q")

    assert (ran.code, judged.code) == (1, 1)


@pytest.mark.slow
def test_serve_does_not_print_a_secret_as_if_it_could_be_used(project: Path) -> None:
    write("talk.py", CODE)
    write("s.scenario.yaml", _APP)

    # Its own program prints what it was given.
    done = run_python(
        "-m",
        "simkit",
        "serve",
        "s.scenario.yaml",
        "--then",
        f"{sys.executable} -c 'import os; print(len(os.environ[\"DB_PASSWORD\"]))'",
    )

    assert str(len(SECRET)) in done.stdout.split()
    assert SECRET not in done.stdout + done.stderr
