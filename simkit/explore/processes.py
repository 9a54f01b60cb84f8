"""Several processes that run the chunks of a campaign."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import as_completed
from functools import partial
from typing import Final, TypeVar

import msgspec

from simkit.core.errors import SimkitError
from simkit.explore.causes import Cause
from simkit.explore.choices import ChoiceLog
from simkit.explore.chunks import CauseTally, Chunk, Tally
from simkit.explore.enumeration import Interval
from simkit.explore.search import Tell
from simkit.explore.worker import Answer, Setup, Shrinking, Task, answer_in_json
from simkit.session.workers import Pool, Worker, WorkerDied, start_worker

T = TypeVar("T")
TRIES_MAX: Final = 3
"""How often a part is run before the campaign gives up, if its process dies each time."""
WAVE_EACH: Final = 4
"""The number of intervals for each process that are handed out together."""
_MODULES: Final = ("simkit.explore.worker", "simkit.explore.search", "simkit.explore.subjects")
"""The modules that each process needs."""
_ANSWER: Final = msgspec.json.Decoder(Answer)


def start_exploring(folder: str) -> Worker:
    """Start a process that does tasks in a folder; raise OSError if it cannot be started."""
    return start_worker(_MODULES, folder=folder)


class Workers(ABC):
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
        self, intervals: Sequence[tuple[int, Interval, int]]
    ) -> Iterator[tuple[int, Tally, tuple[Interval, ...]]]:
        """Run intervals of an enumeration, each with its number and its most conversations."""
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

    def __enter__(self) -> Processes:
        return self

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
