"""Several processes that run the parts of a campaign: their tasks, and how one is done."""

from __future__ import annotations

import os
import time
import traceback
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import as_completed
from contextlib import AbstractContextManager
from functools import lru_cache, partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final, TypeVar

import msgspec

from simkit.core.errors import SimkitError
from simkit.explore.causes import Cause
from simkit.explore.choices import ChoiceLog
from simkit.explore.chunks import CauseTally, Chunk, Tally, Tell
from simkit.explore.conversations import converse, converse_by
from simkit.explore.drawing import draw
from simkit.explore.enumeration import Interval, run_interval, sliced
from simkit.explore.journal import fingerprint
from simkit.explore.shrinking import Shrinker
from simkit.explore.subjects import (
    Subject,
    pipeline_subject,
    subjects_named,
    with_profile,
    with_stand_ins,
)
from simkit.session.workers import Pool, Worker, WorkerDied, start_worker
from simkit.spec.scenario.files import Library

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
    stand_ins: tuple[str, ...] = ()
    """The tools in whose place simkit answers."""
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
    setup, started = task.setup, time.monotonic()
    subject = _subject(setup.name, setup.profile, msgspec.json.encode(setup.agents))
    subject = with_stand_ins(subject, setup.stand_ins)
    if task.interval is not None:
        run_by = partial(converse_by, subject, observes=setup.measures)
        tally, left = run_interval(
            run_by, task.interval, turns_max=setup.turns, most=task.most, is_late=sliced()
        )
        return Answer(tally=tally, left=left)
    run = partial(converse, subject, observes=setup.measures)

    def is_late() -> bool:
        return task.seconds is not None and time.monotonic() - started > task.seconds

    if task.chunk is not None:
        rare = len(subject.rare)
        return Answer(
            tally=draw(run, task.chunk, turns_max=setup.turns, rare=rare, is_late=is_late)
        )
    assert task.shrinking is not None
    return Answer(tape=Shrinker(run, task.shrinking.cause).shrink(task.shrinking.tape))


@lru_cache(maxsize=1)
def _subject(name: str, profile: str | None, agents: bytes) -> Subject:
    """Return the subject that a name stands for; ``agents`` are rules that no file holds."""
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


T = TypeVar("T")
TRIES_MAX: Final = 3
"""How often a part is run before the campaign gives up, if its process dies each time."""
WAVE_EACH: Final = 4
"""The number of intervals for each process that are handed out together."""
_ANSWER: Final = msgspec.json.Decoder(Answer)


def start_exploring(folder: str) -> Worker:
    """Start a process that does tasks in a folder; raise OSError if it cannot be started."""
    return start_worker((__name__,), folder=folder)


class Workers(AbstractContextManager["Workers"]):
    """Runs the parts of a campaign as tasks, whose answers come in any order."""

    _setup: Setup
    _deadline: float | None
    """The monotonic time at which chunks end; None for no limit."""

    def draw(self, chunks: Sequence[Chunk], tell: Tell) -> Iterator[tuple[Chunk, Tally]]:
        """Run chunks; yield each with its tally as soon as it is known."""
        tasks = [(chunk, Task(setup=self._setup, chunk=chunk)) for chunk in chunks]
        for chunk, answer in self._answers(tasks):
            assert answer.tally is not None
            yield chunk, answer.tally

    def shrink(self, causes: Sequence[CauseTally]) -> Iterator[tuple[Cause, ChoiceLog]]:
        """Make the smallest conversation of each cause smaller."""
        tasks = [
            (
                tally.cause,
                Task(setup=self._setup, shrinking=Shrinking(tally.cause, tally.smallest.tape)),
            )
            for tally in causes
        ]
        for cause, answer in self._answers(tasks):
            assert answer.tape is not None
            yield cause, answer.tape

    def intervals(
        self, intervals: Sequence[tuple[int, Interval, int]], tell: Tell
    ) -> Iterator[tuple[int, Tally, tuple[Interval, ...]]]:
        """Run intervals of an enumeration; raise KeyboardInterrupt after the deadline."""
        if self._deadline is not None and time.monotonic() > self._deadline:
            raise KeyboardInterrupt
        tasks = [
            (number, Task(setup=self._setup, interval=interval, most=most))
            for number, interval, most in intervals
        ]
        for number, answer in self._answers(tasks):
            assert answer.tally is not None
            yield number, answer.tally, answer.left

    @property
    def wave(self) -> int:
        """Return the number of intervals that are handed out together."""
        return self.processes * WAVE_EACH

    @property
    @abstractmethod
    def processes(self) -> int:
        """Return the number of tasks that are done at once."""

    @abstractmethod
    def _answers(self, tasks: Sequence[tuple[T, Task]]) -> Iterator[tuple[T, Answer]]:
        """Yield the answer to each task."""

    def _timed(self, task: Task) -> Task | None:
        """Return a chunk's task with the time that is left; None if none is."""
        if self._deadline is None or task.chunk is None:
            return task
        left = self._deadline - time.monotonic()
        return msgspec.structs.replace(task, seconds=left) if left > 0 else None


class Processes(Workers):
    """Runs the parts of a campaign in processes of its own."""

    def __init__(self, setup: Setup, count: int, deadline: float | None) -> None:
        """``deadline`` is the monotonic time at which chunks end; None for no limit."""
        self._setup, self._deadline, self._count = setup, deadline, count
        self._pool = Pool(count, partial(start_exploring, setup.folder), tries=TRIES_MAX)

    def __exit__(self, *problem: object) -> None:
        self._pool.__exit__(*problem)

    @property
    def processes(self) -> int:
        """Return the number of tasks that are done at once."""
        return self._count

    def _answers(self, tasks: Sequence[tuple[T, Task]]) -> Iterator[tuple[T, Answer]]:
        running = {self._pool.submit(partial(self._ask, task)): (key, task) for key, task in tasks}
        for future in as_completed(running):
            key, task = running[future]
            try:
                yield key, checked(future.result())
            except WorkerDied as death:
                raise SimkitError(died_text(task, death.code)) from None

    def _ask(self, task: Task, worker: Worker) -> Answer:
        timed = self._timed(task)
        if timed is None:
            return Answer(tally=Tally(is_stopped=True))
        return _ANSWER.decode(worker.call(answer_in_json, msgspec.json.encode(timed)))


def checked(answer: Answer, where: str = "") -> Answer:
    """Return an answer; raise SimkitError if it is an error. ``where`` names the worker."""
    if answer.is_bug:
        raise RuntimeError(f"{where}a process that runs conversations failed:\n{answer.error}")
    if answer.error:
        raise SimkitError(f"{where}{answer.error}")
    return answer


def died_text(task: Task, code: int | None) -> str:
    """Return the error of a part whose processes died; ``code`` is the last exit code, if known."""
    chunk = task.chunk
    how = "" if code is None else f" (exit code {code})"
    part = "made a finding small"
    if chunk is not None:
        part = f"ran conversations {chunk.first} to {chunk.first + chunk.runs - 1}"
    elif task.interval is not None:
        part = "ran a part of all conversations"
    return (
        f"the process that {part} died {TRIES_MAX} times{how}\n"
        "  Run without `-j` and `--cluster` to see which conversation does it."
    )
