"""The summary of a workflow's step: whole texts."""

from __future__ import annotations

from pathlib import Path

import pytest

from simkit.checks.findings import Finding
from simkit.report.results import Result
from simkit.report.text import ROWS_MAX, TOLD_MAX, code, fenced, results_markdown
from tests.golden import assert_file_is

GOLDEN = Path(__file__).with_name("golden")

LATE = Finding("claim", "E", "reply does not match", "a.scenario.yaml:7:21", excerpt="```reply")


def result(name: str, outcome: str = "held", **facts: object) -> Result:
    return Result(f"a.scenario.yaml::{name}", "a.scenario.yaml", 1, name, outcome, **facts)  # type: ignore[arg-type]


@pytest.mark.golden
def test_a_summary_counts_lists_and_shows_what_does_not_hold() -> None:
    results = [
        result("it holds", model_calls=2, tokens=1200, lints_off=(("CTX-07", "meant"),)),
        result("a|b", "failed", seed=7, model_calls=1, tokens=40, findings=(LATE,)),
        result("later", "skipped", reason="no clerk"),
    ]

    assert_file_is(GOLDEN / "a-summary-counts-lists-and-shows.txt", results_markdown(results))


def test_where_all_holds_there_are_no_findings() -> None:
    assert "Findings" not in results_markdown([result("it holds")])


def test_many_scenarios_are_cut_and_counted_the_failed_ones_first() -> None:
    values = [result(f"h{n}") for n in range(ROWS_MAX)]
    failed = [result(f"f{n}", "failed", findings=(LATE,)) for n in range(TOLD_MAX + 2)]

    text = results_markdown([*values, *failed])

    assert text.count("| **failed** |") == TOLD_MAX + 2
    assert text.count("| passed |") == ROWS_MAX - TOLD_MAX - 2
    assert f"… and {TOLD_MAX + 2} more scenarios\n" in text
    assert text.endswith("… and those of 2 more scenarios\n")


@pytest.mark.parametrize(
    ("text", "output"),
    [("plain", "`plain`"), ("two\nlines", "`two lines`"), ("a`b", "``a`b``"), ("`x", "`` `x ``")],
)
def test_code_means_nothing_but_itself(text: str, output: str) -> None:
    assert code(text) == output


def test_a_block_of_code_cannot_be_left() -> None:
    assert fenced("a\n```\n# b") == "````text\na\n```\n# b\n````"
