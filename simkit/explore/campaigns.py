"""Campaigns: a subject is explored within bounds. The command, pytest and Python stand on this."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from simkit.adapters.attribution import OF_NOBODY
from simkit.core.errors import FunctionMissing, SimkitError, SourceError
from simkit.core.files import FileReads
from simkit.core.text import counted, shell_word
from simkit.explore.alone import checked_alone
from simkit.explore.choices import SIMPLEST, ChoiceLog
from simkit.explore.chunks import chunks_of
from simkit.explore.conversations import Subject, converse, converse_by
from simkit.explore.journal import Journal, Memory, fingerprints, key_of
from simkit.explore.processes import Processes, Workers
from simkit.explore.profiles import with_profile
from simkit.explore.restarts import restart_trials
from simkit.explore.search import (
    Campaign,
    InProcess,
    Tell,
    Work,
    conduct,
    every_found,
    search_all,
    with_first,
)
from simkit.explore.spreading import Slice, spread
from simkit.explore.trials import first_turns_that_fail
from simkit.explore.worker import LOCAL as LOCAL
from simkit.explore.worker import Setup, versions
from simkit.report.last_run import failure_text
from simkit.spec.fields import METHOD_NAME
from simkit.spec.scenario.orders import EXHAUSTIVE

RUNS: Final = 300
"""The number of conversations, if nothing else is said."""
RUNS_LIMIT: Final = 1_000_000_000
"""The most conversations: all chunks of a campaign are listed."""
MEMORY: Final = Path(".simkit", "explore")
"""Where campaigns are kept; each subject has a folder of its own."""


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """How far a subject is explored."""

    runs: int = RUNS
    turns: int | None = None
    """The most turns of a conversation; None means what the simulation says."""
    seed: int | None = None
    """Other seeds draw other conversations; None means what the simulation says."""
    profile: str | None = None
    """A class of failures that happen, too."""
    seconds: float | None = None
    """The time after which it ends with what was found; None for no limit."""
    exhaustive: bool = False
    """Whether every conversation within the bound is run."""
    processes: int = 1
    """The number of processes that run conversations; of a local cluster, that of its workers."""
    cluster: str | None = None
    """The address of a dask scheduler, or ``local`` for a cluster of this machine."""
    measures: bool = False
    """Whether the coverage of the conversations is measured."""


class Places(msgspec.Struct, frozen=True, kw_only=True):
    """Where a campaign keeps what it needs to go on."""

    memory: Path
    """The folder below which each subject has one."""
    reads: FileReads
    """The files that were read since before the subject was."""


def run_campaign(
    name: str,
    subject: Subject,
    bounds: Bounds,
    *,
    places: Places | None = None,
    tell: Tell = lambda tally: None,
    say: Callable[[str], None] = lambda line: None,
) -> Campaign:
    """Explore a subject within bounds; raise SimkitError if it cannot be run.

    ``name`` is that by which the user called it. Without ``places`` everything runs in this
    process, and nothing is kept. ``tell`` gets now and then what came so far, and ``say`` a line
    that the user should read.
    """
    if subject.prepared.unmet:
        raise subject.prepared.refusal()
    for note in subject.notes:
        say(note)
    if bounds.profile is not None:
        subject = with_profile(subject, bounds.profile)
    try:
        exploration = _Exploration(name, subject, bounds, tell, say)
        return checked_alone(subject, exploration.run(places), partial(converse, subject))
    except SourceError as problem:
        raise SimkitError(_advised(problem, name)) from problem


class _Exploration:
    """A campaign on one subject."""

    def __init__(
        self,
        name: str,
        subject: Subject,
        bounds: Bounds,
        tell: Tell,
        say: Callable[[str], None],
    ) -> None:
        self._name, self._subject, self._bounds = name, subject, bounds
        self._tell, self._say = tell, say
        seconds = bounds.seconds
        self._deadline = None if seconds is None else time.monotonic() + seconds
        self._run = partial(converse, subject, observes=bounds.measures)
        self._turns, self._seed = turns_most(subject, bounds), seed_of(subject, bounds)

    def _is_late(self) -> bool:
        return self._deadline is not None and time.monotonic() > self._deadline

    def run(self, places: Places | None) -> Campaign:
        """Run as many conversations as the bounds say, or only some if none comes to a model.

        Raise SourceError at once for what cannot be run. All files that it reads are known only
        after the first conversation.
        """
        first = self._run(SIMPLEST)
        if doomed := first_turns_that_fail(first, self._run):
            return self._stop_at_once(doomed)
        for tape in restart_trials(self._subject.prepared, self._subject.simulation, self._turns):
            self._run(tape)
        if is_exhaustive(self._subject, self._bounds):
            campaign = self.enumerate(places)
        else:
            campaign = self.draw(places)
        return with_first(campaign, first, self._run)

    def _stop_at_once(self, doomed: Sequence[ChoiceLog]) -> Campaign:
        """Return the result of these conversations alone: all others would end like them."""
        campaign = conduct(self._in_process(), self._run, (), known=doomed, tell=self._tell)
        return msgspec.structs.replace(campaign, is_doomed=True)

    def enumerate(self, places: Places | None) -> Campaign:
        """Run every conversation, and keep what the campaign needs to go on."""
        if places is None:
            return self._search_all((), lambda part: None)
        setup = self._setup(places.reads)
        with self._journal(Memory(places.memory, self._name), setup) as journal:
            done = () if journal is None else journal.slices
            keep = (lambda part: None) if journal is None else journal.keep_slice
            if journal is not None and done:
                count = sum(part.tally.runs for part in done)
                self._say_goes_on(counted(count, "conversation"), journal)
            if self._is_alone:
                campaign = self._search_all(done, keep)
            else:
                campaign = self._spread(setup, done, keep)
            self._finish(journal, campaign)
        return campaign

    def _search_all(self, done: Sequence[Slice], keep: Callable[[Slice], None]) -> Campaign:
        """Run every conversation in this process."""
        return search_all(
            partial(converse_by, self._subject, observes=self._bounds.measures),
            runs=self._bounds.runs,
            turns_max=self._turns,
            tell=self._tell,
            is_late=self._is_late,
            done=done,
            keep=keep,
        )

    def _spread(
        self, setup: Setup, done: Sequence[Slice], keep: Callable[[Slice], None]
    ) -> Campaign:
        """Run every conversation in other processes."""
        with self._workers(setup) as work:
            tally, is_complete = spread(
                work,
                runs=self._bounds.runs,
                is_late=self._is_late,
                tell=self._tell,
                done=done,
                keep=keep,
            )
        run = partial(converse_by, self._subject)
        return every_found(run, tally, self._turns, is_complete=is_complete)

    def draw(self, places: Places | None) -> Campaign:
        """Draw conversations, and keep what the campaign needs to go on."""
        if places is None:
            return self._conduct(self._in_process(), None)
        setup = self._setup(places.reads)
        memory = Memory(places.memory, self._name)
        with self._journal(memory, setup) as journal, self._work(setup) as work:
            campaign = self._conduct(work, journal)
            self._finish(journal, campaign)
        with suppress(OSError):
            memory.keep(each.record.tape for each in campaign.discoveries)
        return campaign

    def _finish(self, journal: Journal | None, campaign: Campaign) -> None:
        """Say that the campaign can go on, or let its journal end."""
        if journal is None:
            return
        journal.is_over = not campaign.is_stopped
        if campaign.is_stopped and journal.count:
            self._say("the same command goes on from here")

    def _say_goes_on(self, after: str, journal: Journal) -> None:
        self._say(
            f"goes on after {after}, which an earlier call ran; to begin anew, delete "
            f"{journal.folder}"
        )

    def _conduct(self, work: Work, journal: Journal | None) -> Campaign:
        known = () if journal is None else journal.known
        chunks = chunks_of(self._bounds.runs, self._seed, len(known))
        if journal is not None and journal.done:
            after = f"{len(journal.done)} of {counted(len(chunks), 'part')}"
            self._say_goes_on(after, journal)
        return conduct(
            work,
            self._run,
            chunks,
            known=known,
            done={} if journal is None else journal.done,
            keep=(lambda chunk, tally: None) if journal is None else journal.keep,
            tell=self._tell,
        )

    def _in_process(self) -> InProcess:
        rare = len(self._subject.rare)
        return InProcess(self._run, turns_max=self._turns, rare=rare, is_late=self._is_late)

    @property
    def _is_alone(self) -> bool:
        """Return whether this process runs all conversations."""
        return self._bounds.cluster is None and self._bounds.processes == 1

    @contextmanager
    def _work(self, setup: Setup) -> Iterator[Work]:
        """Return where conversations are run."""
        if self._is_alone:
            yield self._in_process()
        else:
            with self._workers(setup) as work:
                yield work

    @contextmanager
    def _workers(self, setup: Setup) -> Iterator[Workers]:
        """Return the processes that run conversations."""
        bounds = self._bounds
        if bounds.cluster is not None:
            from simkit.explore.cluster import Cluster

            with Cluster(
                bounds.cluster, setup, bounds.processes, self._deadline, self._say
            ) as work:
                yield work
        else:
            with Processes(setup, bounds.processes, self._deadline) as work:
                yield work

    def _setup(self, reads: FileReads) -> Setup:
        return Setup(
            name=self._name,
            agents=dict(self._subject.found_agents),
            profile=self._bounds.profile,
            turns=self._turns,
            measures=self._bounds.measures,
            folder=os.getcwd(),
            files=fingerprints(reads.files()),
            versions=versions(),
        )

    @contextmanager
    def _journal(self, memory: Memory, setup: Setup) -> Iterator[Journal | None]:
        """Return the journal of the campaign; None if it cannot be kept, which is said."""
        facts: dict[str, object] = {"setup": setup, "runs": self._bounds.runs, "seed": self._seed}
        if is_exhaustive(self._subject, self._bounds):
            facts |= {"seed": None, "exhaustive": True}
        redactor = self._subject.prepared.redactor(os.environ)
        journal: Journal | None = None
        try:
            journal = Journal(memory.folder, key_of(facts), memory.known(), redactor)
        except BlockingIOError:
            self._say("another call of this command is at work; if killed, this one begins anew")
        except OSError as problem:
            self._say(f"{failure_text(problem)}: if killed, the campaign begins anew")
        if journal is None:
            yield None
            return
        with closing(journal):
            yield journal


def turns_most(subject: Subject, bounds: Bounds) -> int:
    """Return the most turns of a conversation."""
    return bounds.turns or subject.simulation.turns


def is_exhaustive(subject: Subject, bounds: Bounds) -> bool:
    """Return whether every conversation is run: the bounds or the simulation say so."""
    return bounds.exhaustive or subject.simulation.schedule == EXHAUSTIVE


def seed_of(subject: Subject, bounds: Bounds) -> int:
    """Return the seed of a campaign."""
    return subject.simulation.seed if bounds.seed is None else bounds.seed


def command_of(name: str, subject: Subject, bounds: Bounds) -> str:
    """Return the command that finds the same again, as a user types it."""
    words = ["simkit", "explore", shell_word(name)]
    if bounds.runs != RUNS:
        words += ["--runs", str(bounds.runs)]
    if bounds.profile is not None:
        words += ["--profile", bounds.profile]
    if bounds.turns is not None:
        words += ["--turns", str(bounds.turns)]
    seed = f"--seed {seed_of(subject, bounds)}"
    return " ".join([*words, "--exhaustive" if is_exhaustive(subject, bounds) else seed])


def _advised(problem: SourceError, subject: str) -> str:
    if not METHOD_NAME.fullmatch(subject):
        return str(problem)
    text = problem.what
    if OF_NOBODY in text:
        return (
            f"{text}\n  No rule could be made of what conversations showed: an agent's "
            "instructions begin differently in each,\n  or differ from another one's in nothing. "
            "Write a rule into a scenario, and explore that. This makes one:\n"
            f"  simkit init --app {subject}"
        )
    # The place is in a scenario that is no file.
    if isinstance(problem.__cause__, FunctionMissing) and "there is no module" in text:
        return (
            f"{text.splitlines()[0]}\n  Start the command in the folder from which the module is "
            "imported, or explore a scenario whose `app: {path: [DIR]}` names that folder."
        )
    return text
