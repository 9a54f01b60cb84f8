"""Many runs: scenarios in several processes, `replay -j`, and for many seeds, `--seeds`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import chain
from typing import Final, TypeVar

import msgspec

from simkit.checks.findings import Finding
from simkit.cli.console import Progress, fit_terminal, paint_for, wants_color
from simkit.cli.replay import ReplayOptions
from simkit.cli.running import Job, Runner, ScenarioRun
from simkit.cli.selection import SelectedEntry
from simkit.core.errors import SimkitError
from simkit.core.output import echo, echo_json, marks, share_marks
from simkit.core.text import counted, short
from simkit.language.yaml import DocumentCache
from simkit.report.results import Result
from simkit.session.workers import Pool, Worker, WorkerDied, start_worker

T = TypeVar("T")

BATCH_MAX: Final = 25
"""The largest number of scenarios that one process takes at once."""
BATCHES_EACH: Final = 4
"""The number of batches for each process, so that none waits long for a slow one."""
SIZE_MIN: Final = 300
"""The number of scenarios of declared pipelines from which processes take less time than one."""

MODULES: Final = (__name__,)
"""The modules of a process that runs scenarios."""


def pays(entries: Sequence[SelectedEntry], job: Job) -> bool:
    """Return whether several processes take less time than one.

    A scenario of a declared pipeline takes some milliseconds, so a few of them take less than
    starting processes. Code and real traffic may take any time.
    """
    is_declared = all(":" not in getattr(entry, "pipeline", "") for entry in entries)
    is_short = is_declared and job.recording is None and not job.pipeline
    return len(entries) >= (SIZE_MIN if is_short else 2)


def run_in_processes(
    entries: Sequence[SelectedEntry], job: Job, processes: int
) -> Iterator[ScenarioRun]:
    """Return the results of the entries, in order."""
    size = min(BATCH_MAX, -(-len(entries) // (processes * BATCHES_EACH)))
    batches = [entries[start : start + size] for start in range(0, len(entries), size)]
    return chain.from_iterable(results_of_batches(_run_batch, batches, job, processes))


def _run_batch(batch: Sequence[SelectedEntry], runner: Runner) -> list[ScenarioRun]:
    return [runner.run(entry) for entry in batch]


def results_of_batches(
    work: Callable[[Sequence[SelectedEntry], Runner], T],
    batches: Sequence[Sequence[SelectedEntry]],
    job: Job,
    processes: int,
) -> Iterator[T]:
    """Yield the result of ``work`` on each batch, in order.

    ``work`` is a function of a module; it also gets its process's runner.
    """
    with Pool(min(processes, len(batches)), start_marking_worker) as pool:
        try:
            yield from pool.in_order(_work, [(work, batch, job) for batch in batches])
        except WorkerDied:
            raise SimkitError(
                "-j: a process died while it ran scenarios\n"
                "  Run with -j 1 to see which one does it."
            ) from None


def start_marking_worker(modules: Sequence[str] = MODULES) -> Worker:
    """Start a worker whose texts have this process's marks, since this process prints them."""
    worker = start_worker(modules)
    worker.call(share_marks, marks())
    return worker


# In a worker


def _work(
    work: Callable[[Sequence[SelectedEntry], Runner], T], batch: Sequence[SelectedEntry], job: Job
) -> T:
    return work(batch, _runner(job))


@lru_cache(maxsize=1)
def _runner(job: Job) -> Runner:
    """Return this process's runner, which reads each file once for all its batches."""
    return Runner(job)


TITLE_MAX: Final = 160
"""The length of a finding's headline."""


class SeedFailure(msgspec.Struct, frozen=True):
    """One claim or lint that does not hold for some seeds."""

    id: str
    where: str
    what: str
    """The headline for the first seed."""
    count: int
    """The number of seeds for which it does not hold."""
    first_seed: int
    reproduce: str
    """The command that runs the first seed again."""


class SeedResult(msgspec.Struct, frozen=True):
    """One scenario over all seeds."""

    id: str
    file: str
    name: str
    outcome: str
    """``held``, ``failed``, ``broken`` or ``skipped``."""
    holds: int
    """The number of seeds for which everything holds."""
    seeds: int
    """The number of seeds for which it ran."""
    failures: tuple[SeedFailure, ...] = ()
    """The most frequent one first."""
    reason: str = ""
    """Why it is broken or skipped."""


def replay_seeds(call: ReplayOptions, count: int) -> int:
    """Run the selected scenarios for ``count`` seeds, print how often each holds.

    The first seed is that of ``--seed``, else 0. Return the exit code.
    """
    started = time.perf_counter()
    fit_terminal()
    cache = DocumentCache()
    selection = call.plan.selection(cache)
    if selection is None:
        return 0
    first = call.seed or 0
    seeds = range(first, first + count)
    job = msgspec.structs.replace(call, details="none", show="")
    progress = Progress(len(selection.entries))
    results = []
    try:
        for result in _results(selection.entries, job, seeds, call.plan.processes, cache, progress):
            results.append(result)
            if call.form != "json":
                progress.clear()
                _show(result, results[-2].file if len(results) > 1 else "", is_quiet=call.quiet)
    finally:
        progress.end()
    if call.form == "json":
        echo_json(msgspec.json.encode({"seeds": [*seeds], "scenarios": results}).decode())
    else:
        _finish(results, seeds, time.perf_counter() - started)
    outcomes = {result.outcome for result in results}
    return 2 if "broken" in outcomes else 1 if "failed" in outcomes else 0


def _results(
    entries: Sequence[SelectedEntry],
    job: Job,
    seeds: range,
    processes: int,
    cache: DocumentCache,
    progress: Progress,
) -> Iterator[SeedResult]:
    if processes == 1:
        runner = Runner(job, cache)
        for entry in entries:
            progress.begin(f"{entry.name or entry.file}, for {counted(len(seeds), 'seed')}")
            yield result_over(runner, entry, seeds)
        return

    work = partial(_run_for_seeds, seeds=seeds)
    for batch in results_of_batches(work, [[entry] for entry in entries], job, processes):
        yield from batch


def _run_for_seeds(
    batch: Sequence[SelectedEntry], runner: Runner, seeds: range
) -> list[SeedResult]:
    return [result_over(runner, entry, seeds) for entry in batch]


def result_over(runner: Runner, entry: SelectedEntry, seeds: Sequence[int]) -> SeedResult:
    """Run one scenario for each seed; it ends when the scenario cannot be run at all."""
    holds = ran = 0
    counts: dict[tuple[str, str, str], int] = {}
    first: dict[tuple[str, str, str], tuple[Result, Finding, int]] = {}
    for seed in seeds:
        result = runner.run(entry, seed).result
        if result.outcome in ("skipped", "broken"):
            why = result.reason or result.error or "\n".join(f.what for f in result.findings)
            return SeedResult(
                result.id, result.file, result.name, result.outcome, holds, ran, (), why
            )
        ran += 1
        holds += not result.failed
        keys = {(finding.id, finding.where, finding.agent): finding for finding in result.findings}
        if result.failed:
            for key, finding in keys.items():
                counts[key] = counts.get(key, 0) + 1
                first.setdefault(key, (result, finding, seed))
        if result.failed and not keys:
            raise AssertionError(f"{result.id} fails without a finding")
    failures = [
        SeedFailure(finding.id, finding.where, finding.what, counts[key], seed, result.reproduce)
        for key, (result, finding, seed) in first.items()
    ]
    failures.sort(key=lambda failure: -failure.count)
    outcome = "held" if holds == ran else "failed"
    return SeedResult(result.id, result.file, result.name, outcome, holds, ran, tuple(failures))


def _show(result: SeedResult, file_before: str, *, is_quiet: bool) -> None:
    if is_quiet and result.outcome in ("held", "skipped"):
        return
    paint = paint_for(wants_color())
    if result.file != file_before:
        echo(paint(result.file, "strong"))
    words = {"held": "ok", "failed": "FAILED", "broken": "BROKEN", "skipped": "skipped"}
    word = paint(f"{words[result.outcome]:<7}", "good" if result.outcome == "held" else "bad")
    if result.outcome in ("broken", "skipped"):
        echo(f"  {word} {result.name}: {result.reason}")
        return
    echo(f"  {word} {result.name}: held for {result.holds} of {counted(result.seeds, 'seed')}")
    for failure in result.failures:
        label = "" if failure.id == "claim" else f"{failure.id}: "
        echo(
            f"    {failure.count} of {result.seeds}: {failure.where}: "
            f"{label}{short(failure.what, TITLE_MAX)}"
        )
        echo(f"      {failure.reproduce}")


def _finish(results: Sequence[SeedResult], seeds: range, took: float) -> None:
    by_outcome = [
        f"{count} {word}"
        for outcome, word in (
            ("held", "held"), ("failed", "failed"), ("broken", "broken"), ("skipped", "skipped"),
        )
        if (count := sum(result.outcome == outcome for result in results))
    ]  # fmt: skip
    echo(
        f"\n{counted(len(results), 'scenario')}, seeds {seeds[0]} to {seeds[-1]}: "
        f"{', '.join(by_outcome)} ({took:.2f} s)"
    )
