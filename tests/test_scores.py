"""The table of scores in docs/how-to/coverage.md: `python -m tests.scores` writes it."""

from __future__ import annotations

from tests.scores import BEGIN, END, PAGE, SYSTEMS


def test_the_page_has_the_scores_of_each_reference_system() -> None:
    table = PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]

    rows = [line.split("|")[1].strip() for line in table.splitlines() if line.startswith("| ")]
    assert rows == ["reference system", *SYSTEMS]
