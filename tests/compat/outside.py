"""A small project of a user's, run with whatever pytest and pytest-bdd are installed.

``python tests/compat/outside.py`` in an environment that holds simkit. It uses nothing of this
tree and nothing of pytest, so that it also tells of versions that the tests do not run with.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from xml.etree import ElementTree

FILES = {
    "desk.pipeline.yaml": """\
version: 1
pipeline: desk
agents: {clerk: {instructions: You are a clerk.}}
flow: {handoffs: {start: clerk}}
""",
    "scenarios/desk.scenario.yaml": """\
version: 1
scenario: the clerk answers
pipeline: ../desk.pipeline.yaml
tags: [smoke]
turns: [{user: Hello, replies: {clerk: Good day.}, expect: {reply: Good day.}}]
---
version: 1
scenario: the clerk is late
pipeline: ../desk.pipeline.yaml
xfail: the clerk is always late
turns: [{user: Hello, replies: {clerk: Good day.}, expect: {reply: Good evening.}}]
""",
    "features/desk.feature": """\
Feature: The desk
  Background:
    Given the pipeline "../desk.pipeline.yaml"

  Scenario: The clerk greets
    When the user says "Hello"
    And the clerk replies "Good day."
    Then the reply is "Good day."

  Scenario Outline: The clerk says what he is told to say
    When the user says "Hello"
    And the clerk replies "<words>"
    Then the reply is "<words>"

    Examples:
      | words   |
      | Hello.  |
      | Good by |
""",
    "features/test_features.py": """\
from pytest_bdd import scenarios

from simkit.bdd import *

scenarios(".")
""",
    "test_plain.py": "def test_it():\n    assert True\n",
    "pytest.ini": "[pytest]\naddopts = --strict-markers --strict-config\nfilterwarnings = error\n",
}
TESTS = 6
"""A test, two scenarios, a feature's scenario, and two rows of its outline."""


def main() -> int:
    """Runs the project in one process and in two; returns 0 if all is as it must be."""
    names = ("agent-simkit", "pytest", "pytest-bdd", "pytest-xdist")
    print("outside:", ", ".join(f"{name} {version(name)}" for name in names), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for name, text in FILES.items():
            file = Path(folder, name)
            file.parent.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8")
        failures = [
            failure
            for arguments in (["-n0"], ["-n2"], ["-n2", "-m", "smoke"])
            for failure in wrong(Path(folder), arguments)
        ]
    print("\n".join(failures) or "outside: all is as it must be")
    return bool(failures)


def wrong(folder: Path, arguments: list[str]) -> list[str]:
    """Returns what a run of pytest does wrong."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--junitxml=junit.xml", *arguments],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        ended = f"pytest {' '.join(arguments)} ended with {done.returncode}:"
        return [ended, done.stdout, done.stderr]
    cases = ElementTree.parse(folder / "junit.xml").getroot().findall(".//testcase")
    tests = 1 if "smoke" in arguments else TESTS
    texts = [f"{arguments}: {len(cases)} tests, not {tests}"] if len(cases) != tests else []
    report = [case for case in cases if case.find(".//property[@name='simkit.digest']") is not None]
    of_simkit = ("scenario.yaml", "test_features")
    runs = [case for case in cases if str(case.get("classname")).endswith(of_simkit)]
    if not runs or report != runs:
        texts.append(
            f"{arguments}: JUnit tells {len(report)} digests of {len(runs)} scenarios and features"
        )
    return texts


if __name__ == "__main__":
    sys.exit(main())
