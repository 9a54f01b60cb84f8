"""pytest in GitHub Actions, from outside: annotations, the step's summary, and a base."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest

from simkit.pytest_plugin import workflow
from simkit.report.results import Result
from simkit.spec.scenario.files import ScenarioCase
from tests.desk import BROKEN, FAILS, HOLDS, PIPELINE, install, named, write

TORN = HOLDS.replace("pipeline: desk", "\tpipeline: desk")
LATE = (
    "::error file=late.scenario.yaml,line=7,col=21,title=the clerk is late::reply does not match "
    '(turn 1)%0A    expect: {reply: Good evening.}%0A  wanted "Good evening.", found "Good day."%0A'
    "  the last run with an output is clerk's"
)
UNKNOWN = (
    "::error file=x.scenario.yaml,line=6,col=15,title=nobody knows the clerk::unknown agent "
    "`clerc`%0A  at turns[0].replies.clerc%0A  did you mean `clerk`?   known: clerk, manager"
)
TAB = (
    "::error file=torn.scenario.yaml,line=3,col=1,title=torn.scenario.yaml::a tab cannot indent or "
    "separate%0A  use spaces"
)


@pytest.fixture(autouse=True)
def _installed(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    install(pytester, monkeypatch)


@pytest.fixture
def summary(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the step's summary, in a workflow."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(pytester.path / "summary.md"))
    return pytester.path / "summary.md"


def commands(result: pytest.RunResult) -> list[str]:
    return [line for line in result.outlines if line.startswith("::")]


@pytest.mark.slow
@pytest.mark.parametrize("processes", ["-n0", "-n2"])
def test_every_finding_is_annotated_once_and_summed_up_once(
    pytester: pytest.Pytester, summary: Path, processes: str
) -> None:
    skipped = named(HOLDS, "skip: no clerk")
    write(pytester, holds=HOLDS, late=FAILS, x=BROKEN, torn=TORN, skipped=skipped)

    result = pytester.runpytest_subprocess(processes, "--continue-on-collection-errors")

    assert sorted(commands(result)) == sorted([LATE, UNKNOWN, TAB])
    lines = summary.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "## simkit: 5 scenarios, 1 passed, 1 failed, 2 errors, 1 skipped"
    assert lines[2] == "Model calls: 2; tokens sent: 12."
    assert sorted(line for line in lines if line.startswith("| `")) == [
        "| `holds.scenario.yaml::the clerk answers` | passed | 1 | 6 |",
        "| `late.scenario.yaml::the clerk is late` | **failed** | 1 | 6 |",
        "| `skipped.scenario.yaml::the clerk answers` | skipped: `no clerk` | 0 | 0 |",
        "| `torn.scenario.yaml` | **error** | 0 | 0 |",
        "| `x.scenario.yaml::nobody knows the clerk` | **error** | 0 | 0 |",
    ]


@pytest.mark.slow
def test_outside_of_workflows_nothing_of_it_is_written(pytester: pytest.Pytester) -> None:
    write(pytester, late=FAILS)

    result = pytester.runpytest_subprocess()

    assert commands(result) == []


@pytest.mark.slow
def test_tests_of_others_are_not_told(pytester: pytest.Pytester, summary: Path) -> None:
    pytester.makepyfile("def test_it(): assert False")

    result = pytester.runpytest_subprocess()

    assert commands(result) == []
    assert not summary.exists()


@pytest.mark.slow
def test_a_fixture_that_fails_breaks_the_scenario(pytester: pytest.Pytester, summary: Path) -> None:
    write(pytester, a=HOLDS)
    pytester.makeconftest(
        """
        def pytest_runtest_setup(item):
            raise OSError("no disk")
        """
    )

    result = pytester.runpytest_subprocess()

    assert commands(result) == [
        "::error file=a.scenario.yaml,line=1,title=the clerk answers::OSError: no disk"
    ]


@pytest.mark.slow
@pytest.mark.parametrize("processes", ["-n0", "-n2"])
def test_contexts_that_changed_since_the_base_are_in_the_summary(
    pytester: pytest.Pytester, summary: Path, processes: str
) -> None:
    write(pytester, a=HOLDS, b=HOLDS.replace("desk.pipeline", "b.pipeline"))
    pipeline = pytester.path / "b.pipeline.yaml"
    pipeline.write_text(PIPELINE, encoding="utf-8")
    pytester.run(sys.executable, "-m", "simkit", "replay", ".")
    shutil.copytree(pytester.path / ".simkit" / "traces", pytester.path / "base")
    pipeline.write_text(PIPELINE.replace("a clerk.", "a kind clerk."), encoding="utf-8")

    result = pytester.runpytest_subprocess(processes, "--simkit-base", "base")

    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(
        ["simkit: against base: 2 scenarios: 1 equal, 1 different; `simkit diff --base base` *"]
    )
    text = summary.read_text(encoding="utf-8")
    assert text.count("### Contexts in now against base") == 1
    assert "2 scenarios: 1 equal, 1 different" in text
    assert "You are a kind clerk." in text


@pytest.mark.slow
def test_a_base_without_traces_is_refused(pytester: pytest.Pytester) -> None:
    write(pytester, a=HOLDS)

    result = pytester.runpytest_subprocess("--simkit-base", "nowhere")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["ERROR: --simkit-base: nowhere: there is no trace in this folder, no file `*.jsonl`"]
    )


@pytest.mark.slow
@pytest.mark.parametrize("processes", ["-n0", "-n2"])
def test_junit_tells_seed_digest_and_tokens(pytester: pytest.Pytester, processes: str) -> None:
    write(pytester, a=named(HOLDS, "seed: 5"), late=FAILS)

    pytester.runpytest_subprocess(processes, "--junitxml=junit.xml")

    cases = ElementTree.parse(pytester.path / "junit.xml").getroot().findall(".//testcase")
    by_name = {
        str(case.get("name")): {str(p.get("name")): p.get("value") for p in case.iter("property")}
        for case in cases
    }
    value, late = by_name["the clerk answers"], by_name["the clerk is late"]
    assert (value["simkit.seed"], value["simkit.tokens"]) == ("5", "6")
    assert (late["simkit.seed"], late["simkit.tokens"]) == ("0", "6")
    assert len(value["simkit.digest"] or "") == 64
    assert value["simkit.digest"] != late["simkit.digest"]


def test_a_scenario_that_pytest_skips_is_told_with_the_reason() -> None:
    scenario = ScenarioCase("a.scenario.yaml", "a", 0, 1)
    item: Any = SimpleNamespace(result=None, scenario=scenario)
    report: Any = SimpleNamespace(skipped=True, longrepr=("a.py", 3, "Skipped: no clerk"))

    result = workflow._result(item, SimpleNamespace(excinfo=None), report)  # type: ignore[arg-type]

    assert (result.outcome, result.reason) == ("skipped", "no clerk")


def test_a_scenario_whose_fixture_fails_is_told_with_the_error() -> None:
    item: Any = SimpleNamespace(result=None, scenario=ScenarioCase("a.scenario.yaml", "a", 0, 1))
    report: Any = SimpleNamespace(skipped=False, longreprtext="OSError: no desk")

    result = workflow._result(item, SimpleNamespace(excinfo=None), report)  # type: ignore[arg-type]

    assert (result.outcome, result.error) == ("broken", "OSError: no desk")


@pytest.mark.parametrize("folder", ["no", "."])
def test_a_summary_that_cannot_be_written_is_told_in_the_terminal(
    folder: str, summary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", f"{folder}/summary.md")
    lines: list[str] = []
    reports = workflow.Workflow("")
    reports._results["a"] = Result("a", "a.scenario.yaml", 1, "", "held")
    config = SimpleNamespace(getoption=lambda name: None)

    reports.pytest_terminal_summary(SimpleNamespace(config=config, write_line=lines.append))

    problem = "the summary is not written: no/summary.md: No such file or directory"
    assert lines == ([f"simkit: {problem}"] if folder == "no" else [])
    assert summary.exists() == (folder == ".")


def test_only_the_parent_of_pytest_xdist_changes_files() -> None:
    sections: list[str] = []
    config = SimpleNamespace(workerinput={})

    workflow.Updates.write(
        workflow.Updates.__new__(workflow.Updates),
        SimpleNamespace(config=config, section=sections.append),
    )

    assert sections == []
