"""What a run comes to as a result: its numbers, and what an expected failure does to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from simkit.report.outcomes import result_of
from simkit.report.results import Result
from simkit.session.simulate import simulate
from simkit.spec.scenario.files import Library
from simkit.spec.scenario.items import items_in
from tests.cli.projects import BAD, ECHO, GOOD


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
