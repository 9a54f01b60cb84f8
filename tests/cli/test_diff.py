# ruff: noqa: E501 -- whole texts are as wide as they are printed
"""`simkit diff`, called from outside: traces, folders, and two pipelines."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from simkit.report.last_run import slug
from tests.cli.projects import ECHO, GOOD, ROWS, Call, files_here, write

GOOD_ID = "scenarios/good.scenario.yaml::it holds"
NAME = f"{slug(GOOD_ID)}.jsonl"
KIND = ECHO.replace("instructions: Say.", "instructions: Say it kindly.")


@pytest.fixture
def based(simkit: Call) -> Call:
    """The command line; `base` holds traces of the project, and `.simkit` those of a kinder one."""
    assert simkit("replay").code == 0
    shutil.copytree(".simkit/traces", "base")
    write("scenarios/good.scenario.yaml", KIND + GOOD + ROWS)
    assert simkit("replay").code == 0
    return simkit


def test_traces_whose_files_were_renamed_are_paired_by_their_scenarios(based: Call) -> None:
    Path(f"base/{NAME}").rename("base/renamed.jsonl")

    assert based("diff", "base", ".simkit").out.splitlines()[-1] == "3 scenarios: 3 different"


def test_nothing_is_written(based: Call) -> None:
    before = files_here()
    based("diff", "--base", "base")
    based("diff", GOOD_ID, "--pipeline", "echo")

    assert files_here() == before


def test_secrets_stay_redacted(simkit: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_API_KEY", "hunter2-hunter2")
    telling = KIND.replace("kindly", "hunter2-hunter2").replace("pipeline: echo", "pipeline: kind")
    write("scenarios/kind.pipeline.yaml", telling)

    outputs = [
        simkit("diff", GOOD_ID, "--pipeline", "kind", "--format", form).out
        for form in ("text", "json", "github", "markdown")
    ]

    assert all("[redacted:env]" in text for text in outputs)
    assert "hunter2" not in "".join(outputs)


def test_the_other_formats_speak_of_the_same(based: Call) -> None:
    data = json.loads(based("diff", "--base", "base", "--format", "json").out)
    lines = based("diff", "--base", "base", "--format", "github").out.splitlines()
    output = based("diff", "--base", "base", "--format", "markdown").out.splitlines()

    assert data["summary"] == {
        "equal": 0, "different": 3, "one": 0, "other": 0, "left_out": 0, "broken": 0,
        "exit_code": 1,
    }  # fmt: skip
    assert [pair["name"] for pair in data["scenarios"]][:1] == [GOOD_ID]
    assert [line.partition("::scenarios")[0] for line in lines] == [
        f"::warning file=scenarios/good.scenario.yaml,line={line},title={name}%3A now differs from base"
        for line, name in ((6, "it holds"), (12, "row one"), (12, "row two"))
    ] + ["3 scenarios: 3 different"]
    assert output[:3] == ["### Contexts in now against base", "", "3 scenarios: 3 different"]
