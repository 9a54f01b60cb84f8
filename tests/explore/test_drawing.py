"""What is rare is drawn as often as it is said to be."""

from __future__ import annotations

from simkit.explore.choices import ChoiceLog, Plan
from simkit.explore.chunks import chunks_of
from simkit.explore.conversations import ExploredRun
from simkit.explore.drawing import draw, enabled_things

RUNS = 300


def test_each_rare_thing_is_enabled_in_about_half_of_the_conversations() -> None:
    plans: list[Plan] = []

    def run(plan: Plan | ChoiceLog) -> ExploredRun:
        assert isinstance(plan, Plan)
        plans.append(plan)
        return ExploredRun((), {}, 0)

    for chunk in chunks_of(RUNS, 0):
        draw(run, chunk, turns_max=3, rare=6)

    shares = [
        sum(flags) / len(plans) for flags in zip(*(plan.enabled for plan in plans), strict=True)
    ]
    assert len(shares) == 6
    assert all(0.33 < share < 0.6 for share in shares), shares


def test_the_simplest_conversation_has_nothing_rare() -> None:
    assert enabled_things(0, 3) == (False, False, False)
