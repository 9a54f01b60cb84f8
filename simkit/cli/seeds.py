"""Implementation of ``simkit replay --seeds``: each scenario is run for many seeds."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

import msgspec

from simkit.checks.findings import Finding
from simkit.cli.console import Progress, fit_terminal, paint_for, wants_color
from simkit.cli.replay import ReplayOptions
from simkit.cli.running import Job, Runner, Runs
from simkit.cli.selection import SelectedEntry
from simkit.core.output import echo, echo_json
from simkit.core.text import counted, short
from simkit.language.yaml import DocumentCache
from simkit.report.results import OutcomeName, Result
from simkit.report.text import OUTCOME_WORDS

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
    outcome: OutcomeName
    """``held``, ``failed``, ``broken`` or ``skipped``."""
    holds: int
    """The number of seeds for which everything holds."""
    seeds: int
    """The number of seeds for which it ran."""
    failures: tuple[SeedFailure, ...] = ()
    """The most frequent one first."""
    reason: str = ""
    """Why it is broken or skipped."""


def replay_seeds(options: ReplayOptions, count: int) -> int:
    """Run the selected scenarios for ``count`` seeds, print how often each holds.

    The first seed is that of ``--seed``, else 0. Return the exit code.
    """
    started = time.perf_counter()
    fit_terminal()
    cache = DocumentCache()
    selection = options.plan.selection(cache)
    if selection is None:
        return 0
    first = options.seed or 0
    seeds = range(first, first + count)
    job = msgspec.structs.replace(options, details="none", show="")
    results = []
    with Progress(len(selection.entries)) as progress:
        for result in _results(options, job, selection.entries, seeds, cache, progress):
            results.append(result)
            if options.form != "json":
                progress.clear()
                _show(result, results[-2].file if len(results) > 1 else "", is_quiet=options.quiet)
    if options.form == "json":
        echo_json(msgspec.json.encode({"seeds": [*seeds], "scenarios": results}).decode())
    else:
        _finish(results, seeds, time.perf_counter() - started)
    outcomes = {result.outcome for result in results}
    return 2 if "broken" in outcomes else 1 if "failed" in outcomes else 0


def _results(
    options: ReplayOptions,
    job: Job,
    entries: Sequence[SelectedEntry],
    seeds: range,
    cache: DocumentCache,
    progress: Progress,
) -> Iterator[SeedResult]:
    done = 0
    with options.plan.start(entries, job, cache) as runs:
        _say_next(progress, entries, done, seeds)
        for batch in runs.results(partial(_run_batch, seeds=seeds)):
            done += len(batch)
            _say_next(progress, entries, done, seeds)
            yield from batch


def _say_next(
    progress: Progress, entries: Sequence[SelectedEntry], done: int, seeds: range
) -> None:
    if done < len(entries):
        entry = entries[done]
        progress.begin(f"{entry.name or entry.file}, for {counted(len(seeds), 'seed')}")


def _run_batch(
    batch: Sequence[SelectedEntry], runner: Runner | Runs, seeds: range
) -> list[SeedResult]:
    return [result_over(runner, entry, seeds) for entry in batch]


def result_over(runner: Runner | Runs, entry: SelectedEntry, seeds: Sequence[int]) -> SeedResult:
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
    outcome: OutcomeName = "held" if holds == ran else "failed"
    return SeedResult(result.id, result.file, result.name, outcome, holds, ran, tuple(failures))


def _show(result: SeedResult, file_before: str, *, is_quiet: bool) -> None:
    if is_quiet and result.outcome in ("held", "skipped"):
        return
    paint = paint_for(wants_color())
    if result.file != file_before:
        echo(paint(result.file, "strong"))
    name, tone = OUTCOME_WORDS[result.outcome]
    word = paint(f"{name:<7}", tone)
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
        f"{count} {outcome}"
        for outcome in ("held", "failed", "broken", "skipped")
        if (count := sum(result.outcome == outcome for result in results))
    ]
    echo(
        f"\n{counted(len(results), 'scenario')}, seeds {seeds[0]} to {seeds[-1]}: "
        f"{', '.join(by_outcome)} ({took:.2f} s)"
    )
