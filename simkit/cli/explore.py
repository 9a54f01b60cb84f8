"""Implementation of ``simkit explore``: search, and write what was found as scenario files."""

from __future__ import annotations

import os
import re
import shlex
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from simkit.cli.console import Progress
from simkit.cli.init.files import write_new
from simkit.cli.selection import select
from simkit.core.errors import FunctionMissing, SimkitError, SourceError
from simkit.core.output import echo
from simkit.core.text import counted, short
from simkit.explore.conversations import Subject, converse, converse_by, label_of
from simkit.explore.profiles import with_profile
from simkit.explore.reach import reach_lines
from simkit.explore.scenarios import file_name, headline, scenario_text, shows
from simkit.explore.search import Campaign, Discovery, reply_lines, search, search_all
from simkit.explore.subjects import (
    is_pipeline,
    pipeline_subject,
    scenario_subject,
    simulation_subject,
    simulations_of,
)
from simkit.spec.fields import FUNCTION_NAME
from simkit.spec.scenario.files import Library
from simkit.spec.scenario.items import SIMULATION_SUFFIX, ScenarioCase

RUNS: Final = 300
"""The number of conversations, if nothing else is said."""
MEMORY: Final = Path(".simkit", "explore")
"""Earlier discoveries are tried first; each pipeline has a folder of its own."""


class ExploreOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The call of the command."""

    subject: str
    """A simulation, a scenario, a pipeline file, a folder, or ``module:name``."""
    runs: int
    turns: int | None
    """The most turns of a conversation; None means what the simulation says."""
    seed: int
    profile: str | None
    """A class of failures that happen, too."""
    seconds: float | None
    """The time after which it ends with what was found; None for no limit."""
    exhaustive: bool
    """Whether every conversation within the bound is run."""
    folder: str
    """Where scenario files are written."""


def explore(call: ExploreOptions) -> int:
    """Explore what a name stands for; return the exit code: 1 if something was found."""
    was_found = False
    for name, subject in _subjects(call.subject):
        if call.profile is not None:
            subject = with_profile(subject, call.profile)
        was_found |= _explore(name, subject, call)
    return 1 if was_found else 0


def _explore(name: str, subject: Subject, call: ExploreOptions) -> bool:
    """Explore a subject, and report; return whether something was found."""
    if subject.prepared.skip is not None:
        echo(f"{name}: skipped: {subject.prepared.skip}")
        return False
    if name != call.subject:
        echo(f"{name}:")
    progress = Progress()
    progress.begin(f"exploring {name}")
    started = time.monotonic()

    def tell(runs: int, causes: int) -> None:
        progress.begin(f"exploring {name}: {runs} conversations, {causes} found")

    try:
        turns_max = call.turns or subject.simulation.turns
        budget = float("inf") if call.seconds is None else call.seconds

        def is_late() -> bool:
            return time.monotonic() - started > budget

        if call.exhaustive:
            run_by = partial(converse_by, subject)
            campaign = search_all(
                run_by, runs=call.runs, turns_max=turns_max, tell=tell, is_late=is_late
            )
        else:
            campaign = search(
                partial(converse, subject),
                runs=call.runs,
                turns_max=turns_max,
                seed=call.seed,
                rare=len(subject.rare),
                memory=MEMORY / re.sub(r"[^\w-]+", "_", name),
                tell=tell,
                is_late=is_late,
            )
    except SourceError as problem:
        raise SimkitError(_advised(problem, name)) from problem
    finally:
        progress.end()
    took = time.monotonic() - started
    for line in _lines(campaign, call, name, subject, took):
        echo(line)
    return bool(campaign.discoveries)


def _advised(problem: SourceError, subject: str) -> str:
    text = problem.what
    if "a model call belongs to no agent" in text:
        head = text.partition("\n")[0]
        return (
            f"{head}\n  Nothing says which agent makes which call. Write a first scenario, which "
            f"holds such rules, and explore that:\n  simkit init --app {subject}"
        )
    if not FUNCTION_NAME.fullmatch(subject):
        return str(problem)
    # The place is in a scenario that is no file.
    if isinstance(problem.__cause__, FunctionMissing):
        return (
            f"{text.splitlines()[0]}\n  Start the command in the folder from which the module is "
            "imported, or explore a scenario whose `app: {path: [DIR]}` names that folder."
        )
    return text


def _subjects(name: str) -> Iterator[tuple[str, Subject]]:
    """Yield what a name stands for, with names."""
    library = Library()
    if is_pipeline(name):
        yield name, pipeline_subject(library, name)
        return
    file, _, chosen_name = name.partition("::")
    if file.endswith(SIMULATION_SUFFIX) or Path(name).is_dir():
        cases = list(simulations_of(library, _simulation_files(file)))
        known = [case for case in cases if chosen_name in ("", case.name)]
        if not known:
            raise SimkitError(_no_simulation(name, cases))
        for case in known:
            yield name if len(known) == 1 else case.id, simulation_subject(library, case)
        return
    items = select([name]).items
    if len(items) != 1:
        listed = "\n".join(f"  {item.id}" for item in items[:12])
        raise SimkitError(
            f"{name}: holds {counted(len(items), 'scenario')}; name one to start from:\n{listed}"
        )
    yield name, scenario_subject(library.prepared(items[0]))


def _simulation_files(path: str) -> list[str]:
    if not Path(path).is_dir():
        if not Path(path).is_file():
            raise SimkitError(f"{path}: there is no such file")
        return [path]
    return sorted(map(str, Path(path).rglob(f"*{SIMULATION_SUFFIX}")))


def _no_simulation(name: str, cases: Sequence[ScenarioCase]) -> str:
    if cases:
        listed = "\n".join(f"  {case.id}" for case in cases)
        return f"{name}: there is no such simulation. Known:\n{listed}"
    return (
        f"{name}: there is no `*{SIMULATION_SUFFIX}` file below. Name a simulation, a scenario, a "
        "pipeline file, or `module:name`."
    )


def _lines(
    campaign: Campaign, call: ExploreOptions, name: str, subject: Subject, took: float
) -> Iterator[str]:
    stopped = "stopped: " if campaign.is_stopped else ""
    yield (
        f"{stopped}{counted(campaign.runs, 'conversation')}, {counted(campaign.turns, 'turn')}, "
        f"{counted(campaign.model_calls, 'model call')} ({took:.2f} s)"
    )
    yield from reach_lines(campaign.reach)
    if call.exhaustive:
        bound = f"conversation of at most {counted(call.turns or subject.simulation.turns, 'turn')}"
        more = f"not every {bound} was run: --runs {call.runs * 10} runs more"
        yield f"every {bound} was run" if campaign.is_complete else more
    for discovery in campaign.discoveries:
        yield ""
        yield from _discovery_lines(discovery, call, name, subject)
    if not campaign.discoveries:
        claims = ", no claim" if subject.always or subject.finally_ else ""
        yield f"nothing was found: no error, no lint, no limit{claims}"


def _discovery_lines(
    discovery: Discovery, call: ExploreOptions, name: str, subject: Subject
) -> Iterator[str]:
    turns = discovery.record.turns
    count = reply_lines(turns)
    code = label_of(discovery.cause)
    yield f"  FOUND  {code}: {short(headline(discovery), 160)}"
    yield (
        f"         in {counted(discovery.runs, 'run')}, first in run {discovery.first}; "
        f"smallest: {counted(len(turns), 'turn')}, {counted(count, 'reply line')}"
    )
    folder = Path(call.folder)
    folder.mkdir(parents=True, exist_ok=True)
    command = _command(call, name)
    text = scenario_text(discovery, subject, folder.resolve(), command)
    file = _write(folder, discovery, text)
    if shows(file, discovery.cause):
        yield f"         simkit replay {file}"
    else:
        os.unlink(file)
        yield "         It cannot be written as a scenario that shows it by itself."


def _command(call: ExploreOptions, name: str) -> str:
    """Return the command that finds the same again, as a user types it."""
    words = ["simkit", "explore", shlex.quote(name)]
    if call.runs != RUNS:
        words += ["--runs", str(call.runs)]
    if call.profile is not None:
        words += ["--profile", call.profile]
    if call.turns is not None:
        words += ["--turns", str(call.turns)]
    return " ".join([*words, "--exhaustive" if call.exhaustive else f"--seed {call.seed}"])


def _write(folder: Path, discovery: Discovery, text: str) -> Path:
    """Write a text to the first file of the discovery's names that is free; return the file."""
    number = 1
    while not write_new(file := folder / file_name(discovery.cause, number), text):
        number += 1
    return file
