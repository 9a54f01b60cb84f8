"""Every conversation within a bound, run in slices, with the report of one uninterrupted run.

The conversations of an enumeration are in an order. A task is an interval of them: the process that
has it runs some, and answers with their tally and with the intervals that are left, which become
tasks of other processes, or of a later call. Tallies stand where their intervals stood, so that
conversations have the numbers that they have in one process, however they were cut.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Protocol, TypeVar

import msgspec

from simkit.explore.causes import Cause
from simkit.explore.choices import ChoiceLog, Choices, Source
from simkit.explore.chunks import CauseTally, Chunk, Tally, TallyBuilder, Tell, merged
from simkit.explore.conversations import ExploredRun

T = TypeVar("T")
LEFT_MAX: Final = 6
"""The number of intervals into which what is left of one is cut."""


class Interval(msgspec.Struct, frozen=True, array_like=True):
    """Conversations of an enumeration that follow each other."""

    start: tuple[int, ...] = ()
    """The digits of the first one, up to its last that is not 0."""
    shared: int = 0
    """The number of digits that all of them begin with."""


RARE_MAX: Final = 1
"""The number of rare things that happen in one conversation."""


class _EnumeratedChoices(Choices):
    """Choices of which each alternative is taken once, however likely it is.

    The digits of one conversation: given ones first, then 0; with how many there could be.
    """

    def __init__(self, digits: Sequence[int]) -> None:
        super().__init__()
        self._given = iter(digits)
        self.steps: list[tuple[int, int]] = []
        """Each digit that was used, and the number of its alternatives."""

    def below(self, count: int) -> int:
        if count <= 1:
            return 0
        digit = next(self._given, 0)
        self.steps.append((digit, count))
        return digit

    def weighted(self, weights: Mapping[T, int] | Sequence[tuple[T, int]]) -> T:
        pairs = [*weights.items()] if isinstance(weights, Mapping) else [*weights]
        return pairs[self.below(len(pairs))][0]

    def happens(self, share: float) -> bool:
        return share > 0 and self.below(2) == 1


class Enumerated:
    """The choices of one conversation of an enumeration, in the order in which they are asked.

    They are the same ones again only if the pipeline asks in the same order, which it does where
    simkit controls everything that it depends on.
    """

    is_each = True

    def __init__(self, digits: Sequence[int], turns: int) -> None:
        """``digits`` are its first ones; all others are 0."""
        self.turns = turns
        choices = _EnumeratedChoices(digits)
        self.personas: Choices = choices
        self.steps = choices.steps
        """Each digit that was used so far, and the number of its alternatives."""
        self._rare = RARE_MAX
        self._fates: dict[int, str] = {}

    @property
    def digits(self) -> tuple[int, ...]:
        """Return the digits that were used so far: they give the same conversation again."""
        return tuple(digit for digit, _ in self.steps)

    def following(self, shared: int = 0) -> list[int] | None:
        """Return the digits of the next conversation with the same first ones; None if none is."""
        steps = list(self.steps)
        while len(steps) > shared:
            digit, count = steps.pop()
            if digit + 1 < count:
                return [*(digit for digit, _ in steps), digit + 1]
        return None

    def begin_turn(self, index: int) -> None:
        """Do nothing: choices follow each other."""

    def user(self) -> Choices:
        """Return the choices that come next."""
        return self.personas

    order = answer = result = user

    def fate(self, index: int, shares: Mapping[str, float]) -> str:
        """Return which rare thing happens to a turn; empty for none. It is chosen once."""
        if index not in self._fates:
            self._fates[index] = self.oddity(shares)
        return self._fates[index]

    def oddity(self, shares: Mapping[str, float]) -> str:
        """Return which rare thing happens to the next answer; empty for none."""
        if not shares or not self._rare:
            return ""
        kind = self.personas.one_of(["", *shares])
        self._rare -= bool(kind)
        return kind


class Enumeration:
    """All conversations of at most ``turns`` turns, or those of an interval."""

    def __init__(self, turns: int, interval: Interval = Interval()) -> None:  # noqa: B008
        self._turns, self._interval = turns, interval
        self.is_complete = False
        """Whether all were taken."""

    def __iter__(self) -> Iterator[Enumerated]:
        digits: list[int] | None = [*self._interval.start]
        while digits is not None:
            yield (source := Enumerated(digits, self._turns))
            digits = source.following(self._interval.shared)
        self.is_complete = True

    def left_after(self, source: Enumerated) -> tuple[Interval, ...]:
        """Return the conversations after one of them, as intervals that follow each other."""
        steps, digits = source.steps, source.digits
        intervals = [
            Interval((*digits[:depth], digit + 1), depth)
            for depth, (digit, count) in enumerate(steps)
            if depth >= self._interval.shared and digit + 1 < count
        ]
        # The first digits change last, and lead to the most conversations.
        large, small = intervals[: LEFT_MAX - 1], intervals[LEFT_MAX - 1 :]
        if small:
            large.append(Interval(small[-1].start, small[0].shared))
        return tuple(reversed(large))


SLICE_S: Final = 0.4
"""The time after which a task ends, so that what is left can be shared."""
OWN_SLICE_S: Final = 1.0
"""The same where nobody shares it: what a kill loses."""

RunBy = Callable[[Source], ExploredRun]


class Slice(msgspec.Struct, frozen=True):
    """The conversations of an interval that one task has run, and those that it left."""

    start: Interval
    """The interval that begins with the first one."""
    tally: Tally
    left: tuple[Interval, ...]


class Work(Protocol):
    """Where the conversations of a campaign are run: in this process, or in others."""

    @property
    def wave(self) -> int:
        """Return the number of intervals that are handed out together."""

    def draw(self, chunks: Sequence[Chunk], tell: Tell) -> Iterator[tuple[Chunk, Tally]]:
        """Run chunks; yield each one with its tally, in any order.

        A chunk that was stopped is the last one of its process. ``tell`` gets now and then the
        tally of a chunk that is not yet yielded.
        """

    def shrink(self, causes: Sequence[CauseTally]) -> Iterator[tuple[Cause, ChoiceLog]]:
        """Make the smallest conversation of each cause smaller; yield them in any order."""

    def intervals(
        self, intervals: Sequence[tuple[int, Interval, int]], tell: Tell
    ) -> Iterator[tuple[int, Tally, tuple[Interval, ...]]]:
        """Run intervals of an enumeration, each with a number and its most conversations.

        Yield for each, in any order, its number, the tally, and what is left of it. ``tell`` gets
        now and then the tally of one that is not yet yielded. Raise KeyboardInterrupt if there is
        no time left.
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
    remaining = (interval,) if last is None else enumeration.left_after(last)
    return builder.tally(is_stopped=is_stopped), remaining


def sliced(seconds: float = SLICE_S) -> Callable[[], bool]:
    """Return a function that says whether a task, which begins now, has run long enough."""
    end = time.monotonic() + seconds
    return lambda: time.monotonic() > end


def spread(
    work: Work,
    *,
    runs: int,
    tell: Tell,
    done: Sequence[Slice] = (),
    keep: Callable[[Slice], None] = lambda part: None,
) -> tuple[Tally, bool]:
    """Run the first ``runs`` conversations of an enumeration.

    Return their tally, and whether there are no others. ``done`` are the slices that an earlier
    call gave to ``keep``, in that order.
    """
    places: list[Interval | Slice] = [Interval()]
    for part in done:
        index = places.index(part.start)
        places[index : index + 1] = [part, *part.left]
    total, is_stopped = merged(part.tally for part in done), False
    try:
        while not is_stopped and (wave := _wave(places, runs, work.wave)):
            answers: dict[int, list[Interval | Slice]] = {}
            try:
                for index, tally, left in work.intervals(
                    wave,
                    lambda part: tell(total.merged(part)),  # noqa: B023
                ):
                    is_stopped |= tally.is_stopped
                    # Its conversations are whole; those that were not run are left.
                    start = places[index]
                    assert isinstance(start, Interval)
                    part = Slice(start, msgspec.structs.replace(tally, is_stopped=False), left)
                    answers[index] = [part, *left]
                    if part.tally.runs:
                        keep(part)
                    total = total.merged(part.tally)
                    tell(total)
            finally:
                places = [
                    each
                    for index, unchanged in enumerate(places)
                    for each in answers.get(index, [unchanged])
                ]
    except KeyboardInterrupt:
        is_stopped = True
    is_complete = not any(isinstance(each, Interval) for each in places)
    parts = [each for each in places if isinstance(each, Slice)]
    return _first(work, parts, runs, is_stopped, is_complete)


def _wave(
    places: Sequence[Interval | Slice], runs: int, most: int
) -> list[tuple[int, Interval, int]]:
    """Return the next intervals by their places, each with the most conversations that count.

    They are only such as may be among the first ``runs``.
    """
    wave: list[tuple[int, Interval, int]] = []
    before = 0
    for index, each in enumerate(places):
        if before >= runs or len(wave) == most:
            break
        if isinstance(each, Interval):
            wave.append((index, each, runs - before))
        else:
            before += each.tally.runs
    return wave


def _first(
    work: Work, parts: Sequence[Slice], runs: int, is_stopped: bool, is_complete: bool
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


def _tally_of(work: Work, start: Interval, most: int) -> Tally:
    """Return the tally of so many conversations, however many tasks they take."""
    tally, waiting = Tally(), [start]
    while tally.runs < most:
        task = 0, waiting.pop(0), most - tally.runs
        ((_, more, after),) = work.intervals([task], lambda tally: None)
        tally = tally.merged(more.numbered_after(tally.runs))
        waiting = [*after, *waiting]
    return tally
