"""Claims that cannot fail, and the nearest that can."""

from __future__ import annotations

from pathlib import Path

import pytest

from simkit import load, simulate
from tests.golden import assert_says
from tests.spec.validation.cases import FILE, cases, problems_of


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@cases("vacuous", "found")
def test_a_claim_that_cannot_fail_is_found(text: str, says: str) -> None:
    Path(FILE).write_text(text, encoding="utf-8")

    assert_says(problems_of(), says)


@cases("vacuous", "passed")
def test_a_claim_that_can_fail_is_passed(text: str, says: str) -> None:
    Path(FILE).write_text(text, encoding="utf-8")

    assert_says(problems_of(), says)


ANSWERS = ["refunds: Done.", "refunds: {error: rate_limit}", "refunds: {interrupt: Really}"]


@pytest.mark.parametrize("answer", ANSWERS)
@cases("vacuous", "found")
def test_a_claim_that_is_found_holds_of_every_run(text: str, says: str, answer: str) -> None:
    assert text.count(ANSWERS[0]) == 1
    Path(FILE).write_text(text.replace(ANSWERS[0], answer), encoding="utf-8")
    (prepared,) = load(FILE)

    failed = {finding.where for finding in simulate(prepared).judgement.findings}

    assert failed.isdisjoint(line.split(": ")[0] for line in says.splitlines())
