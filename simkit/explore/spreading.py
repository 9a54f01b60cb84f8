"""Every conversation within a bound, run by several processes, with the report of one.

The conversations of an enumeration are in an order. A task is an interval of them: the process that
has it runs some, and answers with their tally and with the intervals that are left, which become
tasks of other processes. Tallies stand where their intervals stood, so that conversations have the
numbers that they have in one process, however they were cut.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol

import msgspec

from simkit.explore.choices import Source
from simkit.explore.chunks import Tally, TallyBuilder, merged
from simkit.explore.conversations import ExploredRun
from simkit.explore.enumeration import Enumerated, Enumeration, Interval

SLICE_S: Final = 0.4
"""The time after which a task ends, so that what is left can be shared."""
WAVE_EACH: Final = 4
"""The number of tasks for each process that are handed out together."""

RunBy = Callable[[Source], ExploredRun]


class Part(msgspec.Struct, frozen=True):
    """Conversations that were run one after the other, numbered from 1."""

    start: Interval
    """The interval that begins with the first one."""
    tally: Tally


class Spread(Protocol):
    """Processes that run intervals of an enumeration."""

    @property
    def processes(self) -> int:
        """Return the number of intervals that are run at once."""

    def intervals(
        self, intervals: Sequence[tuple[int, Interval, int]]
    ) -> Iterator[tuple[int, Tally, tuple[Interval, ...]]]:
        """Run intervals, each with a number and with the most conversations of it.

        Yield for each, in any order, its number, the tally, and what is left of it.
        """


def run_interval(
    run: RunBy,
    interval: Interval,
    *,
    turns_max: int,
    most: int,
    is_late: Callable[[], bool] = lambda: False,
    tell: Callable[[TallyBuilder], None] = lambda builder: None,
) -> tuple[Tally, tuple[Interval, ...]]:
    """Run at most so many conversations of an interval; return their tally, and what is left.

    It ends when ``is_late`` returns true after a conversation, and on Ctrl-C, which stops it.
    """
    builder, enumeration = TallyBuilder(), Enumeration(turns_max, interval)
    count, is_stopped = 0, False
    source: Enumerated | None = None
    try:
        for source in enumeration:
            builder.add(run(source), source.digits)
            tell(builder)
            count += 1
            if count == most or is_late():
                break
    except KeyboardInterrupt:
        is_stopped = True
    left = () if is_stopped or source is None else enumeration.left_after(source)
    return builder.tally(is_stopped=is_stopped), left


def sliced() -> Callable[[], bool]:
    """Return a function that says whether a task, which begins now, has run long enough."""
    end = time.monotonic() + SLICE_S
    return lambda: time.monotonic() > end


def spread(
    work: Spread,
    *,
    runs: int,
    is_late: Callable[[], bool],
    tell: Callable[[Tally], None],
) -> tuple[Tally, bool]:
    """Run the first ``runs`` conversations of an enumeration in several processes.

    Return their tally, and whether there are no others.
    """
    places: list[Interval | Part] = [Interval()]
    total, is_stopped = Tally(), False
    try:
        while (wave := _wave(places, runs, work.processes * WAVE_EACH)) and not is_stopped:
            if is_late():
                is_stopped = True
                break
            answers: dict[int, list[Interval | Part]] = {}
            for place, tally, left in work.intervals(
                [(number, interval, runs) for number, interval in wave]
            ):
                answers[place] = [Part(dict(wave)[place], tally), *left]
                total = total.merged(tally)
                tell(total)
            places = [
                each for place, known in enumerate(places) for each in answers.get(place, [known])
            ]
    except KeyboardInterrupt:
        is_stopped = True
    is_complete = not any(isinstance(each, Interval) for each in places)
    parts = [each for each in places if isinstance(each, Part)]
    return _first(work, parts, runs, is_stopped, is_complete)


def _wave(places: Sequence[Interval | Part], runs: int, most: int) -> list[tuple[int, Interval]]:
    """Return the next intervals by their places: only such as may be among the first ``runs``."""
    wave: list[tuple[int, Interval]] = []
    before = 0
    for place, each in enumerate(places):
        if before >= runs or len(wave) == most:
            break
        if isinstance(each, Interval):
            wave.append((place, each))
        else:
            before += each.tally.runs
    return wave


def _first(
    work: Spread, parts: Sequence[Part], runs: int, is_stopped: bool, is_complete: bool
) -> tuple[Tally, bool]:
    """Return the tally of the first conversations of parts, and whether there are no others."""
    tallies: list[Tally] = []
    before = 0
    for part in parts:
        tally = part.tally
        if before + tally.runs > runs:
            is_complete = False
            if before == runs:
                break
            # It ran more than are asked for: only so many count.
            tally = _tally_of(work, part.start, runs - before)
        tallies.append(tally.numbered_after(before))
        before += tally.runs
    whole = merged([*tallies, Tally(is_stopped=is_stopped)])
    return whole, is_complete and not whole.is_stopped


def _tally_of(work: Spread, start: Interval, most: int) -> Tally:
    """Return the tally of so many conversations, however many tasks they take."""
    tally, left = Tally(), [start]
    while tally.runs < most:
        ((_, more, after),) = work.intervals([(0, left.pop(0), most - tally.runs)])
        tally = tally.merged(more.numbered_after(tally.runs))
        left = [*after, *left]
    return tally
