"""Faults that nobody has written down, in the pipelines of the reference systems, are noticed."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from simkit.spec.pipeline.mutants import PipelineMutant
from tests.conftest import IS_NIGHTLY
from tests.drawn_faults import (
    ERROR,
    NOTHING,
    OTHER,
    RULE,
    Fault,
    draw,
    judged,
    pipelines,
    result_of,
    written_faults,
)

SEED, COUNT = (datetime.now(UTC).toordinal(), 200) if IS_NIGHTLY else (0, 8)
UNNOTICED_MAX = 0.25 if IS_NIGHTLY else 0.5
"""Of 2,653 lines taken out one by one on 30 November 2026, 331 (0.12) turned nothing red."""

FAULTS = Path(__file__).with_name("drawn_faults.yaml")


def fault(stem: str, *edits: Any) -> Fault:
    folder, document = next(
        each for file, each in pipelines().items() if file.endswith(f"/{stem}.pipeline.yaml")
    )
    mutant = PipelineMutant(kind="", text="", path=(), edits=edits)
    return Fault(folder, document, mutant)


@pytest.mark.slow
def test_few_faults_that_are_drawn_turn_nothing_red() -> None:
    verdicts = Counter(result_of(each).verdict for each in draw(SEED, COUNT))

    assert sum(verdicts.values()) == COUNT
    assert verdicts[NOTHING] <= COUNT * UNNOTICED_MAX, f"seed {SEED}: {verdicts}"


@pytest.mark.slow
def test_a_fault_is_red_at_the_claims_of_the_rules_that_it_breaks() -> None:
    result = result_of(fault("tools", {"remove": "tools.search_codebase.returns"}))

    assert result.verdict == RULE
    assert 99 in result.rules


@pytest.mark.slow
def test_nineteen_of_twenty_faults_are_red_at_a_claim_of_the_rule_that_they_break() -> None:
    faults = written_faults(str(FAULTS))
    if not IS_NIGHTLY:
        faults = random.Random(SEED).sample(faults, 40)

    unnoticed = [
        (rule, each.mutant.text) for rule, each in faults if judged(rule, each).verdict != RULE
    ]

    assert len(unnoticed) <= len(faults) / 20, unnoticed


@pytest.mark.slow
def test_a_claim_of_the_same_fact_asserts_a_rule_where_a_planted_fault_turns_it_red() -> None:
    short = fault("linear", {"set": "agents.analyzer.instructions", "to": "Go."})

    assert 133 not in result_of(short, whole=True).rules
    assert judged(133, short).verdict == RULE
    assert judged(22, short).verdict == OTHER


@pytest.mark.slow
@pytest.mark.parametrize(
    ("edits", "verdict"),
    [
        ([{"set": "tools.search_codebase.args", "to": {"type": "object"}}], OTHER),
        ([{"set": "flow.graph.edges[1].to", "to": "nobody"}], ERROR),
        ([{"set": "tools.search_codebase.function", "to": "json:dumps"}], NOTHING),
    ],
)
def test_what_notices_a_fault_is_the_nearest_to_a_rule(edits: list[Any], verdict: str) -> None:
    result = result_of(fault("tools", *edits))

    assert (result.verdict, result.rules) == (verdict, ())
    assert bool(result.places) is (verdict != NOTHING)


@pytest.mark.slow
def test_claims_that_explain_each_other_end() -> None:
    ring = fault("debugging", {"set": "agents.starter", "to": {"instructions": "Go on."}})

    assert result_of(ring, whole=True).verdict == RULE


@pytest.mark.slow
def test_a_seed_draws_the_same_faults_and_another_one_others() -> None:
    first, again, other = (
        [(each.document.file, each.mutant.text) for each in draw(seed, 3)] for seed in (1, 1, 2)
    )

    assert first == again
    assert first != other
