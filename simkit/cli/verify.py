"""``--verify``: run everything again in another process, with other hashes on another day."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing, suppress
from functools import lru_cache
from typing import Final

import msgspec

from simkit.checks.findings import Finding
from simkit.cli.running import ScenarioRun
from simkit.core.errors import SimkitError
from simkit.session.execution.applications import OwnProcesses
from simkit.session.execution.own_process import app_of
from simkit.session.simulate import run
from simkit.session.workers import WorkerDied, start_worker
from simkit.spec.scenario.apps import App
from simkit.spec.scenario.files import Library
from simkit.spec.scenario.items import ScenarioCase

DAYS_LATER: Final = 401
"""The number of days by which the other process is later, for code with real time."""


class FirstRun(msgspec.Struct, frozen=True):
    """A scenario that ran, to be run a second time."""

    item: ScenarioCase
    digest: str


class SecondRun(msgspec.Struct, frozen=True):
    """The result of a second run."""

    digest: str
    lines: list[str] = []
    """The stored form, only if the digest differs."""
    error: str = ""


def other_hash_seed() -> str:
    """Return a PYTHONHASHSEED that is not this process's."""
    return "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"


def determinism_findings(
    pairs: Sequence[tuple[ScenarioCase, ScenarioRun]], seed: int | None, in_process: bool
) -> list[Finding | None]:
    """Return, for each scenario that ran, the finding that its second run differs.

    Raise SimkitError if the second process fails.
    """
    hash_seed = other_hash_seed()
    runs = [FirstRun(item, ran.result.digest) for item, ran in pairs]
    with start_worker(variables={"PYTHONHASHSEED": hash_seed}) as worker:
        try:
            answers: list[SecondRun] = worker.call(run_again, runs, seed, in_process, DAYS_LATER)
        except WorkerDied as death:
            problem = f"--verify: the second process ended {death.how}"
            raise SimkitError(problem) from None
    return [
        _difference(ran, answer, f"PYTHONHASHSEED={hash_seed}, {DAYS_LATER} days later")
        for (_, ran), answer in zip(pairs, answers, strict=True)
    ]


def _difference(ran: ScenarioRun, answer: SecondRun, how: str) -> Finding | None:
    from simkit.report.determinism import NOT_DETERMINISTIC, first_difference

    result = ran.result
    where = f"{result.file}:{result.line}:1"
    if answer.error:
        return Finding(
            NOT_DETERMINISTIC,
            "E",
            f"the second run ({how}) could not be made",
            where,
            context=tuple(answer.error.splitlines()),
        )
    if answer.digest == result.digest:
        return None
    return first_difference(ran.lines, [line.encode() for line in answer.lines], where, how)


# In the second process, and in its copies


def run_again(
    runs: Sequence[FirstRun], seed: int | None, in_process: bool, days_later: int
) -> list[SecondRun]:
    """Run scenarios again, those of code in a process of their own.

    The real clock is put forward by these days: `time` and `datetime`, for code of this process
    outside virtual time. Child processes have the real day, and so have libraries with their own
    clock in C, such as SQLite.
    """
    from datetime import timedelta

    from simkit.core.determinism.clocks import later

    with later(timedelta(days=days_later)):
        apps = [None if in_process else _app_of(first) for first in runs]
        with closing(OwnProcesses(app for app in apps if app is not None)) as processes:
            return [
                _second_run(processes, app, first, seed)
                for app, first in zip(apps, runs, strict=True)
            ]


def _app_of(first: FirstRun) -> App | None:
    with suppress(SimkitError):
        return app_of(_library().prepared(first.item))
    return None


def _second_run(
    processes: OwnProcesses, app: App | None, first: FirstRun, seed: int | None
) -> SecondRun:
    if app is None:
        return _run(first, seed)
    try:
        second: SecondRun = processes.call(app, _run, first, seed)
    except WorkerDied as death:
        return SecondRun("", error=f"its process ended {death.how}")
    return second


def _run(first: FirstRun, seed: int | None) -> SecondRun:
    try:
        trace = run(_library().prepared(first.item), seed=seed)
    except SimkitError as problem:
        return SecondRun("", error=str(problem))
    digest = trace.digest()
    if digest == first.digest:
        return SecondRun(digest)
    return SecondRun(digest, [line.decode() for line in trace.lines()])


@lru_cache(maxsize=1)
def _library() -> Library:
    """Return the files of this process, which copies of it have read, too."""
    return Library()
