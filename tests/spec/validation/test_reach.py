"""Agents that nothing can start, and what only they could use."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden import assert_says
from tests.spec.validation.cases import FILE, cases, problems_of


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@cases("reach", "found")
def test_an_agent_that_nothing_can_start_is_found(text: str, says: str) -> None:
    Path(FILE).write_text(text, encoding="utf-8")

    assert_says(problems_of(), says)


@cases("reach", "passed")
def test_an_agent_that_something_can_start_is_passed(text: str, says: str) -> None:
    Path(FILE).write_text(text, encoding="utf-8")

    assert_says(problems_of(), says)


@cases("supervised", "found")
def test_an_agent_outside_all_goals_is_found(text: str, says: str) -> None:
    Path(FILE).write_text(text, encoding="utf-8")

    assert_says(problems_of(), says)


@cases("supervised", "passed")
def test_an_agent_that_a_goal_leads_to_is_passed(text: str, says: str) -> None:
    Path(FILE).write_text(text, encoding="utf-8")

    assert_says(problems_of(), says)
