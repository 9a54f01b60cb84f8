# ruff: noqa: E501 -- whole texts are as wide as they are printed
"""`simkit replay` in a workflow: annotations, the step's summary, and a base."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.projects import BAD, ECHO, Done, write

Call = Callable[..., Done]


@pytest.fixture
def summary(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(project / "summary.md"))
    monkeypatch.setenv("GITHUB_WORKSPACE", str(project.parent))
    return project / "summary.md"


def test_findings_are_annotations_after_what_people_read(simkit: Call, summary: Path) -> None:
    write("scenarios/bad.scenario.yaml", ECHO + BAD)

    table = simkit("replay")
    github = simkit("replay", "--format", "github")

    assert github == Done(
        1,
        table.out
        + f"::error file={summary.parent.name}/scenarios/bad.scenario.yaml,line=13,col=14,title=it's wrong"
        '::reply does not match (turn 1)%0A    reply: bye%0A  wanted "bye", found "hello"%0A'
        "  the last run with an output is a's\n",
        "",
    )
    assert summary.read_text(encoding="utf-8").splitlines()[:3] == [
        "## simkit: 4 scenarios, 3 held, 1 failed",
        "",
        "Model calls: 4; tokens sent: 8.",
    ]


def test_only_the_format_of_github_writes_a_summary(simkit: Call, summary: Path) -> None:
    simkit("replay")

    assert not summary.exists()


def test_a_base_is_compared_and_what_changed_is_in_the_summary(simkit: Call, summary: Path) -> None:
    simkit("replay")
    shutil.copytree(".simkit", "base")
    file = Path("scenarios/good.scenario.yaml")
    file.write_text(file.read_text().replace("instructions: Say.", "instructions: Say it."))

    done = simkit("replay", "--format", "github", "--base", "base", "-q")

    assert done == Done(
        0,
        "3 scenarios: 3 held (0.00 s)\n"
        "against base: 3 scenarios: 3 different; `simkit diff --base base` shows what\n",
        "",
    )
    text = summary.read_text(encoding="utf-8")
    assert "| it holds | a, turn 1 | 2 messages, 2 → 3 tokens; 1 changed |" in text


def test_a_base_that_is_none_is_refused_before_anything_runs(simkit: Call, project: Path) -> None:
    done = simkit("replay", "--base", "nowhere")

    assert done == Done(2, "", "nowhere: there is no trace in this folder, no file `*.jsonl`\n")
    assert not (project / ".simkit").exists()


def test_a_base_is_not_for_programs(simkit: Call) -> None:
    done = simkit("replay", "--base", "nowhere", "--format", "json")

    assert done.code == 2
    assert "--base is not for --format json; see `simkit diff --base DIR`." in done.err
