"""Every conversation in several processes: the same report as in one, however it is cut."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simkit.checks.findings import Finding
from simkit.explore.causes import Cause
from simkit.explore.choices import Source
from simkit.explore.chunks import Tally
from simkit.explore.conversations import ExploredRun
from simkit.explore.enumeration import Enumerated, Enumeration, Interval
from simkit.explore.search import search_all
from simkit.explore.spreading import Slice, run_interval, spread
from tests.campaigns import campaign

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

    def __init__(self, data: st.DataObject) -> None:
        self._data = data
        self.tasks = 0

    def intervals(
        self, intervals: Sequence[tuple[int, Interval, int]]
    ) -> Iterator[tuple[int, Tally, tuple[Interval, ...]]]:
        """Run each to its end or a part of it."""
        for number, interval, most in self._data.draw(st.permutations(intervals)):
            self.tasks += 1
            cut = min(most, self._data.draw(st.integers(1, 12)))
            yield number, *run_interval(run, interval, turns_max=TURNS, most=cut)


@given(st.data(), st.integers(1, 400))
def test_any_cuts_come_to_the_tally_of_one_process(data: st.DataObject, runs: int) -> None:
    alone, left = run_interval(run, Interval(), turns_max=TURNS, most=runs)
    counts: list[int] = []

    tally, is_complete = spread(
        Cutting(data), runs=runs, is_late=lambda: False, tell=lambda part: counts.append(part.runs)
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
        self, intervals: Sequence[tuple[int, Interval, int]]
    ) -> Iterator[tuple[int, Tally, tuple[Interval, ...]]]:
        """Run some of them."""
        for answer in super().intervals(intervals):
            if self.tasks > self._left:
                raise self._problem
            yield answer


@settings(max_examples=40)
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
                is_late=lambda: False,
                tell=lambda part: None,
                done=(*journal,),
                keep=journal.append,
            )
            assert tally.is_stopped or tally == alone
        assert len(journal) >= size
        size = len(journal)

    tally, is_complete = spread(
        Cutting(data),
        runs=runs,
        is_late=lambda: False,
        tell=lambda part: None,
        done=(*journal,),
        keep=journal.append,
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
            self, intervals: Sequence[tuple[int, Interval, int]]
        ) -> Iterator[tuple[int, Tally, tuple[Interval, ...]]]:
            self.tasks += len(intervals)
            for number, interval, _ in intervals:
                yield number, *run_interval(run, interval, turns_max=TURNS, most=3)

    work = Late(None)  # type: ignore[arg-type]

    tally, is_complete = spread(
        work, runs=1000, is_late=lambda: work.tasks > 2, tell=lambda part: None
    )

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
