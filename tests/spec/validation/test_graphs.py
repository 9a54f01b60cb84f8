"""Loops without a way out, and labels that fit the same words."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden import assert_says
from tests.spec.validation.cases import FILE, cases, problems_of


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@cases("graphs", "found")
def test_what_a_graph_can_only_do_wrong_is_found(text: str, says: str) -> None:
    Path(FILE).write_text(text, encoding="utf-8")

    assert_says(problems_of(), says)


@cases("graphs", "passed")
def test_a_graph_that_ends_and_tells_labels_apart_is_passed(text: str, says: str) -> None:
    Path(FILE).write_text(text, encoding="utf-8")

    assert_says(problems_of(), says)
