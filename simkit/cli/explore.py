"""Implementation of ``simkit explore``: search, and write what was found as scenario files."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import dropwhile
from pathlib import Path
from typing import Final

from simkit.adapters.input_shapes import input_advised
from simkit.checks.coverage import coverage_of
from simkit.cli.console import Progress
from simkit.cli.init.files import write_new
from simkit.cli.view import write_coverage_page
from simkit.core.answers import answer, answer_row, refuse
from simkit.core.errors import DirectoryGone, OutputFailed, SimkitError, Terminated
from simkit.core.files import FileReads, check_place
from simkit.core.output import echo
from simkit.core.stopping import TERMINATED, stop_in
from simkit.core.text import counted, shell_word, short
from simkit.explore.api import explore_with_probe_runs
from simkit.explore.campaigns import LOCAL, Bounds, command_of, is_exhaustive, turns_most
from simkit.explore.causes import NO_PAST, label_of, line_refused, lines_to_add, network_text
from simkit.explore.chunks import Tally, reply_lines
from simkit.explore.claims import conditions_in, reach_lines, unjudged_lines
from simkit.explore.scenarios import earlier_lines, file_name, headline, scenario_text, shows
from simkit.explore.search import Campaign, Discovery
from simkit.explore.subjects import MADE_UP_FILE, Subject, subjects_named
from simkit.explore.users import YES
from simkit.report.scores import summary_line
from simkit.session.execution.own_process import refused_at_exit
from simkit.spec.scenario.apps import App
from simkit.spec.scenario.files import Library
from simkit.spec.scenario.writing import flow
from simkit.viewer import RunsCoverage

TIME_LEAST_S: Final = 0.001
"""The resolution of a clock: nothing takes no time."""
_GUESSED_ANSWER: Final = (
    f"Nothing says how users answer this question, so one said `{YES}`. Say it in a simulation: "
    "`users: {ada: {says: [Hello.], answers: [{approved: true}]}}`."
)
"""Said of an error in the turn that answers a question."""
_NOT_VARIED: Final = (
    ", with the calls that wait answered in each order, and once in a turn all at the same time; "
    "where else tasks and threads give way to each other was not varied"
)
"""The limit of the claim that every conversation with code was run."""
_ADDRESS: Final = re.compile(r"(\w+://)?[^/]+:\d+")
"""The address of a scheduler; dask tries one without a port for a long time."""


def explore(
    name: str, bounds: Bounds, folder: str, page: str, needs_met: bool, is_strict: bool
) -> int:
    """Explore what a name stands for; return the exit code: 1 if something was found.

    It is 2 if something cannot be run, and is not skipped, or if a part needs the network, and 143
    if SIGTERM, such as a CI's time limit, ended it with what it had found. Scenario
    files are written into ``folder``, and a page of coverage to ``page``, if it is named. With
    ``needs_met`` a library that is missing is an error, and no reason to skip; with ``is_strict``
    claims that no conversation judged end with 1.
    """
    _check(bounds)
    if page:
        check_place(page, "--coverage")
    if Path(folder).exists() and not Path(folder).is_dir():
        raise SimkitError(
            f"--to: {folder} is a file\n  Name a folder: scenarios are written there."
        )
    answer(subjects=[], found=[])
    reads = FileReads().begin()
    tour = _Tour(name, bounds, folder, needs_met, is_strict, reads)
    try:
        for own_name, subject in subjects_named(Library(), name):
            tour.visit(own_name, subject)
            if stop_in() is Terminated:
                break
    finally:
        reads.end()
    for text in refused_at_exit():
        echo(f"RUN-02: {text}")
        tour.was_found = True
    if tour.broken:
        refuse(SimkitError(), text := f"not explored: {', '.join(tour.broken)}")
        echo(text)
    if tour.skips == tour.count:
        echo(f"nothing was explored: {tour.count} skipped")
    if page:
        by = counted(tour.coverage.runs, "conversation")
        path = write_coverage_page(page, name, tour.coverage, by)
        echo(f"{summary_line(coverage_of(tour.coverage.items))}: wrote {path}")
    if stop_in() is Terminated:
        return TERMINATED
    if tour.is_incomplete or tour.broken:
        return 2
    return 1 if tour.was_found else 0


class _Tour:
    """The subjects of a command, explored one after the other, and what came of them."""

    def __init__(
        self,
        name: str,
        bounds: Bounds,
        folder: str,
        needs_met: bool,
        is_strict: bool,
        reads: FileReads,
    ) -> None:
        self._name, self._bounds, self._folder, self._reads = name, bounds, folder, reads
        self._needs_met, self._is_strict = needs_met, is_strict
        self.count = self.skips = 0
        self.was_found = False
        self.is_incomplete = False
        """Whether a part of a subject was not explored."""
        self.broken: list[str] = []
        """The names of subjects that cannot be run."""
        self.coverage = RunsCoverage()

    def visit(self, name: str, subject: Subject | SimkitError) -> None:
        """Explore a subject, and report; of several, one that cannot be run stops no other."""
        self.count += 1
        try:
            if isinstance(subject, SimkitError):
                raise subject
            self._explore(name, subject)
        except (OutputFailed, DirectoryGone):
            raise
        except SimkitError as problem:
            if name == self._name:
                raise
            echo(str(problem), err=True)
            self.broken.append(name)

    def _explore(self, name: str, subject: Subject) -> None:
        prepared = subject.prepared
        if self._needs_met and prepared.scenario.skip is None and prepared.unmet:
            raise prepared.refusal()
        if prepared.skip is not None:
            echo(f"{name}: skipped: {prepared.skip}")
            self.skips += 1
            return
        if name != self._name:
            echo(f"{name}:")
        subject, campaign = _explore(name, subject, self._bounds, self._folder, self._reads)
        guessed = [bool(_guess(each, subject)) for each in campaign.discoveries]
        self.was_found |= not all(guessed)
        self.is_incomplete |= bool(campaign.refused) or any(guessed) or not campaign.runs
        if self._is_strict:
            for line in (unjudged := unjudged_lines(campaign.reach)):
                echo(line)
            self.was_found |= bool(unjudged)
        self.coverage = self.coverage.merged(campaign.coverage or RunsCoverage())


def _explore(
    name: str, subject: Subject, bounds: Bounds, folder: str, reads: FileReads
) -> tuple[Subject, Campaign]:
    """Explore a subject, and report; return it, with the agents that were found in it."""
    progress = Progress()
    progress.begin(f"exploring {name}")
    started = time.monotonic()
    earlier: int | None = None

    def tell(tally: Tally) -> None:
        nonlocal earlier
        # The first tally has the conversations that an earlier call ran.
        earlier = tally.runs if earlier is None else earlier
        speed = (tally.runs - earlier) / max(time.monotonic() - started, TIME_LEAST_S)
        progress.begin(progress_text(name, tally, bounds.runs, speed))

    def say(line: str) -> None:
        progress.clear()
        echo(f"note: {line}", err=True)

    with progress:
        subject, campaign = explore_with_probe_runs(
            name, subject, bounds, reads=reads, tell=tell, say=say
        )
    took = time.monotonic() - started
    for line in _lines(campaign, bounds, name, subject, took, folder):
        echo(line)
    return subject, campaign


def _check(bounds: Bounds) -> None:
    """Raise SimkitError for options that do not fit together."""
    if bounds.cluster not in (None, LOCAL) and not _ADDRESS.fullmatch(str(bounds.cluster)):
        raise SimkitError(
            f"--cluster: {bounds.cluster!r} is no address\n"
            f"  Write that of a dask scheduler, as tcp://host:8786, or {LOCAL}."
        )
    if bounds.cluster not in (None, LOCAL) and bounds.processes > 1:
        raise SimkitError(
            "-j: the workers of a cluster that runs already are its own matter\n"
            f"  Leave out -j, or write --cluster {LOCAL}."
        )


def progress_text(name: str, tally: Tally, runs: int, speed: float) -> str:
    """Return the line that is shown while a campaign runs; ``speed`` is in runs a second."""
    reached = [
        f"{reached} of {counted(count, kind)}" for kind, reached, count in tally.reach.counts()
    ]
    counts = f"{tally.runs:,} of {runs:,}", f"{len(tally.causes)} found"
    return f"{name}: {', '.join((*counts, f'{speed:,.0f} a second', *reached))}"


def _answer(campaign: Campaign, name: str) -> None:
    """Add what was explored to the answer for programs."""
    answer_row(
        "subjects",
        {
            "name": name,
            "conversations": campaign.runs,
            "turns": campaign.turns,
            "model_calls": campaign.model_calls,
            "is_complete": campaign.is_complete,
            "is_stopped": campaign.is_stopped,
            "reached": {kind: [had, of] for kind, had, of in campaign.reach.counts()},
            "not_explored": [
                network_text(refused.cause.detail, refused.record.turns)
                for refused in campaign.refused
            ],
        },
    )


def _lines(
    campaign: Campaign, bounds: Bounds, name: str, subject: Subject, took: float, folder: str
) -> Iterator[str]:
    stopped = "stopped: " if campaign.is_stopped else ""
    _answer(campaign, name)
    yield (
        f"{stopped}{counted(campaign.runs, 'conversation')}, {counted(campaign.turns, 'turn')}, "
        f"{counted(campaign.model_calls, 'model call')} ({took:.2f} s)"
    )
    yield from reach_lines(campaign.reach, conditions_in(subject.prepared.pipeline))
    if campaign.is_doomed:
        yield "each of them ends in its first turn, before a model is asked: no more were run"
    elif is_exhaustive(subject, bounds):
        bound = f"conversation of at most {counted(turns_most(subject, bounds), 'turn')}"
        more = f"not every {bound} was run: --runs {bounds.runs * 10} runs more"
        limit = _NOT_VARIED if isinstance(subject.prepared.pipeline, App) else ""
        yield f"every {bound} was run{limit}" if campaign.is_complete else more
    # Errors that the drawn answers alone cause come last.
    failing = sorted(campaign.discoveries, key=lambda each: bool(_guess(each, subject)))
    for discovery in (*failing, *campaign.warned):
        yield ""
        command = command_of(name, subject, bounds)
        yield from _discovery_lines(discovery, subject, command, Path(folder), name)
        if not discovery.is_alone:
            yield from (f"         {line}" for line in earlier_lines(campaign.growing))
    yield from _refused_lines(campaign, subject)
    for discovery in campaign.noted:
        yield f"  NOTE   {NO_PAST} ({counted(discovery.runs, 'run')})"
    if not campaign.runs:
        yield "nothing was explored: no conversation came to its end in that time"
    elif not campaign.discoveries:
        claims = ", no broken claim" if subject.has_claims else ""
        more = "else " if campaign.refused or campaign.warned else ""
        yield f"nothing {more}was found: no error, no lint, no limit{claims}"


def _refused_lines(campaign: Campaign, subject: Subject) -> Iterator[str]:
    """Yield the parts that need the network, and the lines that answer in their place."""
    if not campaign.refused:
        return
    yield ""
    for refused in campaign.refused:
        yield f"  NOT EXPLORED  {network_text(refused.cause.detail, refused.record.turns)}"
        yield f"         in {counted(refused.runs, 'run')}, first in run {refused.first}"
    for line in lines_to_add(subject, campaign.refused):
        yield f"         {line}"
    yield ""


def _answers_by_guess(discovery: Discovery, subject: Subject) -> bool:
    """Return whether a turn fails that answers a question, and nobody said how users answer."""
    is_told = any(user.answers is not None for user in subject.simulation.users.values())
    turns = discovery.record.turns
    is_answer = bool(turns) and turns[-1].get("resume") == YES
    return is_answer and not is_told and label_of(discovery.cause) == "error"


def _guess(discovery: Discovery, subject: Subject) -> str:
    """Return what to write if only a guess of simkit's causes an error; else an empty text."""
    if _answers_by_guess(discovery, subject):
        return _GUESSED_ANSWER
    agent, line = line_refused(discovery.cause, discovery.record.turns)
    if not agent or agent in subject.lines:
        return ""
    return (
        f"What the drawn model of {agent!r} answers fits its schema, and validators of the code "
        "that no schema says refused it each time. Say what they accept in a simulation: "
        f"`models: {flow({agent: [line]})}`, with other values."
    )


def _discovery_lines(
    discovery: Discovery, subject: Subject, command: str, folder: Path, name: str
) -> Iterator[str]:
    turns = discovery.record.turns
    count = reply_lines(turns)
    code = label_of(discovery.cause)
    guess = _guess(discovery, subject)
    is_warning = discovery.record.causes[discovery.cause].severity == "W"
    word = "NOT EXPLORED" if guess else "WARNING" if is_warning else "FOUND"
    row = {
        "subject": name,
        "kind": word.lower().replace(" ", "_"),
        "id": code,
        "what": headline(discovery),
        "advice": guess,
        "conversations": discovery.runs,
        "first": discovery.first,
        "turns": len(turns),
        "reply_lines": count,
        "file": "",
    }
    answer_row("found", row)
    yield f"  {word}  {code}: {short(headline(discovery), 160)}"
    yield (
        f"         in {counted(discovery.runs, 'run')}, first in run {discovery.first}; "
        f"smallest: {counted(len(turns), 'turn')}, {counted(count, 'reply line')}"
    )
    if guess:
        yield f"         {guess}"
    if given := input_advised(discovery.record.causes[discovery.cause].what):
        yield from (f"         {line}" for line in _input_lines(subject, given))
    if not discovery.is_alone:
        return
    folder.mkdir(parents=True, exist_ok=True)
    text = scenario_text(discovery, subject, folder.resolve(), command)
    file = _write(folder, discovery, text)
    if shows(file, discovery.cause, is_apart=not discovery.is_repeatable):
        row["file"] = str(file)
        yield f"         simkit replay {shell_word(str(file))}"
    else:
        os.unlink(file)
        yield "         It cannot be written as a scenario that shows it by itself."


def _input_lines(subject: Subject, given: str) -> Iterator[str]:
    """Yield how to give the pipeline an input, which is a mapping or a list in YAML."""
    kind = "a list" if given.startswith("[") else "a mapping"
    yield f"The pipeline cannot be called like this: it takes {kind}, not a text."
    pipeline = subject.prepared.scenario.pipeline
    if subject.prepared.document.file == MADE_UP_FILE:
        option = shell_word(f"input={given}")
        yield "Say what is in it, and explore the scenario that this writes:"
        yield f"  simkit init --app {shell_word(pipeline)} --option {option}"
    else:
        yield f"Say what is in it, beside `pipeline: {pipeline}`:"
        yield f"  app: {{input: {given}}}"


def _write(folder: Path, discovery: Discovery, text: str) -> Path:
    """Write a text to the first file of the discovery's names that is free; return the file.

    A file that has the text already is that file, whichever command found it.
    """
    number = 1
    while not write_new(file := folder / file_name(discovery.cause, number), text):
        with suppress(OSError, UnicodeDecodeError):
            # A device may have no end.
            if file.is_file() and _scenario_in(file.read_text(encoding="utf-8")) == _scenario_in(
                text
            ):
                break
        number += 1
    return file


def _scenario_in(text: str) -> list[str]:
    """Return the lines of a file below its comment."""
    return [*dropwhile(lambda line: line.startswith("#"), text.splitlines())]
