"""A simulated conversation calls few functions; calls do not flicker as time does."""

from __future__ import annotations

from pathlib import Path

from simkit.explore.choices import Plan, TurnPlan
from simkit.explore.conversations import converse
from tests.explore.test_shrinking import refunds
from tests.test_linear import counted

TURNS = 50
BOUND = 830
"""A little above the calls of a turn today. Whoever makes a turn cheaper lowers it."""


def test_a_simulated_turn_calls_few_functions(tmp_path: Path) -> None:
    subject = refunds(100, tmp_path)
    # A handoff in every tenth turn.
    plan = Plan(
        tuple(TurnPlan(user=n, answers=(2,) if n % 10 == 9 else (0,)) for n in range(TURNS))
    )
    converse(subject, plan)  # what a process makes once

    record, calls = counted(lambda: converse(subject, plan))

    assert len(record.turns) == TURNS
    assert calls / TURNS <= BOUND
