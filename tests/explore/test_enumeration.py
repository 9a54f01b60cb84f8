"""Exhaustive exploration runs every conversation once, in every order of parallel agents."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import permutations, product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit import explore
from simkit.checks.findings import Finding
from simkit.explore.campaigns import Bounds
from simkit.explore.causes import Cause
from simkit.explore.choices import ChoiceLog, Source
from simkit.explore.chunks import CauseTally, Chunk, Tally, Tell
from simkit.explore.conversations import ExploredRun, converse_by
from simkit.explore.enumeration import (
    Enumerated,
    Enumeration,
    Interval,
    Slice,
    run_interval,
    spread,
)
from simkit.pytest_plugin.items import failure_of
from simkit.spec.scenario.files import Library
from simkit.spec.scenario.items import simulations_in
from tests.campaigns import campaign
from tests.cli.projects import Call, write
from tests.explore.searching import search_all
from tests.explore.test_simulations import replayed, subject_of


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


def test_a_simulation_may_say_that_every_conversation_is_run(simkit: Call) -> None:
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


TURNS = 1


def run(source: Source) -> ExploredRun:
    """A conversation whose choices depend on those before, and which shows something at times."""
    digits: list[int] = []
    while len(digits) < 5:
        chance = hashlib.sha256(bytes(digits)).digest()
        digits.append(source.user().below(1 + chance[0] % 4))
        if chance[1] < 60:
            break
    chance = hashlib.sha256(bytes(digits)).digest()
    causes = {
        Cause("claim", name, ""): Finding("claim", "E", f"{name} {digits}", "")
        for name, share in (("a", 40), ("b", 128))
        if chance[2] < share
    }
    turns = tuple({"user": "."} for _ in range(1 + chance[3] % 3))
    return ExploredRun(turns, causes, len(digits))


class Cutting:
    """Processes that end their tasks after a drawn number of conversations, in a drawn order."""

    wave = 8

    def draw(self, chunks: Sequence[Chunk], tell: Tell) -> Iterator[tuple[Chunk, Tally]]:
        """Nothing is drawn here."""
        raise NotImplementedError

    def shrink(self, causes: Sequence[CauseTally]) -> Iterator[tuple[Cause, ChoiceLog]]:
        """Nothing is made small here."""
        raise NotImplementedError

    def __init__(self, data: st.DataObject) -> None:
        self._data = data
        self.tasks = 0

    def intervals(
        self, intervals: Sequence[tuple[int, Interval, int]], tell: Tell
    ) -> Iterator[tuple[int, Tally, tuple[Interval, ...]]]:
        """Run each to its end or a part of it."""
        for number, interval, most in self._data.draw(st.permutations(intervals)):
            self.tasks += 1
            cut = min(most, self._data.draw(st.integers(1, 12)))
            yield number, *run_interval(run, interval, turns_max=TURNS, most=cut)


@pytest.mark.slow
@given(st.data(), st.integers(1, 400))
def test_any_cuts_come_to_the_tally_of_one_process(data: st.DataObject, runs: int) -> None:
    alone, left = run_interval(run, Interval(), turns_max=TURNS, most=runs)
    counts: list[int] = []

    tally, is_complete = spread(
        Cutting(data), runs=runs, tell=lambda part: counts.append(part.runs)
    )

    assert tally == alone
    assert is_complete == (not left)
    assert sorted(counts) == counts


class Killed(Exception):
    """The process is gone."""


class Dying(Cutting):
    """Processes that are killed, or stopped by Ctrl-C, after a drawn number of tasks."""

    def __init__(self, data: st.DataObject) -> None:
        super().__init__(data)
        self._left = data.draw(st.integers(0, 6))
        self._problem = data.draw(st.sampled_from([Killed, KeyboardInterrupt]))

    def intervals(
        self, intervals: Sequence[tuple[int, Interval, int]], tell: Tell
    ) -> Iterator[tuple[int, Tally, tuple[Interval, ...]]]:
        """Run some of them."""
        for answer in super().intervals(intervals, tell):
            if self.tasks > self._left:
                raise self._problem
            yield answer


@pytest.mark.slow
@given(st.data(), st.integers(1, 400), st.integers(1, 4))
def test_one_that_is_interrupted_goes_on_to_the_same_tally(
    data: st.DataObject, runs: int, deaths: int
) -> None:
    alone, left = run_interval(run, Interval(), turns_max=TURNS, most=runs)
    journal: list[Slice] = []
    size = 0
    for _ in range(deaths):
        with contextlib.suppress(Killed):
            tally, _ = spread(
                Dying(data),
                runs=runs,
                tell=lambda part: None,
                done=(*journal,),
                keep=journal.append,
            )
            assert tally.is_stopped or tally == alone
        assert len(journal) >= size
        size = len(journal)

    tally, is_complete = spread(
        Cutting(data), runs=runs, tell=lambda part: None, done=(*journal,), keep=journal.append
    )

    assert tally == alone
    assert is_complete == (not left)


@given(st.integers(0, 60), st.integers(0, 60))
def test_ctrl_c_in_a_conversation_loses_nothing(first: int, second: int) -> None:
    alone = search_all(run, runs=100, turns_max=TURNS)
    journal: list[Slice] = []
    for count in (first, second):
        calls = iter([False] * count)
        stopped = search_all(
            run,
            runs=100,
            turns_max=TURNS,
            is_late=lambda: next(calls, True),  # noqa: B023
            done=(*journal,),
            keep=journal.append,
        )
        assert stopped.is_stopped or stopped == alone

    whole = search_all(run, runs=100, turns_max=TURNS, done=(*journal,))

    assert sum(part.tally.runs for part in journal) == min(first + second, 100)
    assert whole == alone


def test_what_is_left_begins_with_the_next_conversation_and_repeats_none() -> None:
    every = [source.digits for source in all_of(Interval())]

    for place, source in enumerate(all_of(Interval())):
        rest = Enumeration(TURNS).left_after(source)
        digits = [each.digits for interval in rest for each in all_of(interval)]
        assert digits == every[place + 1 :]
    assert len(every) > 50


def all_of(interval: Interval) -> Iterator[Enumerated]:
    """The conversations of an interval, each after it was run."""
    for source in Enumeration(TURNS, interval):
        run(source)
        yield source


def test_what_is_late_is_stopped_and_proves_nothing() -> None:
    class Late(Cutting):
        def intervals(
            self, intervals: Sequence[tuple[int, Interval, int]], tell: Tell
        ) -> Iterator[tuple[int, Tally, tuple[Interval, ...]]]:
            if self.tasks > 2:
                raise KeyboardInterrupt
            self.tasks += len(intervals)
            for number, interval, _ in intervals:
                yield number, *run_interval(run, interval, turns_max=TURNS, most=3)

    work = Late(None)  # type: ignore[arg-type]

    tally, is_complete = spread(work, runs=1000, tell=lambda part: None)

    assert (tally.is_stopped, is_complete) == (True, False)
    assert 3 < tally.runs < 40


@pytest.mark.slow
def test_the_command_has_one_report_for_any_number_of_processes() -> None:
    alone = campaign("--exhaustive", "--turns", "1")

    assert len(alone["found"]) > 1
    assert campaign("--exhaustive", "--turns", "1", "-j", "2") == alone
    assert campaign("--exhaustive", "--turns", "1", "--runs", "57", "-j", "2") == campaign(
        "--exhaustive", "--turns", "1", "--runs", "57"
    )
