"""Findings are made small: turns and answers are cut, and choices are made simpler."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.checks.findings import Finding
from simkit.explore.causes import Cause
from simkit.explore.choices import (
    ODDS,
    ChoiceLog,
    Plan,
    RandomChoices,
    ReplayedChoices,
    TurnLog,
    TurnPlan,
)
from simkit.explore.conversations import ExploredRun, converse
from simkit.explore.shrinking import TRIES_MAX, Shrinker
from simkit.explore.subjects import Subject
from tests.explore.test_simulations import BUYER, REFUNDS, subject_of

CAUSE = Cause("claim", "", "always.state.refunds")
NUMBERS = st.integers(0, 2**32 - 1)
ANSWERS = st.lists(NUMBERS, max_size=5).map(tuple)
RARE = st.lists(st.integers(0, ODDS - 1), max_size=6).map(tuple)
PLANS = st.builds(
    Plan,
    turns=st.lists(
        st.builds(TurnPlan, NUMBERS, NUMBERS, ANSWERS, ANSWERS, RARE), min_size=1, max_size=4
    ).map(tuple),
    personas=NUMBERS,
    enabled=st.just((True,) * 4),
)
ODD = """
misbehaves: {malformed_json: 0.1, repeats_itself: 0.2}
faults: {rate_limit: 0.1, duplicate_turn: 0.2}
"""


@pytest.mark.slow
@given(plan=PLANS)
def test_a_tape_plays_the_conversation_that_it_was_taken_of(
    plan: Plan, tmp_path_factory: pytest.TempPathFactory
) -> None:
    subject = subject_of(tmp_path_factory.mktemp("desk"), BUYER + REFUNDS + ODD)

    record = converse(subject, plan)

    assert converse(subject, record.tape) == record


def test_what_a_tape_does_not_say_is_the_simplest_choice() -> None:
    played = ReplayedChoices(ChoiceLog((TurnLog(), TurnLog(user=(9,)))))

    played.begin_turn(0)
    assert played.answer().below(5) == 0
    played.begin_turn(1)
    assert played.user().below(5) == 4
    assert played.tape() == ChoiceLog((TurnLog(), TurnLog(user=(4,))))


def run_that_shows(shows: Callable[[ChoiceLog], bool]) -> Callable[[ChoiceLog], ExploredRun]:
    """Returns a run without a pipeline: each turn has a user's digit and an answer's."""

    def run(tape: ChoiceLog) -> ExploredRun:
        source = ReplayedChoices(tape)
        for place in range(source.turns):
            source.begin_turn(place)
            source.user().below(10)
            source.answer().below(100)
        used = source.tape()
        causes = {CAUSE: Finding("claim", "E", "", "")} if shows(used) else {}
        return ExploredRun(tuple({} for _ in used.turns), causes, 1, tape=used)

    return run


def long_tape(count: int) -> ChoiceLog:
    plan = Plan(tuple(TurnPlan(user=n * 7919, answers=(n * 104_729,)) for n in range(count)))
    source = RandomChoices(plan)
    for place in range(count):
        source.begin_turn(place)
        source.user().below(10)
        source.answer().below(100)
    return source.tape()


@pytest.mark.parametrize("digits", [{3}, {0, 9}, {1, 2, 3, 4}])
def test_the_smallest_of_two_hundred_turns_is_found_in_few_tries(digits: set[int]) -> None:
    """A cause that needs certain digits of users needs as many turns, all else simple."""
    tries = 0

    def shows(tape: ChoiceLog) -> bool:
        nonlocal tries
        tries += 1
        return digits <= {(*turn.user, 0)[0] for turn in tape.turns}

    shrinker = Shrinker(run_that_shows(shows), CAUSE)
    shrinker.shrink(long_tape(200))

    users = sorted((*turn.user, 0)[0] for turn in shrinker.best.turns)
    assert users == sorted(digits)
    assert all(turn.answers == () for turn in shrinker.best.turns)
    assert tries < TRIES_MAX


def test_a_cause_that_comes_and_goes_is_left_as_it_was() -> None:
    tape = long_tape(4)
    shrinker = Shrinker(run_that_shows(lambda tape: False), CAUSE)

    shrinker.shrink(tape)

    assert shrinker.best == tape


def test_it_ends_when_it_is_late_with_the_smallest_so_far() -> None:
    left = iter([False] * 5)
    shrinker = Shrinker(run_that_shows(lambda tape: True), CAUSE, lambda: next(left, True))

    shrinker.shrink(long_tape(200))

    assert 0 < len(shrinker.best.turns) < 200


def refunds(count: int, folder: Path) -> Subject:
    claim = f"always: {{state: {{refunds: {{$len: {{$lt: {count}}}}}}}}}\n"
    users = "turns: 200\nusers: {u: {says: [Hi., Refund me., 'My order is A-1042.']}}\n"
    return subject_of(folder, users + claim)


REFUNDING: Final = Plan(
    tuple(TurnPlan(user=n, answers=(2 + 4 * n,) if n % 10 == 9 else (4 * n,)) for n in range(200))
)
"""Two hundred turns with a handoff in every tenth one."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "runs_most", "turns_most"),
    [(1, 20, 300), (3, 45, 450), (6, 80, 700), (10, 130, 1500)],
)
def test_a_failure_of_two_hundred_turns_shrinks_to_its_minimum(
    count: int, runs_most: int, turns_most: int, tmp_path: Path
) -> None:
    subject = refunds(count, tmp_path)
    record = converse(subject, REFUNDING)
    runs = turns = 0

    def run(tape: ChoiceLog) -> ExploredRun:
        nonlocal runs, turns
        record = converse(subject, tape)
        runs, turns = runs + 1, turns + len(record.turns)
        return record

    assert len(record.turns) == 200
    assert CAUSE in record.causes
    shrinker = Shrinker(run, CAUSE)
    shrinker.shrink(record.tape)

    smallest = converse(subject, shrinker.best)
    assert len(smallest.turns) == count
    assert all(set(turn["replies"]) == {"desk", "billing"} for turn in smallest.turns)
    assert runs < runs_most
    assert turns < turns_most
