"""Estimates from repeated runs: they are the published formulas, and right on average."""

from __future__ import annotations

import math
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.session.live.meter import Rate, percentile


@pytest.mark.parametrize(
    ("passes", "runs", "low", "high"),
    # Newcombe, Two-sided confidence intervals for the single proportion, 1998, table I, method 3.
    [
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_the_interval_is_wilsons(passes: int, runs: int, low: float, high: float) -> None:
    assert Rate(passes, runs).interval == pytest.approx((low, high), abs=5e-5)


@pytest.mark.parametrize("runs", [5, 10, 30])
def test_the_interval_holds_the_true_rate_in_95_of_100_campaigns(runs: int) -> None:
    shares = [step / 100 for step in range(5, 96)]
    covered = []
    for share in shares:
        chances = [
            math.comb(runs, c) * share**c * (1 - share) ** (runs - c) for c in range(runs + 1)
        ]
        intervals = [Rate(c, runs).interval for c in range(runs + 1)]
        covered.append(
            sum(
                p for p, (low, high) in zip(chances, intervals, strict=True) if low <= share <= high
            )
        )

    assert sum(covered) / len(covered) == pytest.approx(0.95, abs=0.01)


@given(st.lists(st.booleans(), min_size=1, max_size=8), st.data())
def test_pass_at_k_and_pass_hat_k_are_the_shares_of_all_choices_of_k_runs(
    results: list[bool], data: st.DataObject
) -> None:
    k = data.draw(st.integers(1, len(results)))
    rate = Rate(sum(results), len(results))
    choices = list(combinations(results, k))

    assert rate.any_of(k) == pytest.approx(sum(map(any, choices)) / len(choices))
    assert rate.all_of(k) == pytest.approx(sum(map(all, choices)) / len(choices))


def test_no_run_says_nothing() -> None:
    assert Rate(0, 0).interval == (0.0, 1.0)
    assert Rate(0, 0).share == 0.0


def test_a_percentile_is_a_measured_value() -> None:
    assert percentile([4, 1, 3, 2], 0.5) == 2
    assert percentile([*range(1, 101)], 0.95) == 95
    assert percentile([7], 0.95) == 7
