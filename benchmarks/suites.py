"""One suite of tests, as simkit and its peers write it: an order is asked for, an answer checked.

Every suite is one file of so many tests, and runs with the plugins that its user cannot avoid and
no others. A parametrised test and the steps of pytest-bdd do nothing: what is left is the price of
the runner. A tavern stage is a real request to a local service that answers at once, and checks the
same answer; the service is no part of the cost.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.measuring import child_seconds

BASE = "parametrised test"
SCENARIO = "simkit, 5 turns"
PIPELINE = """version: 1
pipeline: p
agents:
  triage: {instructions: Choose., context: [instructions, current_message]}
  billing: {instructions: Bill., context: [instructions, history, current_message]}
flow: {router: {decide: triage, to: "${run.output.to}"}}
"""
SCENARIO_HEAD = "version: 1\nscenario: number {place}\npipeline: p.pipeline.yaml\nturns:\n"
TURN = """  - user: Where is my order?
    replies: {triage: {json: {to: billing}}, billing: It is on its way.}
    expect: {agents: [triage, billing], reply: {$contains: way}}
"""
PLAIN = """import pytest

@pytest.mark.parametrize("place", range({count}))
def test_number(place):
    assert place >= 0
"""
STEPS = """from pytest_bdd import given, scenarios, then, when

@given("a desk")
def desk(): pass

@when("the user asks for an order")
def asks(): pass

@when("triage decides for billing")
def decides(): pass

@when("billing replies")
def replies(): pass

@then("the reply is right")
def is_right(): pass

scenarios(".")
"""
STEPS_SCENARIO = """  Scenario: number {place}
    Given a desk
    When the user asks for an order
    And triage decides for billing
    And billing replies
    Then the reply is right
"""
STORIES = """from pytest_bdd import scenarios
from simkit.bdd import *

scenarios(".")
"""
STORY_TURN = """    When the user says "Where is my order?"
    And triage decides to "billing"
    And billing replies "It is on its way."
    Then the reply contains "way"
"""
STAGE = """  - name: ask for the order
    request: {{url: "{url}", method: POST, json: {{user: "Where is my order?"}}}}
    response:
      status_code: 200
      json: {{agents: [triage, billing], reply: !re_search "way"}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """Tests of one kind, and the plugins of pytest that they need."""

    name: str
    files: Callable[[int], Mapping[str, str]]
    """Returns the names and texts of files with so many tests."""
    plugins: tuple[str, ...] = ()
    """Modules. pytest-bdd is a dependency of simkit, so that a scenario always pays for it."""

    def obstacle(self) -> str:
        """Returns why the suite cannot run here, or an empty text."""
        try:
            for plugin in self.plugins:
                importlib.import_module(plugin)
        except ImportError as error:
            return f"not compared, see the extra `bench`: {error}"
        return ""

    def write(self, folder: Path, count: int) -> None:
        """Writes a suite of so many tests into a new folder."""
        folder.mkdir(parents=True)
        for name, text in self.files(count).items():
            (folder / name).write_text(text, encoding="utf-8")

    def seconds(self, folder: Path, *options: str) -> float:
        """Returns the CPU seconds of pytest over a folder; RuntimeError where a test fails."""
        chosen = [word for plugin in self.plugins for word in ("-p", plugin)]
        return child_seconds(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *chosen,
             "-c", os.devnull, *options, "."],
            cwd=folder,
            env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "NO_PROXY": "127.0.0.1"},
        )  # fmt: skip


def suites(url: str) -> list[Suite]:
    """Returns the suites, the cheapest first; those of tavern talk to the service at a URL."""
    simkit = ("pytest_bdd.plugin", "simkit.pytest_plugin")
    tavern = ("tavern._core.pytest",)
    return [
        Suite(name=BASE, files=_parametrised),
        Suite(name=SCENARIO, files=_scenarios, plugins=simkit),
        Suite(name="pytest-bdd, 5 steps", files=_steps, plugins=("pytest_bdd.plugin",)),
        Suite(name="simkit.bdd, 1 turn, 5 steps", files=partial(_stories, 1), plugins=simkit),
        Suite(name="simkit.bdd, 5 turns, 21 steps", files=partial(_stories, 5), plugins=simkit),
        Suite(name="tavern, 1 stage", files=partial(_stages, url, 1), plugins=tavern),
        Suite(name="tavern, 5 stages", files=partial(_stages, url, 5), plugins=tavern),
    ]


def _parametrised(count: int) -> dict[str, str]:
    return {"test_plain.py": PLAIN.format(count=count)}


def _scenarios(count: int) -> dict[str, str]:
    texts = [SCENARIO_HEAD.format(place=place) + TURN * 5 for place in range(count)]
    return {"p.pipeline.yaml": PIPELINE, "many.scenario.yaml": "---\n".join(texts)}


def _steps(count: int) -> dict[str, str]:
    texts = [STEPS_SCENARIO.format(place=place) for place in range(count)]
    return {"many.feature": "Feature: Orders\n" + "".join(texts), "test_steps.py": STEPS}


def _stories(turns: int, count: int) -> dict[str, str]:
    given = '    Given the pipeline "p"\n'
    texts = [f"  Scenario: number {place}\n{given}{STORY_TURN * turns}" for place in range(count)]
    return {
        "p.pipeline.yaml": PIPELINE,
        "many.feature": "Feature: Orders\n" + "".join(texts),
        "test_stories.py": STORIES,
    }


def _stages(url: str, stages: int, count: int) -> dict[str, str]:
    stage = STAGE.format(url=url)
    texts = [f"test_name: number {place}\nstages:\n{stage * stages}" for place in range(count)]
    return {"test_many.tavern.yaml": "---\n".join(texts)}
