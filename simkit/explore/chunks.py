"""Chunks of a campaign, and their tallies: counts that can be merged in any order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from typing import Any, Final, TypeAlias

import msgspec

from simkit.checks.findings import Finding
from simkit.explore.causes import Cause
from simkit.explore.choices import ChoiceLog
from simkit.explore.claims import Reach
from simkit.explore.conversations import ExploredRun
from simkit.viewer import CoverageCollector, RunsCoverage

RUNS_LEAST: Final = 50
"""The number of conversations of the smallest chunk, if there are as many: each chunk draws the
simplest conversation once more."""
RUNS_MOST: Final = 1000
"""About the number of conversations of the largest chunk: what a killed campaign loses."""
CHUNKS: Final = 100
"""The number of chunks of a campaign, unless they would be smaller or larger than that."""
_PRIME: Final = 1_000_003

Size: TypeAlias = tuple[int, int, int]
"""The turns and reply lines of a conversation, and how far it is from the simplest one."""


class Chunk(msgspec.Struct, frozen=True):
    """Conversations of a campaign that are drawn together."""

    number: int
    """Its place in the campaign, from 0."""
    seed: int
    first: int
    """The number of its first conversation in the campaign, from 1."""
    runs: int


def chunks_of(runs: int, seed: int, before: int = 0) -> Sequence[Chunk]:
    """Return the chunks of a campaign; they depend on nothing else.

    ``before`` is the number of conversations that the campaign begins with.
    """
    size = min(max(runs // CHUNKS, RUNS_LEAST), RUNS_MOST)
    count = max(runs // size, 1)
    bounds = [runs * number // count for number in range(count + 1)]
    return [
        Chunk(number, seed + number * _PRIME, before + bounds[number] + 1, end - bounds[number])
        for number, end in enumerate(bounds[1:])
    ]


class Example(msgspec.Struct, frozen=True):
    """A conversation that shows a cause."""

    size: Size
    run: int
    """Its number in the campaign: of two that are as small, the first one counts."""
    tape: ChoiceLog
    finding: Finding
    digits: tuple[int, ...] = ()
    """The digits of one of an enumeration, whose tape is empty."""


class CauseTally(msgspec.Struct, frozen=True):
    """How often a cause was seen, and its smallest conversation."""

    cause: Cause
    runs: int
    first: int
    """The number of the first conversation that showed it."""
    smallest: Example

    def merged(self, other: CauseTally) -> CauseTally:
        """Return the tally of one cause for both."""
        smallest = min(self.smallest, other.smallest, key=lambda each: (each.size, each.run))
        return CauseTally(
            self.cause, self.runs + other.runs, min(self.first, other.first), smallest
        )


class Tally(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of conversations. Merging two of them is commutative and associative."""

    runs: int = 0
    turns: int = 0
    model_calls: int = 0
    causes: tuple[CauseTally, ...] = ()
    """One for each cause, by the number of its first conversation."""
    reach: Reach = Reach()
    is_stopped: bool = False
    """Whether some conversations of a chunk were not run."""
    coverage: RunsCoverage | None = None
    """The coverage of the conversations; None if it is not measured."""

    def numbered_after(self, count: int) -> Tally:
        """Return it for conversations that come after so many others."""
        replace = msgspec.structs.replace
        causes = (
            replace(
                each,
                first=each.first + count,
                smallest=replace(each.smallest, run=each.smallest.run + count),
            )
            for each in self.causes
        )
        return replace(self, causes=tuple(causes))

    def merged(self, other: Tally) -> Tally:
        """Return the tally of both, which have no conversation in common."""
        causes = {tally.cause: tally for tally in self.causes}
        for tally in other.causes:
            earlier = causes.get(tally.cause)
            causes[tally.cause] = tally if earlier is None else earlier.merged(tally)
        mine, its = self.coverage, other.coverage
        return Tally(
            self.runs + other.runs,
            self.turns + other.turns,
            self.model_calls + other.model_calls,
            tuple(sorted(causes.values(), key=lambda tally: (tally.first, tally.cause))),
            self.reach.joined(other.reach),
            self.is_stopped or other.is_stopped,
            mine.merged(its) if mine and its else mine or its,
        )


Tell: TypeAlias = Callable[[Tally], None]
"""Gets the tally of conversations so far."""


class TallyBuilder:
    """The tally of conversations that are added one by one."""

    def __init__(self, first: int = 1) -> None:
        """``first`` is the number of the first conversation."""
        self._number = first
        self._runs = self._turns = self._calls = 0
        self._causes: dict[Cause, CauseTally] = {}
        self._reach = Reach()
        self._records: dict[Cause, ExploredRun] = {}
        self._collector: CoverageCollector | None = None

    def add(self, record: ExploredRun, digits: tuple[int, ...] = ()) -> None:
        """Count a conversation; keep it if it is the smallest one of a cause.

        ``digits`` are those of one of an enumeration.
        """
        self._runs += 1
        self._turns += len(record.turns)
        self._calls += record.model_calls
        if record.observed is not None:
            self._collector = self._collector or CoverageCollector()
            self._collector.add(*record.observed)
            record = msgspec.structs.replace(record, observed=None)
        if not record.reach.is_within(self._reach):
            self._reach = self._reach.joined(record.reach)
        if record.causes:
            size = size_of(record)
            for cause, finding in record.causes.items():
                example = Example(size, self._number, record.tape, finding, digits)
                self._see(cause, example, record)
        self._number += 1

    def _see(self, cause: Cause, example: Example, record: ExploredRun) -> None:
        earlier = self._causes.get(cause)
        new = CauseTally(cause, 1, example.run, example)
        self._causes[cause] = merged = new if earlier is None else earlier.merged(new)
        if merged.smallest is example:
            self._records[cause] = record

    def record_of(self, cause: Cause) -> ExploredRun:
        """Return the smallest conversation of a cause."""
        return self._records[cause]

    def tally(self, *, is_stopped: bool = False) -> Tally:
        """Return the tally of those that were added."""
        collected = None if self._collector is None else self._collector.coverage()
        counts = Tally(self._runs, self._turns, self._calls, (), self._reach, is_stopped, collected)
        return counts.merged(Tally(causes=tuple(self._causes.values())))


def merged(tallies: Iterable[Tally]) -> Tally:
    """Return the tally of all conversations."""
    return reduce(Tally.merged, tallies, Tally())


def size_of(record: ExploredRun) -> Size:
    """Return the size of a conversation."""
    return len(record.turns), reply_lines(record.turns), record.tape.weight


def reply_lines(turns: Sequence[Mapping[str, Any]]) -> int:
    """Return the number of reply lines of a script's turns."""
    replies = [given for turn in turns for given in turn.get("replies", {}).values()]
    return sum(len(given) if isinstance(given, list) else 1 for given in replies)
