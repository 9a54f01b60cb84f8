"""One more scenario calls few functions; calls do not flicker as time does.

The bounds are a little above what a scenario costs today. Whoever makes one cheaper lowers them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks.suites import PIPELINE, SCENARIO_HEAD, TURN
from simkit.core.errors import SourceError
from simkit.core.output import without_secrets
from simkit.language.yaml import DocumentCache, text_of
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
    return write(tmp_path)


def write(folder: Path, *, differ: bool = False) -> str:
    """Writes scenarios whose turns are all equal, or all differ in message, reply and claim."""
    (folder / "p.pipeline.yaml").write_text(PIPELINE, encoding="utf-8")
    texts = []
    for place in range(SCENARIOS):
        turns = [TURN] * TURNS
        if differ:
            turns = [
                TURN.replace("my order", f"order {place}-{number}").replace(
                    "way", f"way {place}-{number}"
                )
                for number in range(TURNS)
            ]
        texts.append(SCENARIO_HEAD.format(place=place) + "".join(turns))
    path = folder / "many.scenario.yaml"
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


@pytest.mark.parametrize(
    ("differ", "bounds"),
    [
        (False, {"read": 830, "prepare": 190, "run": 740, "judge and report": 560}),
        (True, {"read": 830, "prepare": 1_030, "run": 775, "judge and report": 605}),
    ],
    ids=["equal turns", "turns that differ"],
)
def test_one_more_scenario_calls_few_functions(
    tmp_path: Path, differ: bool, bounds: dict[str, int]
) -> None:
    file = write(tmp_path, differ=differ)
    cache = DocumentCache()
    library, cases = Library(cache), items_in(file, cache)
    for scenario in prepared(library, cases[:1]):
        reported(scenario)  # what a process makes once

    scenarios: list[Prepared] = []
    of_parts = {
        "read": calls_each(lambda: items_in(file, DocumentCache())),
        "prepare": calls_each(lambda: scenarios.extend(prepared(library, cases))),
        "run": calls_each(lambda: [run(scenario) for scenario in scenarios]),
        "judge and report": calls_each(lambda: [reported(scenario) for scenario in scenarios]),
    }
    of_parts["judge and report"] -= calls_each(lambda: [run(scenario) for scenario in scenarios])

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


def test_a_turn_that_one_pipeline_knows_is_checked_against_another(tmp_path: Path) -> None:
    file = write(tmp_path)
    (tmp_path / "q.pipeline.yaml").write_text(
        PIPELINE.replace("billing", "sales").replace("pipeline: p", "pipeline: q"),
        encoding="utf-8",
    )
    other = tmp_path / "other.scenario.yaml"
    text = Path(file).read_text(encoding="utf-8").split("---\n")[0]
    other.write_text(text.replace("p.pipeline", "q.pipeline"), encoding="utf-8")
    library = Library()
    first, second = (library.prepared(case) for case in items_in(file)[:2])
    assert first.scenario.turns[1] is second.scenario.turns[4]

    with pytest.raises(SourceError) as caught:
        library.prepared(items_in(str(other))[0])

    assert caught.value.where == f"{other}:6:46"
    assert caught.value.what == "unknown agent `billing`"


def test_turns_that_are_equal_but_written_otherwise_are_two(tmp_path: Path) -> None:
    (tmp_path / "p.pipeline.yaml").write_text(PIPELINE, encoding="utf-8")
    path = tmp_path / "numbers.scenario.yaml"
    turns = "".join(
        TURN.replace("{to: billing}", f"{{to: billing, price: {price}}}")
        for price in ("1", "1.0", "1.00", "01", "true")
    )
    path.write_text(SCENARIO_HEAD.format(place=0) + turns, encoding="utf-8")

    [scenario] = prepared(Library(), items_in(str(path)))

    lines: list[Any] = [turn.replies["triage"] for turn in scenario.scenario.turns]
    assert [text_of(line.json_["price"]) for line in lines] == ["1", "1.0", "1.00", "01", "true"]
