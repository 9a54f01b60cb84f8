"""The child process of ``--verify``: run scenarios again, and return the different digests."""

from __future__ import annotations

import os
import sys
from datetime import timedelta

import msgspec

from simkit.core.determinism.clocks import later
from simkit.core.errors import SimkitError
from simkit.session.simulate import run
from simkit.spec.scenario.files import Library
from simkit.spec.scenario.items import ScenarioCase


class Again(msgspec.Struct, frozen=True):
    """One scenario to run a second time."""

    item: ScenarioCase
    digest: str
    """The first run's digest."""


class Job(msgspec.Struct, frozen=True):
    """The request of the parent."""

    scenarios: list[Again]
    seed: int | None = None
    days_later: int = 0
    """The number of days by which the real clock is put forward: `time` and `datetime`, for code
    of this process outside virtual time. Child processes have the real day, and so have
    libraries with their own clock in C, such as SQLite."""


class Answer(msgspec.Struct, frozen=True):
    """The result of one second run."""

    digest: str
    lines: list[str] = []
    """The stored form, only if the digest differs."""
    error: str = ""


def serve() -> None:
    """Read a job from stdin and write its answers to stdout, as JSON."""
    # Output of users' functions must not be between the answers.
    answers_to = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    job = msgspec.json.decode(sys.stdin.buffer.read(), type=Job)
    library = Library()
    with later(timedelta(days=job.days_later)):
        answers = [_answer(again, library, job.seed) for again in job.scenarios]
    with answers_to:
        answers_to.write(msgspec.json.encode(answers))


def _answer(again: Again, library: Library, seed: int | None) -> Answer:
    try:
        trace = run(library.prepared(again.item), seed=seed)
    except SimkitError as problem:
        return Answer("", error=str(problem))
    digest = trace.digest()
    if digest == again.digest:
        return Answer(digest)
    return Answer(digest, [line.decode() for line in trace.lines()])
