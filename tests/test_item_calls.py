"""One more scenario calls few functions; calls do not flicker as time does.

The bounds are a little above what a scenario costs today. Whoever makes one cheaper lowers them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from benchmarks.suites import PIPELINE, SCENARIO_HEAD, TURN
from simkit.core.output import without_secrets
from simkit.language.yaml import DocumentCache
from simkit.report.outcomes import result_of
from simkit.session.simulate import Conversation, run, simulate
from simkit.spec.scenario.files import Library, Prepared
from simkit.spec.scenario.items import ScenarioCase, items_in
from tests.test_linear import counted

SCENARIOS = 20
TURNS = 5


@pytest.fixture
def file(tmp_path: Path) -> str:
    """The file of scenarios that `python -m benchmarks items` measures."""
    (tmp_path / "p.pipeline.yaml").write_text(PIPELINE, encoding="utf-8")
    texts = [SCENARIO_HEAD.format(place=place) + TURN * TURNS for place in range(SCENARIOS)]
    path = tmp_path / "many.scenario.yaml"
    path.write_text("---\n".join(texts), encoding="utf-8")
    return str(path)


def calls_each(work: Callable[[], object]) -> float:
    """How many functions a piece of work calls for each scenario."""
    _, calls = counted(work)
    return calls / SCENARIOS


def prepared(library: Library, cases: Sequence[ScenarioCase]) -> list[Prepared]:
    return [library.prepared(case) for case in cases]


def reported(scenario: Prepared) -> object:
    """What the plugin does with a scenario that holds."""
    outcome = simulate(scenario)
    assert outcome.passed
    redactor = scenario.redactor(os.environ)
    return without_secrets(result_of(scenario, outcome, None), redactor)


def test_one_more_scenario_calls_few_functions(file: str) -> None:
    cache = DocumentCache()
    library, cases = Library(cache), items_in(file, cache)
    for scenario in prepared(library, cases):
        reported(scenario)  # what a process makes once

    scenarios = prepared(library, cases)
    of_parts = {
        "read": calls_each(lambda: items_in(file, DocumentCache())),
        "prepare": calls_each(lambda: prepared(library, cases)),
        "run": calls_each(lambda: [run(scenario) for scenario in scenarios]),
        "judge and report": calls_each(lambda: [reported(scenario) for scenario in scenarios]),
    }
    of_parts["judge and report"] -= of_parts["run"]

    bounds = {"read": 950, "prepare": 750, "run": 1_000, "judge and report": 650}
    over = {part: calls for part, calls in of_parts.items() if calls > bounds[part]}
    assert not over, of_parts


def test_a_claim_amid_a_conversation_is_proven_without_reading_the_run(file: str) -> None:
    cache = DocumentCache()
    scenario = Library(cache).prepared(items_in(file, cache)[0])
    with Conversation(scenario) as conversation:
        conversation.follow(scenario)

        assert conversation.judgement(range(TURNS)).passed

        assert not conversation.view.is_awake
        assert conversation.finish().passed
        assert not conversation.view.is_awake


def test_what_depends_on_the_pipeline_is_computed_once_for_it(
    file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = DocumentCache()
    library, cases = Library(cache), items_in(file, cache)
    simulate(library.prepared(cases[0]))

    def refuse(*_: object) -> None:
        raise AssertionError("it is computed again")

    monkeypatch.setattr("simkit.spec.scenario.known._names_in", refuse)
    monkeypatch.setattr("simkit.spec.scenario.files.check_pipeline", refuse)
    monkeypatch.setattr("simkit.runtime.compiled.CompiledPipeline", refuse)
    monkeypatch.setattr("simkit.checks.lints.watching.readings_of", refuse)

    assert simulate(library.prepared(cases[1])).passed


def test_a_part_of_a_tree_is_searched_once_for_pipelines(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "p.pipeline.yaml").write_text(PIPELINE, encoding="utf-8")
    library = Library()
    first = library.files([tmp_path], "p.pipeline.yaml")

    (tmp_path / "q.pipeline.yaml").write_text(PIPELINE, encoding="utf-8")

    assert [path.name for path in first] == ["p.pipeline.yaml"]
    assert library.files([tmp_path], "p.pipeline.yaml") is first
    assert [path.name for path in library.files([tmp_path], "q*")] == ["q.pipeline.yaml"]
