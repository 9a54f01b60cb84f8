"""Every conversation within a bound, run in slices, with the report of one uninterrupted run.

The conversations of an enumeration are in an order. A task is an interval of them: the process that
has it runs some, and answers with their tally and with the intervals that are left, which become
tasks of other processes, or of a later call. Tallies stand where their intervals stood, so that
conversations have the numbers that they have in one process, however they were cut.
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
OWN_SLICE_S: Final = 1.0
"""The same where nobody shares it: what a kill loses."""

RunBy = Callable[[Source], ExploredRun]


class Part(msgspec.Struct, frozen=True):
    """Conversations that were run one after the other, numbered from 1."""

    start: Interval
    """The interval that begins with the first one."""
    tally: Tally


class Slice(msgspec.Struct, frozen=True):
    """The conversations of an interval that one task has run, and those that it left."""

    start: Interval
    tally: Tally
    left: tuple[Interval, ...]


class Spread(Protocol):
    """Processes that run intervals of an enumeration."""

    @property
    def wave(self) -> int:
        """Return the number of intervals that are handed out together."""

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

    It ends when ``is_late`` returns true after a conversation, and on Ctrl-C, which stops it: the
    conversation that was being run is left.
    """
    builder, enumeration = TallyBuilder(), Enumeration(turns_max, interval)
    count, is_stopped = 0, False
    last: Enumerated | None = None
    try:
        for source in enumeration:
            builder.add(run(source), source.digits)
            last = source
            tell(builder)
            count += 1
            if count == most or is_late():
                break
    except KeyboardInterrupt:
        is_stopped = True
    left = (interval,) if last is None else enumeration.left_after(last)
    return builder.tally(is_stopped=is_stopped), left


class InProcessIntervals:
    """Intervals are run here, one after the other."""

    wave = 1

    def __init__(self, run: RunBy, *, turns_max: int, tell: Callable[[TallyBuilder], None]) -> None:
        """``tell`` gets the tally of a slice after each conversation."""
        self._run, self._turns_max, self._tell = run, turns_max, tell

    def intervals(
        self, intervals: Sequence[tuple[int, Interval, int]]
    ) -> Iterator[tuple[int, Tally, tuple[Interval, ...]]]:
        """Run intervals, each with its number and its most conversations."""
        for number, interval, most in intervals:
            yield (
                number,
                *run_interval(
                    self._run,
                    interval,
                    turns_max=self._turns_max,
                    most=most,
                    is_late=sliced(OWN_SLICE_S),
                    tell=self._tell,
                ),
            )


def sliced(seconds: float = SLICE_S) -> Callable[[], bool]:
    """Return a function that says whether a task, which begins now, has run long enough."""
    end = time.monotonic() + seconds
    return lambda: time.monotonic() > end


def spread(
    work: Spread,
    *,
    runs: int,
    is_late: Callable[[], bool],
    tell: Callable[[Tally], None],
    done: Sequence[Slice] = (),
    keep: Callable[[Slice], None] = lambda part: None,
) -> tuple[Tally, bool]:
    """Run the first ``runs`` conversations of an enumeration.

    Return their tally, and whether there are no others. ``done`` are the slices that an earlier
    call gave to ``keep``, in that order.
    """
    places: list[Interval | Part] = [Interval()]
    for part in done:
        place = places.index(part.start)
        places[place : place + 1] = [Part(part.start, part.tally), *part.left]
    total, is_stopped = merged(part.tally for part in done), False
    try:
        while not is_stopped and (wave := _wave(places, runs, work.wave)):
            if is_late():
                is_stopped = True
                break
            answers: dict[int, list[Interval | Part]] = {}
            try:
                for place, tally, left in work.intervals(wave):
                    is_stopped |= tally.is_stopped
                    # Its conversations are whole; those that were not run are left.
                    part = Slice(
                        _interval_at(places, place),
                        msgspec.structs.replace(tally, is_stopped=False),
                        left,
                    )
                    answers[place] = [Part(part.start, part.tally), *left]
                    if part.tally.runs:
                        keep(part)
                    total = total.merged(part.tally)
                    tell(total)
            finally:
                places = [
                    each
                    for place, known in enumerate(places)
                    for each in answers.get(place, [known])
                ]
    except KeyboardInterrupt:
        is_stopped = True
    is_complete = not any(isinstance(each, Interval) for each in places)
    parts = [each for each in places if isinstance(each, Part)]
    return _first(work, parts, runs, is_stopped, is_complete)


def _interval_at(places: Sequence[Interval | Part], place: int) -> Interval:
    interval = places[place]
    assert isinstance(interval, Interval)
    return interval


def _wave(
    places: Sequence[Interval | Part], runs: int, most: int
) -> list[tuple[int, Interval, int]]:
    """Return the next intervals by their places, each with the most conversations that count.

    They are only such as may be among the first ``runs``.
    """
    wave: list[tuple[int, Interval, int]] = []
    before = 0
    for place, each in enumerate(places):
        if before >= runs or len(wave) == most:
            break
        if isinstance(each, Interval):
            wave.append((place, each, runs - before))
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
            try:
                tally = _tally_of(work, part.start, runs - before)
            except KeyboardInterrupt:
                is_stopped = True
                break
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
