"""Private channels that others read, and what is declared and not used."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden import assert_says
from tests.spec.validation.cases import FILE, cases, problems_of


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    # Nothing is said of functions that are there.
    Path("shop.py").write_text("refund = is_paid = asks = print\n", encoding="utf-8")


@cases("declared", "found")
def test_a_declaration_that_is_broken_or_idle_is_found(text: str, says: str) -> None:
    Path(FILE).write_text(text, encoding="utf-8")

    assert_says(problems_of(), says)


@cases("declared", "passed")
def test_a_declaration_that_is_kept_and_used_is_passed(text: str, says: str) -> None:
    Path(FILE).write_text(text, encoding="utf-8")

    assert_says(problems_of(), says)
