"""The report of ``simkit live``: rates, calls, tokens, cost and latency, as text and as JSON."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from tabulate import tabulate

from simkit.core.text import counted, shell_word, short
from simkit.session.live.meter import CacheUse, ModelCallFacts, Rate, percentile
from simkit.session.live.scripted_words import ClaimUnit
from simkit.session.live.trials import LiveSubject, ReplayFiles, Trial
from simkit.spec.scenario.items import SCENARIO_SUFFIX

FORMAT: Final = 1
"""The version of the JSON."""
LABEL_MAX: Final = 72
TEXT_MAX: Final = 140


class FinishedRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run that ended, and the file that replays it."""

    number: int
    """Its number among the runs of its scenario, from 1."""
    trial: Trial
    file: str = ""
    """The scenario that replays it, if it failed and could be kept."""
    is_replayed: bool | None = None
    """Whether that scenario fails with the same findings, offline; None if it was not tried."""


class ScenarioRuns(msgspec.Struct, frozen=True):
    """All runs of one scenario."""

    id: str
    name: str
    file: str
    live: LiveSubject
    finished: list[FinishedRun]

    @property
    def complete(self) -> list[FinishedRun]:
        """Return the runs that ended by themselves, by number."""
        runs = [run for run in self.finished if not run.trial.is_stopped]
        return sorted(runs, key=lambda run: run.number)

    @property
    def rate(self) -> Rate:
        """Return how many runs held as a whole."""
        return Rate(sum(run.trial.passed for run in self.complete), len(self.complete))

    @property
    def faults(self) -> Counter[str]:
        """Return how often each drawn fault took place."""
        return Counter(name for run in self.complete for name in run.trial.faults)

    def rate_of(self, unit: ClaimUnit) -> Rate:
        """Return how many runs kept a claim, of those that could be judged."""
        trials = [run.trial for run in self.complete if unit.path not in run.trial.unseen]
        return Rate(sum(unit.path not in trial.unheld for trial in trials), len(trials))

    def rates(self) -> Iterator[tuple[str, Rate]]:
        """Yield the rate of the whole scenario, of each claim, and of runs without a finding."""
        yield f"the whole {self.live.noun}", self.rate
        for unit in self.live.judged:
            yield unit.label, self.rate_of(unit)
        trials = [run.trial for run in self.complete]
        for name in dict.fromkeys(name for trial in trials for name in trial.others):
            passes = sum(name not in trial.others for trial in trials)
            yield f"not: {name}", Rate(passes, len(trials))


class LiveReport(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a command ran."""

    scenarios: Sequence[ScenarioRuns]
    k: int
    """The number of runs of pass@k and pass^k."""
    runs_requested: int
    """The number of runs that were asked for."""
    skipped: Sequence[tuple[str, str]] = ()
    """Scenarios that were not run, each with the reason."""
    budget_usd: float | None = None
    end: str = ""
    """Why it ended before all runs; empty if it did not."""

    @property
    def trials(self) -> list[Trial]:
        """Return all runs, stopped ones too."""
        return [run.trial for scenario in self.scenarios for run in scenario.finished]

    @property
    def calls(self) -> list[ModelCallFacts]:
        """Return the model calls of all runs, without those of simulated users."""
        return [call for trial in self.trials for call in trial.calls if not call.is_of_user]

    @property
    def user_calls(self) -> list[ModelCallFacts]:
        """Return the calls of simulated users' models in all runs."""
        return [call for trial in self.trials for call in trial.calls if call.is_of_user]


def total_cost(calls: Sequence[ModelCallFacts]) -> float | None:
    """Return the cost of calls in US dollars; None if that of one is not known."""
    return _total([call.cost_usd if call.status < 400 else 0.0 for call in calls])


def report_lines(report: LiveReport) -> Iterator[str]:
    """Yield the report as text."""
    for scenario in report.scenarios:
        yield from _scenario_lines(scenario, report.k)
        yield ""
    for identity, reason in report.skipped:
        yield f"skipped: {identity}: {reason}"
    yield f"{counted(len(report.trials), 'run')}, {_calls_text(report.calls)}"
    if report.user_calls:
        yield f"users: {_calls_text(report.user_calls)}"
    yield from _cache_lines(report)
    if report.calls:
        yield _time_line(report)
    if report.end:
        yield report.end


def _scenario_lines(scenario: ScenarioRuns, k: int) -> Iterator[str]:
    yield scenario.id
    rows = [_cells(label, rate, k) for label, rate in scenario.rates()]
    heads = ["claim", "passed", "rate", "95 % interval", f"pass@{k}", f"pass^{k}"]
    align = ("left", "right", "right", "right", "right", "right")
    for line in tabulate(rows, heads, disable_numparse=True, colalign=align).splitlines():
        yield f"  {line}".rstrip()
    if scenario.faults:
        yield f"  faults: {', '.join(f'{name} {n}' for name, n in scenario.faults.items())}"
    yield from (f"  left out: {note}" for note in scenario.live.notes)
    left_out = [unit for unit in scenario.live.units if unit.why_left_out]
    if left_out:
        yield f"  left out: {counted(len(left_out), 'claim')} that only the script can keep"
        for unit in left_out:
            yield f"    {unit.label}: {unit.why_left_out}"
    for run in scenario.complete:
        if not run.trial.passed:
            yield from _failed_lines(run)


def _cells(label: str, rate: Rate, k: int) -> list[str]:
    low, high = rate.interval
    cells = [short(label, LABEL_MAX), f"{rate.passes} of {rate.runs}"]
    if not rate.runs:
        return [*cells, "", "", "", ""]
    cells += [_percent(rate.share), f"{_percent(low)} to {_percent(high)}"]
    is_enough = rate.runs >= k
    return [*cells, *(_percent(p(k)) if is_enough else "" for p in (rate.any_of, rate.all_of))]


def _percent(share: float) -> str:
    """Return a share in percent; only a certain one is 0 % or 100 %."""
    percent = round(share * 100)
    if percent in (0, 100) and share not in (0.0, 1.0):
        return "< 1 %" if percent == 0 else "> 99 %"
    return f"{percent} %"


def _failed_lines(run: FinishedRun) -> Iterator[str]:
    first, *rest = run.trial.texts
    more = f" (and {counted(len(rest), 'more finding')})" if rest else ""
    yield f"  run {run.number} failed: {short(first, TEXT_MAX)}{more}"
    if run.trial.unsaved:
        yield f"    not kept: {short(run.trial.unsaved, TEXT_MAX)}"
    elif run.file:
        yield f"    simkit replay {shell_word(str(run.file))}"
        if run.is_replayed is False:
            yield "    The offline replay differs: the code's requests are not deterministic."


def _calls_text(calls: Sequence[ModelCallFacts]) -> str:
    """Return the number of calls, their tokens and their cost."""
    sums = [
        sum(getattr(call.usage, name) or 0 for call in calls)
        for name in ("input_tokens", "output_tokens")
    ]
    is_known = all(call.usage.input_tokens is not None for call in calls)
    tokens = f"{sums[0]:,} tokens in, {sums[1]:,} out" if is_known else "tokens not known"
    cost = total_cost(calls)
    price = "cost not known" if cost is None else f"${cost:.4f}"
    return f"{counted(len(calls), 'model call')}: {tokens}, {price}"


def _cache_lines(report: LiveReport) -> Iterator[str]:
    use = CacheUse.total(trial.cache for trial in report.trials)
    if not use.calls:
        return
    price = f", which cost ${use.lost_usd:.4f} more" if use.lost_usd else ""
    yield (
        f"prompt caches: {counted(use.calls, 'call')} could reuse {use.expected:,} tokens at least "
        f"(an estimate), the providers reused {use.read:,}{price}"
    )


def _time_line(report: LiveReport) -> str:
    calls = [call.milliseconds / 1_000 for call in report.calls]
    runs = [trial.seconds for trial in report.trials]
    return f"a call took {_spread(calls)}, a run {_spread(runs)}"


def _spread(seconds: Sequence[float]) -> str:
    median, late = percentile(seconds, 0.5), percentile(seconds, 0.95)
    return f"{median:.2f} s (median), {late:.2f} s (p95)"


def report_json(report: LiveReport, version: str) -> str:
    """Return the report as JSON; times are in seconds, costs in US dollars."""
    return json.dumps(
        {
            "version": FORMAT,
            "simkit": version,
            "runs": len(report.trials),
            "requested": report.runs_requested,
            "end": report.end,
            "budget_usd": report.budget_usd,
            **_sums(report.calls),
            **({"users": _sums(report.user_calls)} if report.user_calls else {}),
            "scenarios": [_scenario_json(scenario, report.k) for scenario in report.scenarios],
            "skipped": [{"id": name, "reason": reason} for name, reason in report.skipped],
        },
        indent=2,
        ensure_ascii=False,
    )


def _sums(calls: Sequence[ModelCallFacts]) -> dict[str, Any]:
    seconds = [call.milliseconds / 1_000 for call in calls]
    return {
        "model_calls": len(calls),
        "input_tokens": _total([call.usage.input_tokens for call in calls]),
        "output_tokens": _total([call.usage.output_tokens for call in calls]),
        "cost_usd": total_cost(calls),
        "call_seconds": {
            "median": percentile(seconds, 0.5) if seconds else None,
            "p95": percentile(seconds, 0.95) if seconds else None,
        },
    }


def _total(numbers: Sequence[float | None]) -> float | None:
    """Return the sum of numbers; None if one is not known."""
    given = [number for number in numbers if number is not None]
    return sum(given) if len(given) == len(numbers) else None


def _scenario_json(scenario: ScenarioRuns, k: int) -> dict[str, Any]:
    rates = list(scenario.rates())
    return {
        "id": scenario.id,
        **_rate_json(rates[0][1], k),
        "claims": [{"claim": label, **_rate_json(rate, k)} for label, rate in rates[1:]],
        "left_out": [
            {"claim": unit.label, "reason": unit.why_left_out}
            for unit in scenario.live.units
            if unit.why_left_out
        ],
        "notes": list(scenario.live.notes),
        "faults": scenario.faults,
        "runs": [_run_json(run) for run in sorted(scenario.finished, key=lambda r: r.number)],
    }


def _rate_json(rate: Rate, k: int) -> dict[str, Any]:
    is_enough = rate.runs >= k
    return {
        "held": rate.passes,
        "judged": rate.runs,
        "rate": rate.share if rate.runs else None,
        "interval": list(rate.interval),
        "k": k,
        "pass_at_k": rate.any_of(k) if is_enough else None,
        "pass_hat_k": rate.all_of(k) if is_enough else None,
    }


def _run_json(run: FinishedRun) -> dict[str, Any]:
    trial = run.trial
    user_calls = [call for call in trial.calls if call.is_of_user]
    return {
        "run": run.number,
        "held": trial.passed,
        "stopped": trial.is_stopped,
        "findings": list(trial.texts),
        "faults": list(trial.faults),
        "seconds": trial.seconds,
        **_sums([call for call in trial.calls if not call.is_of_user]),
        **({"users": _sums(user_calls)} if user_calls else {}),
        **({"prompt_caches": msgspec.structs.asdict(trial.cache)} if trial.cache.calls else {}),
        "scenario": run.file or None,
        "replays": run.is_replayed if run.file else None,
        "not_kept": trial.unsaved or None,
    }


STEM_MAX: Final = 60
"""The longest name of a kept file in characters, without its number and endings."""
STEM_BYTES_MAX: Final = 150
"""The same in bytes of UTF-8: file systems take 255, and a file is first written beside its place
under a longer name."""


def unique_stems(names: Sequence[str]) -> list[str]:
    """Return a name for the files of each scenario, all different."""
    stems: list[str] = []
    for scenario_name in names:
        name = re.sub(r"[^\w-]+", "-", scenario_name.lower()).strip("-")[:STEM_MAX]
        stem = name.encode()[:STEM_BYTES_MAX].decode(errors="ignore") or "scenario"
        count = 2
        unique = stem
        while unique in stems:
            unique, count = f"{stem}-{count}", count + 1
        stems.append(unique)
    return stems


def free_files(folder: Path, stem: str) -> ReplayFiles:
    """Return names of files that do not exist yet."""
    count, unique = 2, stem
    while True:
        scenario = folder / f"{unique}{SCENARIO_SUFFIX}"
        cassette = folder / "cassettes" / f"{unique}.yaml"
        if not os.path.lexists(scenario) and not os.path.lexists(cassette):
            return ReplayFiles(scenario, cassette)
        unique, count = f"{stem}-{count}", count + 1
