from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from simkit.report.results import (
    OutcomeName,
    Result,
    asked_by_libraries,
    lints_off,
    result_of,
    skips,
    summary_of,
)
from simkit.session.simulate import simulate
from simkit.spec.scenario.files import Library
from simkit.spec.scenario.items import items_in
from tests.cli.projects import BAD, ECHO, GOOD


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


def test_hosts_that_libraries_asked_are_one_warning_at_the_turns(tmp_path: Path) -> None:
    file = tmp_path / "x.scenario.yaml"
    file.write_text(f"{ECHO}{GOOD}", encoding="utf-8")
    prepared = Library().prepared(items_in(str(file))[0])

    warning = asked_by_libraries(prepared, [("crewai", "a.example"), ("lib", "b.example")])

    assert (warning.id, warning.severity, warning.path) == ("RUN-02", "W", ("turns",))
    assert warning.where == prepared.document.position(("turns",))
    assert warning.what == (
        "`crewai` asked a.example, `lib` asked b.example: there is no network, and the run went on "
        "without it"
    )
    assert "`allow_hosts`" in warning.fix


def came_of(folder: Path, scenario: str) -> Result:
    file = folder / "x.scenario.yaml"
    file.write_text(ECHO + scenario, encoding="utf-8")
    prepared = Library().prepared(items_in(str(file))[0])
    outcome = simulate(prepared)
    return result_of(prepared, outcome, None)


def test_tokens_are_those_of_all_calls_together(tmp_path: Path) -> None:
    result = came_of(tmp_path, GOOD)
    two = came_of(tmp_path, GOOD.replace("}}]", "}}, {user: hi, replies: {a: hello}}]"))

    assert (result.model_calls, result.tokens) == (1, 2)
    assert (two.model_calls, two.tokens) == (2, 7)


@pytest.mark.parametrize(
    ("scenario", "outcome", "findings"),
    [
        (GOOD, "held", 0),
        (BAD, "failed", 1),
        (BAD.replace("turns:", "xfail: known\nturns:"), "xfailed", 0),
        (GOOD.replace("turns:", "xfail: known\nturns:"), "failed", 1),
        (GOOD.replace("turns:", "xfail: {reason: known, strict: false}\nturns:"), "held", 0),
        (
            GOOD.replace("{reply: hello}", "{satisfies: 'nowhere:f'}").replace(
                "turns", "xfail: x\nturns"
            ),
            "broken",
            1,
        ),
    ],
    ids=[
        "holds",
        "fails",
        "fails as expected",
        "holds, strictly",
        "holds, leniently",
        "names what is not there",
    ],
)
def test_an_expected_failure_turns_the_outcome_round(
    tmp_path: Path, scenario: str, outcome: str, findings: int
) -> None:
    result = came_of(tmp_path, scenario)

    assert (result.outcome, len(result.findings)) == (outcome, findings)
