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
from tests.cli.projects import GOOD as HELD

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
LEAK: Final = "key: sk-proj-" + "a1B2c3D4e5F6g7H8i9J0" * 3 + "\n"
WITH_FINDINGS: Final[dict[str, tuple[str, ...]]] = {
    "replay": ("bad.scenario.yaml",),
    "record": ("bad.scenario.yaml", "--mode", "none"),
    "judge": ("bad",),
    "validate": ("warned.scenario.yaml", "--strict"),
    "expect": ("bare.scenario.yaml",),
    "bdd steps": ("nonsense",),
    "explore": ("caught.scenario.yaml", "--runs", "5"),
    "coverage": (GOOD, "--fail-under", "100"),
    "mutate": ("bare.scenario.yaml", "--max", "40", "--fail-under", "100"),
    "diff": ("bad", "good"),
    "cassettes": ("scan", "leaks"),
    "import": ("run.jsonl", "--pipeline", "other.pipeline.yaml"),
}
"""The words of a call that finds something, by command."""
FINDS_NOTHING: Final = {"init", "schema", "doctor", "explain", "view", "graph", "export"}
NO_FILE: Final = ("nowhere.scenario.yaml",)
WITHOUT_RESULT: Final[dict[str, tuple[tuple[str, ...], ...]]] = {
    **dict.fromkeys(ANSWERED, (("--nonsense",), NO_FILE, ("bytes.scenario.yaml",))),
    "judge": (NO_FILE, ("cut.jsonl",), ("bytes.scenario.yaml",)),
    "init": (("--app", "no.such:thing"), ("--option", "x"), ("bytes.scenario.yaml",)),
    "schema": (("nonsense",), ("scenario", "-o", "no/such/folder.json")),
    "explain": (("ZZZ-99",), ("words", "of", "nobody")),
    "bdd steps": (("--nonsense",),),
    "diff": (NO_FILE, ("cut.jsonl", "cut.jsonl"), ()),
    "graph": (NO_FILE, ("cut.jsonl",)),
    "cassettes": (
        ("scenarios",),
        ("scan", *NO_FILE),
        ("import", "cut.jsonl", "new.yaml"),
        ("nonsense",),
    ),
    "import": (NO_FILE, ("bytes.scenario.yaml",), ("run.jsonl", "-o", "cut.jsonl")),
    "export": (NO_FILE, ("cut.jsonl",), ("-o", "cut.jsonl")),
    "live": (NO_FILE, (GOOD, "--k", "40")),
    "mcp": (("--nonsense",),),
    "serve": (NO_FILE, ("--nonsense",)),
}
"""The words of calls that have no result, by command."""


def with_no_other_keys(schema: Any) -> Any:
    """Return a schema that refuses keys of which it does not speak."""
    if isinstance(schema, list):
        return [with_no_other_keys(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: with_no_other_keys(item) for key, item in schema.items()}
    is_named = "properties" in inner and inner.get("type") == "object"
    return {"additionalProperties": False, **inner} if is_named else inner


def closed_answer(command: str) -> Any:
    """Return the schema of the keys that a command's answer may have, also with an error."""
    own = SCHEMA["$defs"].get(command, {})
    keys = dict(SCHEMA["properties"])
    for part in own.get("anyOf", (own,)):
        keys |= part.get("properties", {})
    return with_no_other_keys({"type": "object", "properties": keys, "$defs": SCHEMA["$defs"]})


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
    for schema in (SCHEMA, closed_answer(command)):
        assert [_deepest(e) for e in Draft202012Validator(schema).iter_errors(answer)] == []
    assert answer["command"] == command
    return answer


def test_all_commands_are_held() -> None:
    named = {name for name in SCHEMA["properties"]["command"]["enum"] if name}

    assert {*ANSWERED, *IN_OTHER_FILES} == {*leaves(cli)} == named == {*WITHOUT_RESULT}


@pytest.mark.parametrize("command", ANSWERED)
def test_a_command_answers(simkit: Call, command: str) -> None:
    simkit("replay", "-q")
    simkit("export", "-o", "run.jsonl")

    done = simkit(*command.split(), *ANSWERED[command], "--format", "json")

    answer = answer_of(done.out, command)
    assert answer["error"] is None
    assert answer["exit_code"] == done.code == 0
    assert answer["messages"] == done.err.splitlines()


@pytest.fixture
def anywhere(simkit: Call) -> Call:
    """Call the command line where there is something to find, and something broken."""
    write("bad.scenario.yaml", ECHO + BAD)
    other = ECHO.replace("a: {", "unused: {instructions: Say., handoffs: []}, a: {")
    write("warned.scenario.yaml", other + HELD)
    write("bare.scenario.yaml", ECHO + HELD.replace(", expect: {reply: hello}", ""))
    write("caught.scenario.yaml", ECHO.replace("handoffs: []", "handoffs: [a]") + HELD)
    write("other.pipeline.yaml", ECHO.replace("Say.", "Speak."))
    write("leaks/leak.yaml", LEAK)
    write("cut.jsonl", '{"event": ')
    Path("bytes.scenario.yaml").write_bytes(b"\xff\xfe\x00")
    for folder, file in (("bad", "bad.scenario.yaml"), ("good", GOOD)):
        simkit("replay", "-q", file)
        Path(".simkit").rename(folder)
    simkit("replay", "-q", GOOD)
    simkit("export", "-o", "run.jsonl")
    return simkit


def test_each_command_is_held_in_each_outcome() -> None:
    assert {*WITH_FINDINGS} | FINDS_NOTHING == {*ANSWERED}


@pytest.mark.parametrize("command", WITH_FINDINGS)
def test_a_command_finds(anywhere: Call, command: str) -> None:
    done = anywhere(*command.split(), *WITH_FINDINGS[command], "--format", "json")

    answer = answer_of(done.out, command)
    assert (answer["exit_code"], done.code, answer["error"]) == (1, 1, None)


@pytest.mark.parametrize("command", WITHOUT_RESULT)
def test_a_command_has_no_result(anywhere: Call, command: str) -> None:
    for words in WITHOUT_RESULT[command]:
        done = anywhere(*command.split(), *words, "--format", "json")

        answer = answer_of(done.out, command)
        assert (answer["exit_code"], done.code) == (2, 2), words
        # A list may have what is broken beside what is not.
        assert answer["error"] or "bytes" in str(answer) or "cut" in str(answer), words
        assert answer["messages"] == [*filter(None, done.err.splitlines())], words
        if answer["error"]:
            texts = [done.err.replace("Error: ", ""), *answer["printed"], *answer.get("notes", ())]
            assert any(answer["error"]["message"] in text for text in texts)


ROWS_SAY_IT: Final = ("replay", "record", "validate", "judge", "cassettes")
"""Commands of whose lists each row says whether it is broken."""
WITHOUT_PATHS: Final = ("init", "schema", "explain", "bdd steps", "mcp", "serve")


@pytest.mark.parametrize("command", sorted({*WITHOUT_RESULT}.difference(WITHOUT_PATHS)))
@pytest.mark.parametrize("place", ["empty", "broken", "mixed"])
def test_bad_input_reads_as_no_success(anywhere: Call, command: str, place: str) -> None:
    Path(place).mkdir()
    if place != "empty":
        write(f"{place}/cut.scenario.yaml", "version: 1\nscenario: [\n")
    if place == "mixed":
        write("mixed/good.scenario.yaml", ECHO + HELD)
    words = {"diff": (place,), "explore": ("--runs", "5")}.get(command, ())

    done = anywhere(command, *words, place, "--format", "json")

    answer = answer_of(done.out, command)
    if command != "cassettes" or place != "empty":
        assert (answer["exit_code"], done.code) == (2, 2)
        assert answer["error"] or (command in ROWS_SAY_IT and "cut" in str(answer))
    assert answer.get("total") != 0 or answer["percent"] is None


@pytest.mark.slow
def test_each_explanation_says_what_and_how_to_mend_it(simkit: Call) -> None:
    (every,) = [answer_of(simkit("explain", "--format", "json").out, "explain")["explanations"]]

    for known in every:
        word = known["id"]
        answer = answer_of(simkit("explain", word, "--format", "json").out, "explain")
        assert answer["explanations"] == [known]
        assert (answer["exit_code"], answer["error"]) == (0, None)
        empty = {key for key, value in known.items() if value == ""}
        assert (word, empty & {"id", "kind", "rule", "fix", "cause"}) == (word, set())
    assert len(every) > 100


def test_the_schema_names_what_is_inside() -> None:
    def bare(schema: Any, at: str) -> list[str]:
        if isinstance(schema, list):
            return [place for n, item in enumerate(schema) for place in bare(item, f"{at}[{n}]")]
        if not isinstance(schema, dict):
            return []
        names = {"object": ("properties", "additionalProperties"), "array": ("items",)}
        needs = names.get(str(schema.get("type")), ())
        own = [at] if needs and not any(name in schema for name in needs) else []
        return own + [place for k, item in schema.items() for place in bare(item, f"{at}.{k}")]

    assert bare(SCHEMA["$defs"], "") == []


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


def test_what_ran_until_a_signal_is_an_answer(simkit: Call) -> None:
    write("stopping.py", "import signal\ndef stop(): signal.raise_signal(signal.SIGINT)\n")
    tools = 'tools: {stop: {function: "stopping:stop"}}\n'
    pipeline = ECHO.replace("{instructions", "{tools: [stop], instructions") + tools
    last = HELD.replace("it holds", "it stops").replace("{a: hello}", "{a: {calls: [stop: {}]}}")
    write("stops.scenario.yaml", pipeline + BAD + last)

    answer = answer_of(simkit("replay", "stops.scenario.yaml", "--format", "json").out, "replay")

    assert (answer["exit_code"], answer["error"]["type"]) == (130, "Stopped")
    assert [row["outcome"] for row in answer["scenarios"]] == ["failed"]


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
