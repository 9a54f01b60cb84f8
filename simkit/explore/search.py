"""The search for conversations that break a rule, and the smallest one of each cause.

A campaign draws its chunks in any order and in any number of processes, then makes the smallest
conversation of each cause smaller. The result depends on the seed alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from simkit.explore import enumeration
from simkit.explore.causes import REFERENCE_LOST, Cause, part_that_needs_it
from simkit.explore.choices import ChoiceLog, Source
from simkit.explore.chunks import CauseTally, Chunk, Tally, TallyBuilder, Tell, merged
from simkit.explore.claims import PAST, Reach
from simkit.explore.conversations import ExploredRun
from simkit.explore.drawing import Run, draw
from simkit.explore.shrinking import Shrinker
from simkit.viewer import RunsCoverage

TELL_EVERY_S: Final = 0.2
GRACE_LEAST_S: Final = 2.0
"""How long findings are made small, at least, when a search was stopped."""
GRACE_SHARE: Final = 0.25
"""The same, as a share of the time for which it searched."""


class Discovery(msgspec.Struct, frozen=True):
    """One cause, with the smallest conversation that shows it."""

    cause: Cause
    record: ExploredRun
    """The smallest conversation."""
    runs: int
    """The number of conversations that showed it, without those made to find the smallest one."""
    first: int
    """The number of the first one, from 1."""
    is_repeatable: bool = True
    """Whether the same choices show it each time."""
    is_alone: bool = True
    """Whether a process that has run no other conversation shows it."""


class Campaign(msgspec.Struct, frozen=True):
    """The result of a search."""

    discoveries: tuple[Discovery, ...]
    """The causes, in the order in which they were met."""
    runs: int
    """The number of conversations, without those made to find the smallest ones."""
    turns: int
    model_calls: int
    reach: Reach = Reach()
    """The parts of the pipeline that the conversations came to."""
    is_stopped: bool = False
    """Whether it was stopped before its end."""
    is_complete: bool = False
    """Whether every conversation within the bound was run."""
    coverage: RunsCoverage | None = None
    """The coverage of the conversations; None if it is not measured."""
    is_doomed: bool = False
    """Whether it ended at once, since every first turn fails before a model is called."""
    refused: tuple[Discovery, ...] = ()
    """The parts that need the network, and so were not explored: each tool, and other places."""
    warned: tuple[Discovery, ...] = ()
    """The causes that fail nothing, and say something about the application."""
    noted: tuple[Discovery, ...] = ()
    """The causes that a design explains: a user refers to the past, of which no agent is ever sent
    anything."""
    growing: tuple[str, ...] = ()
    """The names in modules of the code whose values outlive a conversation, if a finding needs
    that."""


def _sometimes(tell: Tell) -> Callable[[TallyBuilder], None]:
    """Return what may be called after each run, and tells the tally only now and then."""
    due = 0.0

    def tell_sometimes(builder: TallyBuilder) -> None:
        nonlocal due
        if time.monotonic() >= due:
            due = time.monotonic() + TELL_EVERY_S
            tell(builder.tally())

    return tell_sometimes


class InProcess(msgspec.Struct, eq=False):
    """Conversations are run here."""

    run: Run
    """Runs drawn conversations."""
    run_by: enumeration.RunBy
    """Runs those of an enumeration."""
    turns_max: int
    rare: int = 0
    """The number of things that may happen rarely."""
    is_late: Callable[[], bool] = lambda: False

    def draw(self, chunks: Sequence[Chunk], tell: Tell) -> Iterator[tuple[Chunk, Tally]]:
        """Run chunks one after the other, until it is late."""
        tell_sometimes = _sometimes(tell)
        for chunk in chunks:
            tally = draw(
                self.run,
                chunk,
                turns_max=self.turns_max,
                rare=self.rare,
                tell=tell_sometimes,
                is_late=self.is_late,
            )
            yield chunk, tally
            if tally.is_stopped:
                return

    def shrink(self, causes: Sequence[CauseTally]) -> Iterator[tuple[Cause, ChoiceLog]]:
        """Make the smallest conversations smaller, one after the other, until it is late."""
        return _shrunk(self.run, causes, self.is_late)

    wave = 1

    def intervals(
        self, intervals: Sequence[tuple[int, enumeration.Interval, int]], tell: Tell
    ) -> Iterator[tuple[int, Tally, tuple[enumeration.Interval, ...]]]:
        """Run intervals one after the other; raise KeyboardInterrupt when it is late."""

        def run(source: Source) -> ExploredRun:
            if self.is_late():
                raise KeyboardInterrupt
            return self.run_by(source)

        for number, interval, most in intervals:
            tally, left = enumeration.run_interval(
                run,
                interval,
                turns_max=self.turns_max,
                most=most,
                is_late=enumeration.sliced(enumeration.OWN_SLICE_S),
                tell=_sometimes(tell),
            )
            yield number, tally, left


def _shrunk(
    run: Run, causes: Sequence[CauseTally], is_late: Callable[[], bool]
) -> Iterator[tuple[Cause, ChoiceLog]]:
    for tally in causes:
        yield tally.cause, Shrinker(run, tally.cause, is_late).shrink(tally.smallest.tape)


def conduct(
    work: enumeration.Work,
    run: Run,
    chunks: Sequence[Chunk],
    *,
    known: Sequence[ChoiceLog] = (),
    done: Mapping[int, Tally] = {},
    keep: Callable[[Chunk, Tally], None] = lambda chunk, tally: None,
    tell: Tell = lambda tally: None,
) -> Campaign:
    """Run a campaign: known conversations, and chunks of which ``done`` has some by number.

    ``keep`` gets every chunk that was run to its end, with its tally.
    """
    started = time.monotonic()
    tally = merged(done.values())
    try:
        builder = TallyBuilder()
        for tape in known:
            builder.add(run(tape))
        tally = tally.merged(builder.tally())
        left = [chunk for chunk in chunks if chunk.number not in done]
        for chunk, part in work.draw(left, lambda part: tell(tally.merged(part))):  # noqa: B023
            tally = tally.merged(part)
            if not part.is_stopped:
                keep(chunk, part)
            tell(tally)
    except KeyboardInterrupt:
        tally = tally.merged(Tally(is_stopped=True))
    # A note tells no conversation, so none is made small for it.
    causes = [each for each in tally.causes if not _is_noted(each.cause, tally.reach)]
    if tally.is_stopped:
        # Other processes may be in the middle of a chunk; the user does not wait long.
        grace = max(GRACE_LEAST_S, GRACE_SHARE * (time.monotonic() - started))
        end = time.monotonic() + grace
        smaller = _shrunk(run, causes, lambda: time.monotonic() > end)
    else:
        smaller = work.shrink(causes)
    tapes = {each.cause: each.smallest.tape for each in tally.causes}
    try:
        for cause, tape in smaller:
            tapes[cause] = tape
    except KeyboardInterrupt:
        tally = tally.merged(Tally(is_stopped=True))
    discoveries = tuple(_discovery(run(tapes[each.cause]), each) for each in tally.causes)
    return campaign_of(tally, discoveries)


def _is_noted(cause: Cause, reach: Reach) -> bool:
    """Return whether a design explains a cause: no agent is ever sent anything of the past."""
    return cause.id == REFERENCE_LOST and PAST not in reach.reached


def campaign_of(tally: Tally, discoveries: Sequence[Discovery]) -> Campaign:
    """Return the result of a search."""
    refused: dict[str, Discovery] = {}
    failing: list[Discovery] = []
    warned: list[Discovery] = []
    noted: list[Discovery] = []
    for each in discoveries:
        if each.cause.needs_network:
            part = part_that_needs_it(each.cause.detail, each.record.turns)
            refused.setdefault(part, each)
        elif _is_noted(each.cause, tally.reach):
            noted.append(each)
        elif each.record.causes[each.cause].severity == "W":
            warned.append(each)
        else:
            failing.append(each)
    return Campaign(
        tuple(failing),
        tally.runs,
        tally.turns,
        tally.model_calls,
        tally.reach,
        tally.is_stopped,
        coverage=tally.coverage,
        refused=tuple(refused.values()),
        warned=tuple(warned),
        noted=tuple(noted[:1]),
    )


def with_first(campaign: Campaign, first: ExploredRun, run: Run) -> Campaign:
    """Return a campaign with the causes that the first conversation of the process alone showed.

    The same choices do not show them any more: something outlives a conversation.
    """
    every = (*campaign.discoveries, *campaign.refused, *campaign.warned, *campaign.noted)
    known = {each.cause for each in every}
    causes = [
        cause
        for cause, finding in first.causes.items()
        if cause not in known and finding.severity == "E"
    ]
    if not causes:
        return campaign
    again = run(first.tape).causes
    lost = [
        Discovery(cause, first, 1, 1, is_repeatable=False) for cause in causes if cause not in again
    ]
    return msgspec.structs.replace(campaign, discoveries=(*lost, *campaign.discoveries))


def _discovery(record: ExploredRun, tally: CauseTally) -> Discovery:
    """Return a cause with its smallest conversation, which was run once more.

    One that shows it only now and then is reported as it was when it did.
    """
    cause = tally.cause
    is_repeatable = cause in record.causes
    if not is_repeatable:
        record = msgspec.structs.replace(record, causes={cause: tally.smallest.finding})
    return Discovery(cause, record, tally.runs, tally.first, is_repeatable)


def search_all(
    work: enumeration.Work,
    run: enumeration.RunBy,
    *,
    runs: int,
    turns_max: int,
    tell: Tell = lambda tally: None,
    done: Sequence[enumeration.Slice] = (),
    keep: Callable[[enumeration.Slice], None] = lambda part: None,
) -> Campaign:
    """Run every conversation of at most so many turns, or the first ``runs`` of them.

    ``done`` are the slices that an earlier call gave to ``keep``. The smallest conversations are
    run once more.
    """
    tally, is_complete = enumeration.spread(work, runs=runs, tell=tell, done=done, keep=keep)
    discoveries = [
        _discovery(run(enumeration.Enumerated(each.smallest.digits, turns_max)), each)
        for each in tally.causes
    ]
    campaign = campaign_of(tally, discoveries)
    return msgspec.structs.replace(campaign, is_complete=is_complete)
