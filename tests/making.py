"""Prints how often each way to run a scenario makes what it should make once, as JSON.

Run as `python -m tests.making` in an empty folder. One process goes through all ways, so that a
test that asks for one of them has the counts of all.
"""

from __future__ import annotations

import contextlib
import io
import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

import simkit
from simkit.checks import lints as lints  # Its registry makes an empty view, of no run.
from simkit.cli import main
from simkit.language import matching
from simkit.language.matching import Matcher
from simkit.language.yaml import documents
from simkit.trace.views import View

PIPELINE: Final = """
version: 1
pipeline: desk
agents:
  triage: {instructions: Route., handoffs: [billing]}
  billing: {instructions: Answer.}
flow: {handoffs: {start: triage}}
"""
SCENARIO: Final = """
version: 1
scenario: one handoff
pipeline: ./desk.pipeline.yaml
turns:
  - user: Hello
    replies:
      triage: {handoff: {to: billing, payload: {order: 7}}}
      billing: Done.
    expect:
      reply: Done.
      handoffs: [{from: triage, to: billing, payload: {order: 7}}]
"""
FEATURE: Final = """
Feature: Desk
  Scenario: One handoff
    Given the pipeline "desk"
    When the user says "Hello"
    And triage hands off to billing with:
      | order | 7 |
    And billing replies "Done."
    Then the reply is "Done."
    And these agents ran in order: triage, billing
"""
STEPS: Final = """
from pytest_bdd import scenarios
from simkit.bdd import *

scenarios("desk.feature")
"""
FILES: Final = {
    "desk.pipeline.yaml": PIPELINE,
    "held.scenario.yaml": SCENARIO,
    "failing.scenario.yaml": SCENARIO.replace("reply: Done.", "reply: Gone."),
    "refused.scenario.yaml": SCENARIO.replace("reply: Done.", "repyl: Done."),
    "desk.feature": FEATURE,
    "test_desk.py": STEPS,
}


def counted(counter: Counter[str], holder: Any, name: str, key: Callable[..., str]) -> None:
    """Counts calls of a function under what ``key`` says of them."""
    function = getattr(holder, name)

    def call(*arguments: Any, **named: Any) -> Any:
        counter[key(*arguments, **named)] += 1
        return function(*arguments, **named)

    setattr(holder, name, call)


def command(*words: str) -> Callable[[], int]:
    """Returns what calls `simkit` with these words."""

    def call() -> int:
        try:
            main(list(words))
        except SystemExit as ended:
            return int(ended.code or 0)
        return 0

    return call


def suite(*words: str) -> Callable[[], int]:
    """Returns what calls pytest with these words."""
    return lambda: int(pytest.main(["-p", "no:cacheprovider", *words]))


def simulate() -> int:
    """Runs a scenario as a user's own Python does."""
    (prepared,) = simkit.load("held.scenario.yaml")
    outcome = simkit.simulate(prepared)
    return int([run.agent for run in outcome.view.turns[0].runs] != ["triage", "billing"])


WAYS: Final[dict[str, tuple[Callable[[], int], int]]] = {
    "replay": (command("replay", "held.scenario.yaml"), 0),
    "judge": (command("judge"), 0),
    "replay of one that fails": (command("replay", "failing.scenario.yaml"), 1),
    "quiet replay": (command("replay", "-q", "held.scenario.yaml"), 0),
    "replay with states": (command("replay", "held.scenario.yaml", "--show", "state"), 0),
    "replay with contexts": (command("replay", "held.scenario.yaml", "--show", "context"), 0),
    "item": (suite("held.scenario.yaml"), 0),
    "item that fails": (suite("failing.scenario.yaml"), 1),
    "item and its update": (suite("--simkit-update=fix", "failing.scenario.yaml"), 1),
    "feature": (suite("test_desk.py"), 0),
    "simulate": (simulate, 0),
    "expect": (command("expect", "held.scenario.yaml"), 0),
    "validate": (command("validate", "held.scenario.yaml"), 0),
    "validate of one that is refused": (command("validate", "refused.scenario.yaml"), 2),
    "update": (command("replay", "--update", "--yes", "failing.scenario.yaml"), 0),
}
"""Each way with its exit code."""


def counts() -> Iterator[tuple[str, Counter[str]]]:
    """Yields each way, and what it counter."""
    counter: Counter[str] = Counter()
    counted(counter, View, "__init__", lambda _: "view")
    counted(counter, documents, "roots", lambda _, file: f"parse of {file}")
    counted(counter, documents, "read", lambda file: f"reading of {file}")
    counted(counter, Matcher, "__init__", lambda _, source: f"matcher {source}")
    for way, (call, code) in WAYS.items():
        for name, text in FILES.items():
            Path(name).write_text(text, encoding="utf-8")
        matching._compiled.clear()
        counter.clear()
        output = io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            ended = call()
        assert ended == code, f"{way}: {output.getvalue()}"
        yield way, Counter(counter)


if __name__ == "__main__":
    print(json.dumps(dict(counts())))
