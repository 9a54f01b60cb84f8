"""Campaigns: a subject is explored within bounds. The command, pytest and Python stand on this."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from simkit.core.errors import FunctionMissing, SimkitError, SourceError
from simkit.explore.conversations import Subject, converse, converse_by
from simkit.explore.profiles import with_profile
from simkit.explore.search import Campaign, search, search_all
from simkit.spec.fields import FUNCTION_NAME

RUNS: Final = 300
"""The number of conversations, if nothing else is said."""
MEMORY: Final = Path(".simkit", "explore")
"""Earlier discoveries are tried first; each pipeline has a folder of its own."""


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


def run_campaign(
    name: str,
    subject: Subject,
    bounds: Bounds,
    *,
    memory: Path | None = None,
    tell: Callable[[int, int], None] = lambda runs, causes: None,
) -> Campaign:
    """Explore a subject within bounds; raise SimkitError if it cannot be run.

    ``name`` is that by which the user called it. ``memory`` is a folder that keeps what was found,
    for the next time. ``tell`` is called after each run with the numbers of runs and of causes.
    """
    if subject.prepared.unmet:
        raise subject.prepared.refusal()
    if bounds.profile is not None:
        subject = with_profile(subject, bounds.profile)
    started = time.monotonic()
    seconds = float("inf") if bounds.seconds is None else bounds.seconds

    def is_late() -> bool:
        return time.monotonic() - started > seconds

    turns_max = turns_most(subject, bounds)
    try:
        if bounds.exhaustive:
            run_by = partial(converse_by, subject)
            return search_all(
                run_by, runs=bounds.runs, turns_max=turns_max, tell=tell, is_late=is_late
            )
        return search(
            partial(converse, subject),
            runs=bounds.runs,
            turns_max=turns_max,
            seed=seed_of(subject, bounds),
            rare=len(subject.rare),
            memory=memory and memory / re.sub(r"[^\w-]+", "_", name),
            tell=tell,
            is_late=is_late,
        )
    except SourceError as problem:
        raise SimkitError(_advised(problem, name)) from problem


def turns_most(subject: Subject, bounds: Bounds) -> int:
    """Return the most turns of a conversation."""
    return bounds.turns or subject.simulation.turns


def seed_of(subject: Subject, bounds: Bounds) -> int:
    """Return the seed of a campaign."""
    return subject.simulation.seed if bounds.seed is None else bounds.seed


def command_of(name: str, subject: Subject, bounds: Bounds) -> str:
    """Return the command that finds the same again, as a user types it."""
    words = ["simkit", "explore", shlex.quote(name)]
    if bounds.runs != RUNS:
        words += ["--runs", str(bounds.runs)]
    if bounds.profile is not None:
        words += ["--profile", bounds.profile]
    if bounds.turns is not None:
        words += ["--turns", str(bounds.turns)]
    seed = f"--seed {seed_of(subject, bounds)}"
    return " ".join([*words, "--exhaustive" if bounds.exhaustive else seed])


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
