"""Every command answers a program with one JSON object, which one schema describes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import click
import pytest
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError, best_match

from simkit.cli.commands import cli
from simkit.core import answers
from tests.cli.projects import BAD, ECHO, MISSPELT, Call, write

SCHEMA: Final = json.loads(answers.SCHEMA.read_text(encoding="utf-8"))

GOOD: Final = "scenarios/good.scenario.yaml"
ANSWERED: Final[dict[str, tuple[str, ...]]] = {
    "replay": (GOOD,),
    "record": (GOOD, "--mode", "none"),
    "judge": (),
    "validate": (GOOD,),
    "expect": (GOOD,),
    "init": ("new", "--sample"),
    "schema": ("scenario",),
    "doctor": (f"{GOOD}::it holds",),
    "explain": ("HND-12",),
    "bdd steps": (),
    "explore": (f"{GOOD}::it holds", "--runs", "5", "--exhaustive"),
    "coverage": (GOOD,),
    "mutate": (GOOD, "--max", "3"),
    "diff": (".simkit", ".simkit"),
    "view": ("--no-open",),
    "graph": (GOOD,),
    "cassettes": ("scan", "scenarios"),
    "export": (),
    "import": ("run.jsonl", "-o", "imported.scenario.yaml"),
}
"""The words of a call that succeeds, by command."""
IN_OTHER_FILES: Final = {
    "live": "asks real models; `tests/cli/test_live.py` holds its keys",
    "mcp": "speaks MCP on stdout; `tests/cli/test_tool_server.py`",
    "serve": "answers until it is stopped; `tests/cli/test_serve.py`",
}
REFUSED: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(ANSWERED, ("--nonsense",)),
    "live": (GOOD, "--k", "40"),
    "mcp": ("--nonsense",),
    "serve": ("nowhere.scenario.yaml",),
}


def leaves(group: click.Group, *above: str) -> dict[str, click.Command]:
    commands: dict[str, click.Command] = {}
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            commands |= leaves(command, *above, name)
        else:
            commands[" ".join((*above, name))] = command
    return commands


def _deepest(error: ValidationError) -> str:
    deepest = best_match([error])
    return f"{deepest.json_path}: {deepest.message}"[:300]


def answer_of(text: str, command: str) -> dict[str, Any]:
    """Return the one object of an output, which must be as the schema says."""
    answer: dict[str, Any] = json.loads(text)
    problems = [_deepest(error) for error in Draft202012Validator(SCHEMA).iter_errors(answer)]
    assert problems == []
    assert answer["command"] == command
    return answer


def test_all_commands_are_held() -> None:
    named = {name for name in SCHEMA["properties"]["command"]["enum"] if name}

    assert {*ANSWERED, *IN_OTHER_FILES} == {*leaves(cli)} == named == {*REFUSED}


@pytest.mark.parametrize("command", ANSWERED)
def test_a_command_answers(simkit: Call, command: str) -> None:
    simkit("replay", "-q")
    simkit("export", "-o", "run.jsonl")

    done = simkit(*command.split(), *ANSWERED[command], "--format", "json")

    answer = answer_of(done.out, command)
    assert answer["error"] is None
    assert answer["exit_code"] == done.code == 0
    assert answer["messages"] == done.err.splitlines()


@pytest.mark.parametrize("command", REFUSED)
def test_a_command_refuses(simkit: Call, command: str) -> None:
    done = simkit(*command.split(), *REFUSED[command], "--format=json")

    answer = answer_of(done.out, command)
    assert answer["exit_code"] == done.code == 2
    assert answer["error"]["message"] in done.err.replace("Error: ", "")


def test_an_error_of_a_file_has_its_parts(simkit: Call) -> None:
    write("bad.scenario.yaml", ECHO + MISSPELT)

    answer = answer_of(simkit("expect", "bad.scenario.yaml", "--format", "json").out, "expect")
    problems = answer_of(
        simkit("validate", "bad.scenario.yaml", "--format", "json").out, "validate"
    )

    assert answer["error"]["type"] == "SourceError"
    assert answer["error"]["near"] == "reply"
    assert problems["problems"][0]["near"] == "reply"


def test_a_wrong_command_is_an_answer_too(simkit: Call) -> None:
    answer = answer_of(simkit("replai", "--format", "json").out, "")

    assert answer["error"]["type"] == "UsageError"
    assert "Did you mean `replay`?" in answer["error"]["message"]


def test_findings_are_an_answer_without_an_error(simkit: Call) -> None:
    write("bad.scenario.yaml", ECHO + BAD)

    answer = answer_of(simkit("replay", "bad.scenario.yaml", "--format", "json").out, "replay")

    assert (answer["exit_code"], answer["error"]) == (1, None)
    assert answer["scenarios"][0]["findings"][0]["id"] == "claim"


def test_what_was_written_is_listed(simkit: Call) -> None:
    answer = answer_of(simkit("init", "new", "--sample", "--format", "json").out, "init")

    assert str(Path("new/scenarios/refund.scenario.yaml")) in answer["wrote"]
    assert all(Path(file).is_file() for file in answer["wrote"])
    assert answer["next"][0] == "simkit replay scenarios"


def test_nothing_is_asked_and_nothing_is_coloured(
    simkit: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    write("bare.scenario.yaml", ECHO + "---\nversion: 1\nscenario: bare\npipeline: echo\n"
          "turns: [{user: hi, replies: {a: hello}}]\n")  # fmt: skip

    answer = answer_of(simkit("expect", "bare.scenario.yaml", "--format", "json").out, "expect")

    assert answer["exit_code"] == 1
    assert answer["changes"][0]["file"] == "bare.scenario.yaml"
    assert "\x1b" not in json.dumps(answer)


def test_the_schema_of_answers_is_printed(simkit: Call) -> None:
    assert json.loads(simkit("schema", "answers").out) == SCHEMA


@pytest.mark.slow
def test_a_bug_is_an_answer(project: Path) -> None:
    script = (
        "import simkit.cli.commands.files as f, sys\n"
        "import simkit.spec.lint_catalogue as x\n"
        "x.explanation_of = lambda words: 1 / 0\n"
        "from simkit.cli import main\n"
        "main(['explain', 'X', '--format', 'json'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60
    )

    answer = answer_of(done.stdout, "explain")
    assert answer["error"]["type"] == "Bug"
    assert "ZeroDivisionError" in answer["error"]["message"]


@pytest.mark.parametrize(
    ("words", "is_wanted"),
    [([], False), (["replay"], False), (["replay", "--format"], False),
     (["--format=json"], True), (["--format", "json"], True), (["-h", "--format", "json"], False)],
)  # fmt: skip
def test_a_command_line_of_any_length_may_ask_for_json(words: list[str], is_wanted: bool) -> None:
    assert answers.wants_json(words) == is_wanted
