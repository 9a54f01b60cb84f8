"""Many scenarios of one pipeline: what is read, checked and compiled once for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks.suites import PIPELINE, SCENARIO_HEAD, TURN
from simkit.language.yaml import DocumentCache, text_of
from simkit.session.simulate import simulate
from simkit.spec.scenario.files import Library, Prepared
from simkit.spec.scenario.items import ScenarioCase, items_in

SCENARIOS = 3
TURNS = 5


@pytest.fixture
def file(tmp_path: Path) -> str:
    """The file of scenarios that `python -m benchmarks items` measures."""
    return write(tmp_path)


def write(folder: Path) -> str:
    """Writes scenarios that differ in their names only."""
    (folder / "p.pipeline.yaml").write_text(PIPELINE, encoding="utf-8")
    texts = [SCENARIO_HEAD.format(place=place) + TURN * TURNS for place in range(SCENARIOS)]
    path = folder / "many.scenario.yaml"
    path.write_text("---\n".join(texts), encoding="utf-8")
    return str(path)


def prepared(library: Library, cases: Sequence[ScenarioCase]) -> list[Prepared]:
    return [library.prepared(case) for case in cases]


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
