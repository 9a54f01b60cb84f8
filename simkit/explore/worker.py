"""The tasks of a campaign, and what a process does that gets one."""

from __future__ import annotations

import os
import time
import traceback
from functools import lru_cache, partial
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Final

import msgspec

from simkit.core.errors import SimkitError
from simkit.explore.causes import Cause
from simkit.explore.choices import ChoiceLog
from simkit.explore.chunks import Chunk, Tally
from simkit.explore.enumeration import Interval

if TYPE_CHECKING:
    from simkit.explore.conversations import Subject

LOCAL: Final = "local"
"""The address of a dask cluster on this machine, which ends with the campaign."""

SAME_PROJECT: Final = (
    "  Give workers the same project in the same folder, by a shared file system or an image that "
    "contains it."
)


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """The facts that all tasks of a campaign share."""

    name: str
    """The name of the subject."""
    agents: dict[str, Any] = {}
    """The rules of its agents that no file holds."""
    profile: str | None
    turns: int
    """The most turns of a conversation."""
    measures: bool
    """Whether coverage is measured."""
    folder: str
    """The folder in which the name and the files are looked up."""
    files: dict[str, str]
    """The files that the subject was read from, with digests of their contents."""
    versions: dict[str, str]
    """The packages on which it depends what a seed draws."""


class Shrinking(msgspec.Struct, frozen=True):
    """A conversation to be made small."""

    cause: Cause
    tape: ChoiceLog


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a campaign: a chunk, or a conversation to be made small."""

    setup: Setup
    chunk: Chunk | None = None
    shrinking: Shrinking | None = None
    interval: Interval | None = None
    """A part of an enumeration."""
    most: int = 0
    """The most conversations of an interval."""
    seconds: float | None = None
    """The time after which a chunk ends; None for no limit."""


class Answer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of a task."""

    tally: Tally | None = None
    tape: ChoiceLog | None = None
    left: tuple[Interval, ...] = ()
    """The conversations of an interval that were not run."""
    error: str = ""
    """Why it could not be done."""
    is_bug: bool = False
    """Whether the error is one of simkit itself, with its traceback."""


def versions() -> dict[str, str]:
    """Return the packages on which it depends what a seed draws, with their versions."""
    return {name: _version(name) for name in ("agent-simkit", "hypothesis")}


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "none"


def answer_in_json(task: bytes) -> bytes:
    """Do a task; both are JSON, as they are sent through a cluster."""
    return msgspec.json.encode(answer_to(msgspec.json.decode(task, type=Task)))


def answer_to(task: Task) -> Answer:
    """Do a task; errors are a part of the answer."""
    try:
        _check(task.setup)
        return _answer(task)
    except SimkitError as problem:
        return Answer(error=str(problem))
    except Exception:
        return Answer(error=traceback.format_exc(), is_bug=True)


def _check(setup: Setup) -> None:
    """Raise SimkitError if this process would run something else."""
    from simkit.explore.journal import fingerprint

    for name, expected in setup.versions.items():
        if (own := _version(name)) != expected:
            raise SimkitError(
                f"it has {name} {own}, and the campaign {expected}: the same seed would draw other "
                f"conversations\n  Install {name}=={expected} there."
            )
    for file, digest in setup.files.items():
        own = fingerprint(file)
        if own != digest:
            problem = "is another one there" if own else "is not there"
            raise SimkitError(
                f"{os.path.join(setup.folder, file)}: this file {problem}\n{SAME_PROJECT}"
            )


def _answer(task: Task) -> Answer:
    from simkit.explore.conversations import converse, converse_by
    from simkit.explore.search import InProcess
    from simkit.explore.spreading import run_interval, sliced

    setup, started = task.setup, time.monotonic()
    subject = _subject(setup.name, setup.profile, msgspec.json.encode(setup.agents))
    if task.interval is not None:
        run_by = partial(converse_by, subject, observes=setup.measures)
        tally, left = run_interval(
            run_by, task.interval, turns_max=setup.turns, most=task.most, is_late=sliced()
        )
        return Answer(tally=tally, left=left)
    run = partial(converse, subject, observes=setup.measures)

    def is_late() -> bool:
        return task.seconds is not None and time.monotonic() - started > task.seconds

    work = InProcess(run, turns_max=setup.turns, rare=len(subject.rare), is_late=is_late)
    if task.chunk is not None:
        ((_, tally),) = work.draw([task.chunk], lambda tally: None)
        return Answer(tally=tally)
    assert task.shrinking is not None
    return Answer(tape=work.shrunk(task.shrinking.cause, task.shrinking.tape))


@lru_cache(maxsize=1)
def _subject(name: str, profile: str | None, agents: bytes) -> Subject:
    """Return the subject that a name stands for; ``agents`` are rules that no file holds."""
    from simkit.explore.profiles import with_profile
    from simkit.explore.subjects import pipeline_subject, subjects_named
    from simkit.spec.scenario.files import Library

    rules = msgspec.json.decode(agents)
    if rules:
        subject = pipeline_subject(Library(), name, rules)
    else:
        named = dict(subjects_named(Library(), name))[name]
        if isinstance(named, SimkitError):
            raise named
        subject = named
    if subject.prepared.unmet:
        raise subject.prepared.refusal()
    if profile is not None:
        subject = with_profile(subject, profile)
    return subject
