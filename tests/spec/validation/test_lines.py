"""Reply lines and tool results that cannot be used as they are written."""

from __future__ import annotations

from pathlib import Path

import pytest

from simkit import load, simulate
from simkit.trace.events import RunFinished
from tests.golden import assert_says
from tests.spec.validation.cases import FILE, cases, problems_of


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    # Nothing is said of functions that are there.
    Path("shop.py").write_text("refund = is_paid = asks = print\n", encoding="utf-8")


@cases("lines", "found")
def test_a_line_that_the_run_would_refuse_is_found(text: str, says: str) -> None:
    Path(FILE).write_text(text, encoding="utf-8")

    assert_says(problems_of(), says)


@cases("lines", "passed")
def test_a_line_that_can_be_served_is_passed(text: str, says: str) -> None:
    Path(FILE).write_text(text, encoding="utf-8")

    assert_says(problems_of(), says)


@cases("unstarted", "found")
def test_lines_of_an_agent_that_never_runs_are_found(text: str, says: str) -> None:
    Path(FILE).write_text(text, encoding="utf-8")

    assert_says(problems_of(), says)


@cases("unstarted", "passed")
def test_lines_of_an_agent_in_a_goal_are_passed(text: str, says: str) -> None:
    Path(FILE).write_text(text, encoding="utf-8")

    assert_says(problems_of(), says)


def broken_by(text: str) -> str:
    """Returns why the run cannot serve a line; empty if it can."""
    Path(FILE).write_text(text, encoding="utf-8")
    (prepared,) = load(FILE)
    ended = simulate(prepared).trace.events[-1]
    assert isinstance(ended, RunFinished)
    return ended.misfits[0].what if ended.misfits else ""


@cases("lines", "found")
def test_the_run_breaks_exactly_where_a_line_is_refused(text: str, says: str) -> None:
    assert bool(broken_by(text)) == ("VAL-21" in says)


@cases("lines", "passed")
def test_the_run_breaks_on_no_line_that_is_passed(text: str, says: str) -> None:
    if "shop:" not in text:
        assert broken_by(text) == ""
