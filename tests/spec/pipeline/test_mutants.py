"""Mutants of a pipeline: each is one edit, at a place that is in the document."""

from __future__ import annotations

from pathlib import Path

import pytest

from simkit.core.messages import ABSENT
from simkit.language.paths import follow
from simkit.spec.pipeline.mutants import KINDS, PipelineMutant, apply_edits, pipeline_mutants
from tests.building import load

SCENARIOS = Path(__file__).resolve().parents[3] / "scenarios"
FILES = sorted(SCENARIOS.glob("*/*.pipeline.yaml"))


def mutants_of(file: Path) -> list[tuple[object, PipelineMutant]]:
    return [
        (document.data, mutant)
        for document in load(file)
        for mutant in pipeline_mutants(document.data)
    ]


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_each_mutant_changes_its_document_at_a_place_that_is_in_it(file: Path) -> None:
    for data, mutant in mutants_of(file):
        assert follow(data, mutant.path) is not ABSENT, mutant.text
        assert apply_edits(data, mutant.edits) != data, mutant.text


def test_each_kind_occurs_in_the_reference_systems() -> None:
    kinds = {mutant.kind for file in FILES for _, mutant in mutants_of(file)}

    assert kinds == set(KINDS)


def texts_of(data: dict[str, object]) -> list[str]:
    return [mutant.text for mutant in pipeline_mutants(data)]


def test_a_number_is_shifted_by_one_and_0_stays_unlimited() -> None:
    history = {"history": {"window": {"rounds": 1, "messages": 0}}}

    assert texts_of({"agents": {"a": {"context": [history]}}}) == [
        "`rounds` of the window in section `history` of a's context is 2, not 1"
    ]


def test_sections_that_share_a_message_are_mutated_one_by_one() -> None:
    context = ["instructions", ["current_message", {"recall": {"max": 2, "when": {"user": "x"}}}]]

    assert texts_of({"defaults": {"context": context}}) == [
        "every context has no section `instructions`",
        "every context has no section `current_message`",
        "every context has no section `recall`",
        "`max` of section `recall` of every context is 3, not 2",
        "`max` of section `recall` of every context is 1, not 2",
        "section `recall` of every context has no `when`",
        "sections `instructions` and `current_message` of every context are swapped",
    ]
