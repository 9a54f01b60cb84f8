"""Files of a folder that nobody names, or that nobody looks at."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.projects import ECHO, write
from tests.spec.validation.cases import problems_of

SCENARIO = """\
version: 1
scenario: it answers
pipeline: echo.pipeline.yaml
turns: [{user: hi, replies: {a: hello}}]
"""
ORPHAN = """\
spare.pipeline.yaml:2:1: warning VAL-31: no scenario names this pipeline
  at pipeline
  Write a scenario for it. Before you remove it, look for its name in features and tests of other \
folders."""


@pytest.fixture(autouse=True)
def _folder(cwd: Path) -> None:
    write("echo.pipeline.yaml", ECHO)
    write("inside/echo.scenario.yaml", SCENARIO.replace("echo.p", "../echo.p"))


def test_a_folder_in_which_all_is_used_is_fine() -> None:
    assert problems_of(".") == ""


def test_a_pipeline_that_no_scenario_names_is_found() -> None:
    write("spare.pipeline.yaml", ECHO)

    assert problems_of(".") == ORPHAN
    assert problems_of("spare.pipeline.yaml") == ""


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("features/echo.feature", 'Given the pipeline "spare"'),
        ("below/echo.feature", 'Given the pipeline "spare.pipeline.yaml"'),
        ("below/run.py", 'sim("spare.pipeline.yaml")'),
    ],
)
def test_a_pipeline_that_code_or_a_feature_names_is_used(file: str, text: str) -> None:
    write("below/spare.pipeline.yaml", ECHO)
    write(file, text)

    assert problems_of("below") == ""


def test_a_pipeline_that_a_broken_scenario_names_is_not_called_an_orphan() -> None:
    write("spare.pipeline.yaml", ECHO)
    broken = SCENARIO.replace("echo.p", "spare.p").replace("user: hi", "user: hi, expect: 1")
    write("broken.scenario.yaml", broken)

    assert problems_of(".") == (
        "broken.scenario.yaml:4:28: VAL-02: must be a mapping, not a number\n  at turns[0].expect\n"
        "  known: agents, context, error, events, findings, handoffs, interrupt, judge, logs, "
        "model_calls, reply, runs, satisfies, state, tool_calls\n"
        "  Write names and values: `key: value`, or braces around all: `{…}`."
    )


def test_a_pipeline_may_say_why_no_scenario_names_it() -> None:
    write("spare.pipeline.yaml", ECHO + "lints: {VAL-31: the service loads it}\n")

    assert problems_of(".") == ""


@pytest.mark.parametrize("name", ["lost.yaml", "lost.scenario.yml", "inside/scenario.yaml"])
def test_a_scenario_in_a_file_of_another_name_is_found(name: str) -> None:
    write(name, SCENARIO)

    stem = Path(name).name.split(".")[0]
    assert problems_of(".") == (
        f"{name}:2:1: warning VAL-32: a scenario stands in a file that is not named as one\n"
        "  at scenario\n"
        f"  Name the file `{stem}.scenario.yaml`."
    )


def test_a_pipeline_in_a_file_of_another_name_is_found() -> None:
    write("lost.yaml", ECHO)

    assert problems_of(".") == (
        "lost.yaml:2:1: warning VAL-32: a pipeline stands in a file that is not named as one\n"
        "  at pipeline\n"
        "  Name the file `lost.pipeline.yaml`."
    )


def test_fixtures_that_no_scenario_uses_are_found() -> None:
    write("people.yaml", "version: 1\ngiven: {state: {messages: []}}\n")

    assert problems_of(".") == (
        "people.yaml:1:1: warning VAL-30: no scenario uses this file\n"
        "  Name it under `use:`, or remove it."
    )


def test_fixtures_that_other_fixtures_use_are_used() -> None:
    write("people.yaml", "version: 1\ngiven: {state: {messages: []}}\n")
    write("shop.yaml", "use: [people.yaml]\n")
    write("shop.scenario.yaml", SCENARIO.replace("turns", "use: [shop.yaml]\nturns"))

    assert problems_of(".") == ""


@pytest.mark.parametrize(
    "text",
    [
        "a: 1\ngiven: {}\n",
        "base: |\n  scenario: x\n  turns: []\n",
        "scenario: x\nturns: !!python/object:x []\n",
        "tool_results\n",
        "- scenario\n",
    ],
)
def test_a_file_of_something_else_is_left_alone(text: str) -> None:
    write("other.yaml", text)

    assert problems_of(".") == ""


def test_a_file_that_is_no_text_is_left_alone() -> None:
    Path("other.yaml").write_bytes(b"\xff\xfe\x00")

    assert problems_of(".") == ""


def test_hidden_folders_are_not_searched() -> None:
    write(".cache/lost.yaml", SCENARIO)

    assert problems_of(".") == ""


def test_fixtures_that_use_each_other_in_a_circle_are_told_once() -> None:
    write("a.yaml", "use: [b.yaml]\n")
    write("b.yaml", "use: [a.yaml]\n")
    write("round.scenario.yaml", SCENARIO.replace("turns", "use: [a.yaml]\nturns"))

    assert problems_of(".") == (
        "b.yaml:1:7: VAL-05: `use` goes round in a circle: "
        "round.scenario.yaml → a.yaml → b.yaml → a.yaml\n"
        "  at use[0]"
    )


@pytest.mark.parametrize("use", ["7", "[7]", "a", "[nowhere.yaml]"])
def test_a_wrong_use_is_told_by_the_scenario_alone(use: str) -> None:
    write("wrong.scenario.yaml", SCENARIO.replace("turns", f"use: {use}\nturns"))

    assert problems_of(".").startswith("wrong.scenario.yaml:4:")
