"""Flaws of files that could run: each is found, and the nearest right file is passed."""

from __future__ import annotations

from pathlib import Path

import pytest

from simkit import load, simulate
from simkit.trace.events import RunFinished
from tests.golden import assert_says
from tests.spec.validation.cases import FILE, cases, problems_of

SECTIONS = (
    *("declared", "fixtures", "graphs", "lines", "reach", "supervised", "unstarted", "vacuous"),
)
ANSWERS = ["refunds: Done.", "refunds: {error: rate_limit}", "refunds: {interrupt: Really}"]


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(cwd: Path) -> None:
    # Nothing is said of functions that are there.
    Path("shop.py").write_text("refund = is_paid = asks = print\n", encoding="utf-8")


@cases("found", *SECTIONS)
def test_a_flaw_is_found(text: str, says: str) -> None:
    Path(FILE).write_text(text, encoding="utf-8")

    assert_says(problems_of(), says)


@cases("passed", *SECTIONS)
def test_the_nearest_right_file_is_passed(text: str, says: str) -> None:
    Path(FILE).write_text(text, encoding="utf-8")

    assert_says(problems_of(), says)


@pytest.mark.parametrize("answer", ANSWERS)
@cases("found", "vacuous")
def test_a_claim_that_is_found_holds_of_every_run(text: str, says: str, answer: str) -> None:
    assert text.count(ANSWERS[0]) == 1
    Path(FILE).write_text(text.replace(ANSWERS[0], answer), encoding="utf-8")
    (prepared,) = load(FILE)

    failed = {finding.where for finding in simulate(prepared).judgement.findings}

    assert failed.isdisjoint(line.split(": ")[0] for line in says.splitlines())


def broken_by(text: str) -> str:
    """Returns why the run cannot serve a line; empty if it can."""
    Path(FILE).write_text(text, encoding="utf-8")
    (prepared,) = load(FILE)
    ended = simulate(prepared).trace.events[-1]
    assert isinstance(ended, RunFinished)
    return ended.misfits[0].what if ended.misfits else ""


@cases("found", "lines")
def test_the_run_breaks_exactly_where_a_line_is_refused(text: str, says: str) -> None:
    assert bool(broken_by(text)) == ("VAL-21" in says)


@cases("passed", "lines")
def test_the_run_breaks_on_no_line_that_is_passed(text: str, says: str) -> None:
    if "shop:" not in text:
        assert broken_by(text) == ""
