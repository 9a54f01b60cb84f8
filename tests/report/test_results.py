from __future__ import annotations

import pytest
from msgspec.structs import replace

from simkit.report.results import OutcomeName, Result, lints_off, skips, summary_of


def result(outcome: OutcomeName = "held", off: tuple[tuple[str, str], ...] = ()) -> Result:
    return Result("f::n", "f", 1, "n", outcome, lints_off=off)


@pytest.mark.parametrize(
    ("outcomes", "code"),
    [
        (["held", "skipped", "xfailed"], 0),
        (["held", "failed"], 1),
        (["failed", "broken", "failed"], 2),
        (["broken"], 2),
    ],
)
def test_broken_beats_failed_and_failed_beats_held(outcomes: list[OutcomeName], code: int) -> None:
    summary = summary_of([result(outcome) for outcome in outcomes])

    assert summary.exit_code == code
    assert summary.scenarios == len(outcomes)
    assert [summary.held, summary.failed, summary.broken, summary.skipped, summary.xfailed] == [
        outcomes.count(name) for name in ("held", "failed", "broken", "skipped", "xfailed")
    ]


def test_skipped_scenarios_are_counted_by_reason() -> None:
    skipped = [replace(result("skipped"), reason=why) for why in ("no clerk", "later", "later")]
    results = [*skipped, result("held")]

    assert skips(results) == [("later", 2), ("no clerk", 1)]


def test_lints_that_are_off_are_counted_by_reason() -> None:
    item, other = ("CTX-07", "meant"), ("CTX-07", "legacy")

    assert lints_off([result(off=(item, other)), result(off=(item,))]) == [
        ("CTX-07", "legacy", 1),
        ("CTX-07", "meant", 2),
    ]
