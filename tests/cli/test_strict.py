"""Claims that prove nothing are counted with their reason, and `--strict` fails for them.

They are those that nobody looked at, since the pipeline's file declares `unseen:` what they need,
and denials that nothing could break (RUN-03). Every door says so: `replay`, `judge`, pytest with
scenario files, and pytest with features.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from simkit.cli import main
from tests.cli.projects import CLIENT
from tests.plugins import OTHERS_OFF

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
DESIGN = """\
version: 1
pipeline: echo
agents: {a: {instructions: Say., context: [instructions, current_message], handoffs: []}}
flow: {handoffs: {start: a}}
"""
LINES = "The code shows a list of messages,", "and not what each of them is for."
REASON = " ".join(LINES)
CODE = f"""\
version: 1
pipeline: real
code: echo_talk:run
app: {{path: [.]}}
agents: {{a: {{system: Say.}}}}
implements:
  designs: [echo.pipeline.yaml]
  unseen:
    sections:
      {LINES[0]}
      {LINES[1]}
"""
TALK = (
    CLIENT
    + """

def run(text):
    return asked([{"role": "system", "content": "Say."}, {"role": "user", "content": text}])
"""
)
UNSEEN = "it claims a section"
VACUOUS = "it denies what nothing could break"
SOUND = "all is looked at"
SCENARIOS = f"""\
version: 1
scenario: {UNSEEN}
pipeline: real.pipeline.yaml
turns: [{{user: hi, replies: {{a: hello}}, expect: {{context: {{a: {{history: [user: nonsense]}}}}}}}}]
---
version: 1
scenario: {VACUOUS}
pipeline: real.pipeline.yaml
turns: [{{user: hi, replies: {{a: hello}}, expect: {{context: {{a: {{excludes: [{{$contains: never}}]}}}}}}}}]
---
version: 1
scenario: {SOUND}
pipeline: real.pipeline.yaml
turns: [{{user: hi, replies: {{a: hello}}, expect: {{reply: hello}}}}]
"""  # noqa: E501  a scenario in one line
FEATURE = f"""\
Feature: Talk
  Background:
    Given the pipeline "real"

  Scenario: {UNSEEN}
    When the user says "hi"
    And the a replies "hello"
    Then the history of the a is empty
    When the user says "again"
    And the a replies "hello again"
    Then the reply is "hello again"

  Scenario: {VACUOUS}
    When the user says "hi"
    And the a replies "hello"
    Then the context of the a excludes "never"

  Scenario: {SOUND}
    When the user says "hi"
    And the a replies "hello"
    Then the reply is "hello"
"""
BINDING = "from pytest_bdd import scenarios\nfrom simkit.bdd import *\n\nscenarios('.')\n"
WHY = f"1 claim not looked at: sections: {REASON}"


@pytest.fixture
def project(cwd: Path) -> Path:
    """The working directory, with a design, its code, and scenarios on the code."""
    for name, text in (
        ("echo.pipeline.yaml", DESIGN), ("real.pipeline.yaml", CODE), ("echo_talk.py", TALK),
        ("talk.scenario.yaml", SCENARIOS),
    ):  # fmt: skip
        (cwd / name).write_text(text, encoding="utf-8")
    return cwd


Call = Callable[..., tuple[int, str]]


@pytest.fixture
def simkit(project: Path, capsys: pytest.CaptureFixture[str]) -> Call:
    """Calls the command line in this process; returns its exit code and what it prints."""

    def call(*arguments: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        return int(stop.value.code or 0), capsys.readouterr().out

    return call


@pytest.mark.parametrize("command", [("replay", "talk.scenario.yaml"), ("judge",)], ids=" ".join)
def test_strict_ends_with_1_for_claims_that_prove_nothing(
    simkit: Call, command: tuple[str, ...]
) -> None:
    simkit("replay", "talk.scenario.yaml")

    lenient, text = simkit(*command)
    strict, report = simkit(*command, "--strict", "--format", "json")

    assert lenient == 0
    assert f"({WHY})" in " ".join(text.split())
    assert "1 warning, 1 claim not looked at" in text
    assert strict == 1
    rows = {row["name"]: row for row in json.loads(report)["scenarios"]}
    assert {name: row["outcome"] for name, row in rows.items()} == {
        UNSEEN: "failed", VACUOUS: "failed", SOUND: "held"
    }  # fmt: skip
    assert [finding["what"] for finding in rows[UNSEEN]["findings"]] == [
        f"context.a.history was not looked at: sections: {REASON}"
    ]
    assert [(finding["id"], finding["severity"]) for finding in rows[VACUOUS]["findings"]] == [
        ("RUN-03", "E")
    ]
    assert all(rows[name]["reproduce"].endswith(" --strict") for name in (UNSEEN, VACUOUS))


def test_a_strict_call_says_so_in_the_command_that_repeats_it(simkit: Call) -> None:
    chosen = f"talk.scenario.yaml::{VACUOUS}"

    assert simkit("replay", chosen)[0] == 0
    code, text = simkit("replay", chosen, "--strict")
    assert code == 1
    assert f"reproduce: simkit replay '{chosen}' --seed 0 --strict" in text


@pytest.fixture
def run(
    project: Path, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., pytest.RunResult]:
    """Runs pytest in the project, in a process of its own."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYTEST_ADDOPTS", OTHERS_OFF)
    monkeypatch.chdir(project)

    def call(*arguments: str) -> pytest.RunResult:
        return pytester.runpytest_subprocess(
            f"--rootdir={project}", "--junitxml=junit.xml", "-rA", *arguments
        )

    return call


def property_of(file: Path, test: str, name: str) -> str:
    """Returns what a JUnit file says of a test under a name; empty if nothing."""
    for case in ElementTree.parse(file).iter("testcase"):
        if test in str(case.get("name")):
            for item in case.iter("property"):
                if item.get("name") == name:
                    return str(item.get("value"))
    return ""


def test_scenario_files_under_pytest_are_red_where_they_prove_nothing(
    project: Path, run: Callable[..., pytest.RunResult]
) -> None:
    lenient, why = run("talk.scenario.yaml"), "simkit claims not looked at: why"
    text = property_of(project / "junit.xml", UNSEEN, why)
    strict = run("talk.scenario.yaml", "--simkit-strict")

    lenient.assert_outcomes(passed=3)
    assert text == WHY
    lenient.stdout.fnmatch_lines(["simkit: 1 claim in 1 scenario not looked at; *"])
    assert lenient.ret == 0
    strict.assert_outcomes(passed=1, failed=2)
    assert strict.ret == 1
    strict.stdout.fnmatch_lines(
        [
            "talk.scenario.yaml:4:*: context.a.history was not looked at: sections: The code*",
            "talk.scenario.yaml:9:*: RUN-03: *",
            f"reproduce: * 'talk.scenario.yaml::{VACUOUS}' --seed 0 --strict",
        ]
    )


def test_features_are_red_where_they_prove_nothing_also_in_an_earlier_turn(
    project: Path, run: Callable[..., pytest.RunResult]
) -> None:
    (project / "talk.feature").write_text(FEATURE, encoding="utf-8")
    (project / "test_talk.py").write_text(BINDING, encoding="utf-8")

    lenient, why = run("test_talk.py"), "simkit claims not looked at: why"
    text = property_of(project / "junit.xml", "test_it_claims_a_section", why)
    strict = run("test_talk.py", "--simkit-strict")

    lenient.assert_outcomes(passed=3)
    assert text == WHY
    lenient.stdout.fnmatch_lines(["simkit: 1 claim in 1 scenario not looked at; *"])
    strict.assert_outcomes(passed=1, failed=2)
    assert strict.ret == 1
    strict.stdout.fnmatch_lines(
        [
            "talk.feature:8:5: context.a.history was not looked at: sections: The code*",
            "reproduce: pytest *test_it_claims_a_section --simkit-strict",
            "talk.feature:16:5: RUN-03: *",
        ]
    )
