"""Graphs and goals that cannot run are refused, with what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden import assert_says
from tests.refusals import Case, parametrized, refusal_of, table

BASE, REFUSED, ACCEPTED = table("spec/pipeline/graph_shape.yaml")


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_base_of_the_table_is_accepted() -> None:
    assert refusal_of(BASE) == ""


@parametrized(REFUSED)
def test_graph_that_cannot_run_is_refused(case: Case) -> None:
    assert_says(refusal_of(case.text), case.says)


@parametrized(ACCEPTED)
def test_graph_that_can_run_is_accepted(case: Case) -> None:
    assert refusal_of(case.text) == ""
