"""The child process of ``--verify``: runs scenarios again and says where their digests differ."""

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
    """The first run's."""


class Job(msgspec.Struct, frozen=True):
    """What the parent asks for."""

    scenarios: list[Again]
    seed: int | None = None
    days_later: int = 0
    """How far the real clock is put forward: `time` and `datetime`, for whoever asks them in this
    process outside of a scenario's virtual time. Child processes have the real day, and so have
    libraries with a clock of their own in C, such as SQLite."""


class Answer(msgspec.Struct, frozen=True):
    """What came of one second run."""

    digest: str
    lines: list[str] = []
    """The stored form, only where the digest differs."""
    error: str = ""


def serve() -> None:
    """Read a job from stdin and write its answers to stdout, as JSON."""
    # What users' functions print must not stand between the answers.
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
