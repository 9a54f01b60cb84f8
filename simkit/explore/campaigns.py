"""Campaigns: a subject is explored within bounds. The command, pytest and Python stand on this."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from itertools import product, zip_longest
from pathlib import Path
from typing import Final

import msgspec

from simkit.adapters.attribution import OF_NOBODY
from simkit.adapters.modules import OwnModules
from simkit.adapters.recorder.left_values import NamedModules, sizes_in
from simkit.checks.findings import Finding
from simkit.core.errors import FunctionMissing, SimkitError, SourceError
from simkit.core.files import FileReads
from simkit.core.text import counted, shell_word, short
from simkit.explore.causes import cause_of, label_of
from simkit.explore.choices import SIMPLEST, ChoiceLog, TurnLog
from simkit.explore.chunks import Tell, chunks_of
from simkit.explore.conversations import ExploredRun, converse, converse_by, restart_trials
from simkit.explore.enumeration import Work
from simkit.explore.journal import Journal, Memory, Parts, fingerprints, key_of
from simkit.explore.processes import LOCAL as LOCAL
from simkit.explore.processes import Processes, Setup, versions
from simkit.explore.scenarios import as_scenario, shows_apart
from simkit.explore.search import Campaign, Discovery, InProcess, conduct, search_all, with_first
from simkit.explore.subjects import Subject, with_profile
from simkit.language.paths import leaves
from simkit.report.last_run import failure_text
from simkit.spec.fields import METHOD_NAME
from simkit.spec.lint_catalogue import LINTS
from simkit.spec.scenario.apps import App
from simkit.spec.scenario.moments import EXHAUSTIVE

_USER_DIGITS: Final = tuple(product(range(5), range(3)))
"""The choices of who speaks first, and of what is said, that are tried."""


def first_turns_that_fail(
    first: ExploredRun, run: Callable[[ChoiceLog], ExploredRun]
) -> Sequence[ChoiceLog]:
    """Return conversations of one turn, if each one ends with the same error before a model call.

    They differ in what the user says; ``first`` is the simplest. Return none if the pipeline can be
    called.
    """
    if not _fails_at_once(first):
        return ()
    tapes = {_message_of(first): SIMPLEST}
    for user in _USER_DIGITS:
        tape = ChoiceLog((TurnLog(user=user),))
        record = run(tape)
        if not _fails_at_once(record) or {*record.causes} != {*first.causes}:
            return ()
        tapes.setdefault(_message_of(record), tape)
    return [*tapes.values()]


def _fails_at_once(record: ExploredRun) -> bool:
    is_short = len(record.turns) == 1 and not record.model_calls
    return is_short and any(label_of(cause) == "error" for cause in record.causes)


def _message_of(record: ExploredRun) -> bytes:
    return msgspec.json.encode(record.turns[0].get("user"))


_NAMES_MAX: Final = 5
"""The number of places of state that are named."""
_TEXT_MAX: Final = 60
_DRAWN: Final = re.compile(r"[0-9a-f-]{8,}|[0-9]+")
_CARRIED_OVER: Final = "RUN-08"
_ENDS_PROCESS: Final = frozenset(("restart", "crash"))
"""Keys of turns after which, or before which, a new process begins."""


def checked_alone(
    subject: Subject, campaign: Campaign, first_sizes: Mapping[str, object]
) -> Campaign:
    """Return a campaign whose findings say whether their conversations show them alone.

    Only user code can keep anything from one conversation to the next. ``first_sizes`` are those
    of its modules' variables after the first conversation.
    """
    if campaign.is_stopped or not (
        isinstance(subject.prepared.pipeline, App) or subject.names_function
    ):
        return campaign
    discoveries, warned = (
        tuple(msgspec.structs.replace(each, is_alone=_is_alone(subject, each)) for each in group)
        for group in (campaign.discoveries, campaign.warned)
    )
    if not discoveries and all(each.is_alone for each in warned):
        warned = (*warned, *_dependence(subject, campaign))
    if all(each.is_alone for each in warned) and discoveries == campaign.discoveries:
        return campaign
    converse(subject, SIMPLEST)  # The others may have run in other processes.
    sizes = _sizes(subject)
    growing = tuple(name for name, size in first_sizes.items() if sizes.get(name) != size)
    return msgspec.structs.replace(
        campaign, discoveries=discoveries, warned=warned, growing=growing[:_NAMES_MAX]
    )


def _is_alone(subject: Subject, discovery: Discovery) -> bool:
    """Return whether a new process that runs the smallest conversation alone shows the cause."""
    if isinstance(subject.prepared.pipeline, App) and any(
        map(_ENDS_PROCESS.intersection, discovery.record.turns)
    ):
        # Replay restarts code within its process, where modules of others outlive it.
        return discovery.is_repeatable
    return shows_apart(as_scenario(discovery, subject), discovery.cause)


def _dependence(subject: Subject, campaign: Campaign) -> Iterator[Discovery]:
    """Yield a warning if a conversation after others is not as it is with the code's modules new.

    Nothing else need be wrong with it: an answer from a cache asks no model.
    """
    prepared = subject.prepared
    app = prepared.pipeline
    if not isinstance(app, App) or app.options.fresh or not campaign.runs:
        return
    options = app.options.model_copy(update={"fresh": True})
    new = msgspec.structs.replace(prepared, pipeline=msgspec.structs.replace(app, options=options))
    tape = ChoiceLog((TurnLog(), TurnLog()))
    with suppress(SimkitError):  # Not all code can be imported again.
        alone = converse(msgspec.structs.replace(subject, prepared=new), tape, observes=True)
        after = converse(subject, tape, observes=True)
        problem, agent = _difference(alone, after)
        if problem:
            where = prepared.document.position(("scenario",))
            fix = LINTS[_CARRIED_OVER].advice(is_code=True)
            finding = Finding(_CARRIED_OVER, "W", problem, where, agent=agent, fix=fix)
            cause = cause_of(finding)
            record = msgspec.structs.replace(after, causes={cause: finding})
            yield Discovery(cause, record, 1, campaign.runs, is_alone=False)


def _difference(alone: ExploredRun, after: ExploredRun) -> tuple[str, str]:
    """Return what an agent is first sent otherwise after other conversations, and the agent."""
    for expected, actual in zip_longest(_requests(alone), _requests(after)):
        if expected != actual:
            turn, agent, _ = actual or expected
            before, now = [
                repr(short(each[2], _TEXT_MAX)) if each and each[:2] == (turn, agent) else "nothing"
                for each in (expected, actual)
            ]
            return (
                f"after other conversations, agent {agent!r} is sent {now} in turn {turn}, "
                f"where it is sent {before} without them"
            ), agent
    return "", ""


def _requests(record: ExploredRun) -> Iterator[tuple[int, str, str]]:
    """Yield turn, agent and text of each message sent, without numbers that an import draws."""
    assert record.observed is not None
    for call in record.observed[1].calls.values():
        yield from (
            (call.turn, call.agent, _DRAWN.sub("#", m.content)) for m in call.context.messages
        )


def _sizes(subject: Subject) -> Mapping[str, object]:
    """Return the variables of the code's modules, each with another size if it keeps more."""
    pipeline = subject.prepared.pipeline
    if isinstance(pipeline, App):
        return sizes_in(OwnModules(pipeline))
    # Those of the functions of a declared pipeline.
    data = (subject.prepared.pipeline_document.data, subject.lines)
    names = {text.partition(":")[0] for text in leaves(data) if isinstance(text, str)}
    return sizes_in(NamedModules(*sorted(names)))


# Campaigns


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


def run_campaign(
    name: str,
    subject: Subject,
    bounds: Bounds,
    *,
    reads: FileReads | None = None,
    tell: Tell = lambda tally: None,
    say: Callable[[str], None] = lambda line: None,
) -> Campaign:
    """Explore a subject within bounds; raise SimkitError if it cannot be run.

    ``name`` is that by which the user called it. ``reads`` has the files that were read since
    before the subject was; without it everything runs in this process, and nothing is kept.
    ``tell`` gets now and then what came so far, and ``say`` a line that the user should read.
    """
    if subject.prepared.unmet:
        raise subject.prepared.refusal()
    for note in subject.notes:
        say(note)
    if bounds.profile is not None:
        subject = with_profile(subject, bounds.profile)
    try:
        exploration = _Exploration(name, subject, bounds, tell, say)
        return checked_alone(subject, exploration.run(reads), exploration.first_sizes)
    except SourceError as problem:
        raise SimkitError(_advised(problem, name)) from problem


class _Exploration:
    """A campaign on one subject."""

    def __init__(
        self, name: str, subject: Subject, bounds: Bounds, tell: Tell, say: Callable[[str], None]
    ) -> None:
        self._name, self._subject, self._bounds = name, subject, bounds
        self._tell, self._say = tell, say
        seconds = bounds.seconds
        self._deadline = None if seconds is None else time.monotonic() + seconds
        self._run = partial(converse, subject, observes=bounds.measures)
        self._run_by = partial(converse_by, subject, observes=bounds.measures)
        self._turns, self._seed = turns_most(subject, bounds), seed_of(subject, bounds)
        self._is_exhaustive = is_exhaustive(subject, bounds)
        self.first_sizes: Mapping[str, object] = {}

    def _is_late(self) -> bool:
        return self._deadline is not None and time.monotonic() > self._deadline

    def run(self, reads: FileReads | None) -> Campaign:
        """Run as many conversations as the bounds say, or only some if none comes to a model.

        Raise SourceError at once for what cannot be run. All files that it reads are known only
        after the first conversation.
        """
        first = self._run(SIMPLEST)
        self.first_sizes = _sizes(self._subject)
        if doomed := first_turns_that_fail(first, self._run):
            # All others would end like them.
            campaign = conduct(self._in_process(), self._run, (), known=doomed, tell=self._tell)
            return msgspec.structs.replace(campaign, is_doomed=True)
        for tape in restart_trials(self._subject.prepared, self._subject.simulation, self._turns):
            self._run(tape)
        return with_first(self._campaign(reads), first, self._run)

    def _campaign(self, reads: FileReads | None) -> Campaign:
        """Run the conversations, and keep what the campaign needs to go on."""
        if reads is None:
            return self._search(self._in_process(), Parts())
        setup, memory = self._setup(reads), Memory(MEMORY, self._name)
        with self._journal(memory, setup) as journal, self._work(setup) as work:
            campaign = self._search(work, journal)
            journal.is_over = not campaign.is_stopped
            if campaign.is_stopped and journal.count:
                self._say("the same command goes on from here")
        if not self._is_exhaustive:
            with suppress(OSError):
                memory.keep(each.record.tape for each in campaign.discoveries)
        return campaign

    def _search(self, work: Work, journal: Parts) -> Campaign:
        """Run every conversation, or draw some, beside those that the journal has."""
        runs = self._bounds.runs
        if self._is_exhaustive:
            if journal.slices:
                count = sum(part.tally.runs for part in journal.slices)
                self._say_goes_on(counted(count, "conversation"), journal)
            return search_all(
                work,
                self._run_by,
                runs=runs,
                turns_max=self._turns,
                tell=self._tell,
                done=journal.slices,
                keep=journal.keep_slice,
            )
        chunks = chunks_of(runs, self._seed, len(journal.known))
        if journal.done:
            after = f"{len(journal.done)} of {counted(len(chunks), 'part')}"
            self._say_goes_on(after, journal)
        return conduct(
            work,
            self._run,
            chunks,
            known=journal.known,
            done=journal.done,
            keep=journal.keep,
            tell=self._tell,
        )

    def _say_goes_on(self, after: str, journal: Parts) -> None:
        self._say(
            f"goes on after {after}, which an earlier call ran; to begin anew, delete "
            f"{journal.folder}"
        )

    def _in_process(self) -> InProcess:
        return InProcess(
            self._run,
            self._run_by,
            turns_max=self._turns,
            rare=len(self._subject.rare),
            is_late=self._is_late,
        )

    @contextmanager
    def _work(self, setup: Setup) -> Iterator[Work]:
        """Return where conversations are run: in this process, in others, or on a cluster."""
        bounds, deadline = self._bounds, self._deadline
        if bounds.cluster is not None:
            from simkit.explore.cluster import Cluster

            with Cluster(bounds.cluster, setup, bounds.processes, deadline, self._say) as cluster:
                yield cluster
        elif bounds.processes > 1:
            with Processes(setup, bounds.processes, deadline) as processes:
                yield processes
        else:
            yield self._in_process()

    def _setup(self, reads: FileReads) -> Setup:
        return Setup(
            name=self._name,
            agents=dict(self._subject.found_agents),
            stand_ins=self._subject.stand_ins,
            profile=self._bounds.profile,
            turns=self._turns,
            measures=self._bounds.measures,
            folder=os.getcwd(),
            files=fingerprints(reads.files()),
            versions=versions(),
        )

    @contextmanager
    def _journal(self, memory: Memory, setup: Setup) -> Iterator[Parts]:
        """Return the journal of the campaign; nothing is kept if it cannot be, which is said."""
        facts: dict[str, object] = {"setup": setup, "runs": self._bounds.runs, "seed": self._seed}
        if self._is_exhaustive:
            facts |= {"seed": None, "exhaustive": True}
        redactor = self._subject.prepared.redactor(os.environ)
        journal = Parts()
        try:
            journal = Journal(memory.folder, key_of(facts), memory.known(), redactor)
        except BlockingIOError:
            self._say("another call of this command is at work; if killed, this one begins anew")
        except OSError as problem:
            self._say(f"{failure_text(problem)}: if killed, the campaign begins anew")
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
