"""Exhaustive exploration runs every conversation once, in every order of parallel agents."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import permutations, product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit import explore
from simkit.explore.campaigns import Bounds
from simkit.explore.conversations import converse_by
from simkit.explore.enumeration import Enumeration
from simkit.explore.search import search_all
from simkit.pytest_plugin.simulations import failure_of
from simkit.spec.scenario.files import Library
from simkit.spec.scenario.items import simulations_in
from tests.cli.conftest import project as project
from tests.cli.conftest import simkit as simkit
from tests.cli.projects import Done, write
from tests.explore.test_simulations import replayed, subject_of

Call = Callable[..., Done]


@given(st.lists(st.integers(1, 4), max_size=5))
def test_every_combination_is_taken_once(counts: list[int]) -> None:
    enumeration = Enumeration(turns=1)

    combinations = [
        tuple(source.answer().below(count) for count in counts) for source in enumeration
    ]

    assert combinations == list(product(*map(range, counts)))
    assert enumeration.is_complete


def test_what_is_asked_may_depend_on_what_was_chosen() -> None:
    combinations = []
    for source in Enumeration(turns=1):
        first = source.user().below(2)
        combinations.append((first, source.result().one_of("ab") if first else ""))

    assert combinations == [(0, ""), (1, "a"), (1, "b")]


def test_a_weight_is_no_number_of_conversations() -> None:
    assert [s.answer().weighted({"a": 9, "b": 1}) for s in Enumeration(1)] == ["a", "b"]
    assert [s.answer().happens(0.01) for s in Enumeration(1)] == [False, True]
    assert [s.answer().happens(0) for s in Enumeration(1)] == [False]


def test_one_rare_thing_happens_at_most() -> None:
    shares = {"a": 0.1, "b": 0.1}
    combinations = [(s.oddity(shares), s.oddity(shares)) for s in Enumeration(1)]

    assert combinations == [("", ""), ("", "a"), ("", "b"), ("a", ""), ("b", "")]


PARALLEL = """
pipeline: par
channels:
  decision: {scope: turn}
  results: {reducer: append, scope: turn}
agents:
  head: {context: [current_message], writes: {decision: "${run.output}"}}
  a: {context: [current_message], writes: {results: [a]}}
  b: {context: [current_message], writes: {results: [b]}}
  c: {context: [current_message], writes: {results: [c]}}
flow: {router: {decide: head, to: "${run.output.to}"}}
---
simulation: three agents
pipeline: par
turns: 1
users: {u: {says: Hello.}}
models: {head: {json: {to: {parallel: [a, b, c]}}}, a: A, b: B, c: C}
"""


def test_three_parallel_agents_finish_in_six_orders(tmp_path: Path) -> None:
    subject = subject_of(tmp_path, "", pipeline=PARALLEL)

    campaign = search_all(partial(converse_by, subject), runs=100, turns_max=1)

    assert (campaign.runs, campaign.is_complete, campaign.discoveries) == (6, True, ())


@pytest.mark.parametrize(("word", "orders"), [("fifo", 1), ("random", 6), ("pct", 6)])
def test_a_schedule_other_than_fifo_takes_every_order(
    word: str, orders: int, tmp_path: Path
) -> None:
    subject = subject_of(tmp_path, f"schedule: {word}\n", pipeline=PARALLEL)

    campaign = search_all(partial(converse_by, subject), runs=100, turns_max=1)

    assert (campaign.runs, campaign.is_complete) == (orders, True)


@pytest.mark.parametrize("order", list(permutations("abc")))
def test_an_order_that_breaks_a_claim_is_found_and_written(
    order: tuple[str, ...], tmp_path: Path
) -> None:
    claim = f"always: {{state: {{results: {{$not: [{', '.join(order)}]}}}}}}\n"
    subject = subject_of(tmp_path, claim, pipeline=PARALLEL)

    campaign = search_all(partial(converse_by, subject), runs=100, turns_max=1)

    (discovery,) = campaign.discoveries
    assert discovery.runs == 1
    assert replayed(discovery, subject, tmp_path) == {discovery.cause}


def test_a_simulation_may_say_that_every_conversation_is_run(
    simkit: Call,
) -> None:
    write("a.simulation.yaml", f"{PARALLEL}schedule: exhaustive\n")

    done = simkit("explore", "a.simulation.yaml")
    race = simkit("explore", "a.simulation.yaml", "--profile", "races")
    whole = explore("a.simulation.yaml")
    library = Library()
    (case,) = simulations_in("a.simulation.yaml", library.cache)
    whole_text = failure_of(library, case, Bounds(runs=100))[1]
    part = failure_of(library, case, Bounds(runs=4))[1]

    assert done.out.startswith("6 conversations, 6 turns, 24 model calls")
    assert "every conversation of at most 1 turn was run\n" in done.out
    assert race.out.startswith("6 conversations, 6 turns, 24 model calls")
    assert (whole.conversations, whole.is_complete) == (6, True)
    assert whole_text == ""
    assert part.startswith(
        "not every conversation was run, but 4 conversations: --simkit-runs draws more"
    )


def test_the_command_says_whether_all_were_run(simkit: Call) -> None:
    write("a.simulation.yaml", PARALLEL)

    whole = simkit("explore", "a.simulation.yaml", "--exhaustive")
    part = simkit("explore", "a.simulation.yaml", "--exhaustive", "--runs", "4")

    assert (whole.code, part.code) == (0, 0)
    assert whole.out.startswith("6 conversations, 6 turns, 24 model calls")
    assert "every conversation of at most 1 turn was run\nnothing was found" in whole.out
    assert "not every conversation of at most 1 turn was run: --runs 40 runs more" in part.out
