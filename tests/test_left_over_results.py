"""A tool result that nobody asked for is told as a reply line is, whichever door it came in by."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from simkit.checks.judge import Judgement
from simkit.session.execution.recorded import Recording
from simkit.session.simulate import record, simulate
from simkit.session.simulation import Simulation
from tests.adapters.running import run_app
from tests.building import run_yaml
from tests.plugins import OTHERS_OFF
from tests.recording import prepared, provider, write

PIPELINE: Final = """\
version: 1
pipeline: p
agents: {clerk: {instructions: You are a clerk., tools: [look, count]}}
tools: {look: {}, count: {}}
flow: {handoffs: {start: clerk}}
"""
ROOT: Final = Path(__file__).resolve().parent.parent
CALLED: Final = [{"calls": {"look": {}}}, "Done."]
LEFT: Final[dict[str, tuple[dict[str, Any], list[str]]]] = {
    "a result of a tool that nobody called": (
        {"look": 1, "count": 2},
        ["tool 'count' was not called in turn 1, but has a result."],
    ),
    "a failure of a tool that nobody called": (
        {"look": 1, "count": {"error": "No"}},
        ["tool 'count' was not called in turn 1, but has a result."],
    ),
    "a failure after the last call": (
        {"look": [1, {"error": "No"}]},
        ["tool 'look' has 1 unused result in turn 1: number 2. It was called 1 time, and each "
         "result answers one call; one result that is a list is `{returns: [...]}`."],
    ),
    "a list of which one item was given": (
        {"look": ["a", "b", "c"]},
        ["tool 'look' has 2 unused results in turn 1: number 2, 3. It was called 1 time, and each "
         "result answers one call; one result that is a list is `{returns: [...]}`."],
    ),
    "a result with a condition that held of no call": (
        {"look": [1, {"returns": 2, "when": {"name": "Ada"}}]},
        ["tool 'look' has 1 unused result in turn 1: number 2. It was called 1 time, and each "
         "result answers one call; one result that is a list is `{returns: [...]}`."],
    ),
}  # fmt: skip
EACH: Final = pytest.mark.parametrize(("results", "texts"), LEFT.values(), ids=list(LEFT))


def left_over(judgement: Judgement) -> list[str]:
    """What is said of results, and nothing else is."""
    assert {finding.id for finding in judgement.findings} <= {"RUN-01"}
    return [finding.what for finding in judgement.findings]


@EACH
def test_of_a_pipeline_in_yaml(results: dict[str, Any], texts: list[str]) -> None:
    turn = {"user": "Hi", "replies": {"clerk": CALLED}, "tool_results": results}

    ran = run_yaml(PIPELINE, f"turns: {json.dumps([turn])}")

    assert left_over(ran.judgement) == texts


@EACH
def test_of_a_conversation_in_python(results: dict[str, Any], texts: list[str]) -> None:
    desk = Simulation(PIPELINE)
    run = desk.say("Hi", replies={"clerk": CALLED}, tool_results=results)

    assert [(finding.id, finding.what) for finding in run.findings] == [
        ("RUN-01", text) for text in texts
    ]
    unseen = Simulation(PIPELINE)
    unseen.say("Hi", replies={"clerk": CALLED}, tool_results=results)
    with pytest.raises(AssertionError, match="RUN-01: tool '"):
        unseen.check()


@pytest.mark.slow
def test_of_the_first_of_two_turns_and_of_the_process_after_a_restart() -> None:
    stored = PIPELINE + "store: sqlite\nchannels: {messages: {reducer: append, scope: session}}\n"
    turn = '{user: Hi, replies: {clerk: Hello}, tool_results: {look: {error: "No"}}'

    ran = run_yaml(stored, f"turns: [{turn}}}, {turn}, restart: true}}]")

    assert left_over(ran.judgement) == [
        f"tool 'look' was not called in turn {turn}, but has a result." for turn in (1, 2)
    ]


AGENT: Final = """
from langchain.agents import create_agent
from langchain_openai import ChatOpenAI


def look() -> str:
    "Looks."
    return "real"


def count() -> str:
    "Counts."
    return "real"


model = ChatOpenAI(model="gpt-5-mini", api_key="none")
agent = create_agent(model, [look, count], system_prompt="You are a clerk.", name="clerk")
"""


@EACH
def test_of_code(results: dict[str, Any], texts: list[str], tmp_path: Path) -> None:
    (tmp_path / "left_over.py").write_text(AGENT, encoding="utf-8")
    turn = {"user": "Hi", "replies": {"clerk": CALLED}, "tool_results": results}

    ran = run_app("left_over:agent", f"turns: {json.dumps([turn])}", tmp_path)

    assert left_over(ran.judgement) == texts


STOCKED: Final = """\
version: 1
scenario: s
pipeline: desk:run_with_stock
app: {path: [.], fresh: true, tools: {stock: desk:stock}}
agents: {clerk: You are the clerk.}
cassette: desk
turns: [{user: wood, tool_results: {stock: RESULTS}}]
"""


def test_of_code_whose_models_are_recorded(cwd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY", "sk-test-0123456789abcdef")
    with provider() as server:
        monkeypatch.setenv("PROVIDER", server.url)
        file = write(cwd, STOCKED.replace("RESULTS", "{returns: 1}"))
        record(prepared(file), Recording("all", "2026-01-05T09:00:00Z"))
        write(cwd, STOCKED.replace("RESULTS", '[1, {error: "No"}]'))

        judgement = simulate(prepared(file)).judgement

    assert left_over(judgement) == [
        "tool 'stock' has 1 unused result in turn 1: number 2. It was called 1 time, and each "
        "result answers one call; one result that is a list is `{returns: [...]}`."
    ]


FEATURE: Final = """Feature: Left over
  Background:
    Given the pipeline "desk"

  Scenario: A failure that nobody met
    When the user says "Hi"
    And the clerk replies "Hello."
    And look fails with "No"
    Then the reply is "Hello."

  Scenario: A second result
    When the user says "Hi"
    And the clerk calls look
    And the clerk replies "Hello."
    And look returns 1
    And look fails with "No"
    Then the reply is "Hello."
"""


@pytest.mark.slow
def test_of_a_feature(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{pytester.path}")
    monkeypatch.setenv("PYTEST_ADDOPTS", OTHERS_OFF)
    (pytester.path / "desk.pipeline.yaml").write_text(
        PIPELINE.replace("pipeline: p", "pipeline: desk"), encoding="utf-8"
    )
    (pytester.path / "left.feature").write_text(FEATURE, encoding="utf-8")
    pytester.makepyfile(
        'from pytest_bdd import scenarios\nfrom simkit.bdd import *\nscenarios(".")\n'
    )

    result = pytester.runpytest_subprocess("-q")

    result.assert_outcomes(failed=2)
    text = result.stdout.str()
    assert "RUN-01: tool 'look' was not called in turn 1, but has a result." in text
    assert "RUN-01: tool 'look' has 1 unused result in turn 1: number 2. It was called" in text
