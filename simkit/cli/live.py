"""Implementation of ``simkit live``: run scenarios with real models, and count what holds."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from simkit.capture.http.providers import client_modules
from simkit.cli import live_report
from simkit.cli.console import Progress, output_to_stderr
from simkit.cli.init.files import write_new
from simkit.cli.plan import RunPlan, cases_at
from simkit.cli.selection import keyword
from simkit.core.errors import SimkitError, SourceError
from simkit.core.output import echo, echo_json, marks, share_marks
from simkit.core.text import counted
from simkit.explore.live_simulations import LiveSimulation, check_tools
from simkit.explore.subjects import simulation_subject
from simkit.language.yaml import DocumentCache
from simkit.session.execution.applications import OwnProcesses
from simkit.session.execution.own_process import app_of
from simkit.session.live.scripted_words import claim_units
from simkit.session.live.trials import LiveSubject, live_scenario, replays, run_trial
from simkit.session.workers import WorkerDied
from simkit.spec.pipeline.model import Pipeline
from simkit.spec.pipeline.models import ModelOptions, PriceTable, prices_in
from simkit.spec.scenario import items as scenario_items
from simkit.spec.scenario.files import Library
from simkit.update.files import CI_VARIABLE, is_ci

PRICES_FILE: Final = "prices.yaml"
"""The file of prices that is read if the command names none."""
K: Final = 3
"""The number of runs of pass@k and pass^k if the user says none."""
_ROUNDING: Final = 1e-9
"""US dollars by which sums of costs may be off."""
_CUT_SHORT: Final = "cut short: calls of runs that did not end are in no number above"


class LiveOptions(RunPlan, frozen=True, kw_only=True):
    """The user's options."""

    runs: int
    budget_usd: float | None
    timeout_s: float
    """The seconds after which a run is ended."""
    prices: str
    """A file of prices; empty for the default file, if there is one."""
    first_turn: int
    all_claims: bool
    """Whether claims are judged that only the script can keep."""
    k: int | None
    """The user's number of runs of pass@k and pass^k; None without one."""
    folder: str
    """Where failed runs are kept."""
    fail_under: float
    form: str
    force: bool


class _Task(msgspec.Struct, frozen=True, kw_only=True):
    """One run, or the replay of a failed one, for a process of its own."""

    scenario_index: int
    """The index of its scenario."""
    item: scenario_items.ScenarioCase
    number: int
    options: LiveOptions
    prices: PriceTable
    stem: str
    """The name of its files, without endings."""
    allowance_usd: float | None
    now: str
    failed: live_report.FinishedRun | None = None
    """The failed run whose files are replayed; None for a run with real models."""


def live(options: LiveOptions) -> int:
    """Run the selected scenarios live, and report; return the exit code."""
    _refuse_in_ci(options.force)
    _check_options(options)
    prices = _prices(options)
    library, scenarios, skipped = Library(DocumentCache()), list[live_report.ScenarioRuns](), []
    items = _items(options, library.cache)
    for item in items:
        plan = _plan(library, item, options)
        prepared = plan.prepared
        if prepared.skip is not None:
            skipped.append((item.id, prepared.skip))
            continue
        _check_models(plan, prices, options)
        scenarios.append(live_report.ScenarioRuns(item.id, item.name, item.file, plan, []))
    chosen = [item for item in items if item.id in {runs.id for runs in scenarios}]
    campaign = _Campaign(options, prices, scenarios, chosen)
    try:
        end = campaign.run()
    except (KeyboardInterrupt, SimkitError):
        # The runs so far cost money.
        if campaign.has_ended:
            _print(options, campaign.report(_CUT_SHORT, skipped))
        raise
    report = campaign.report(end, skipped)
    _print(options, report)
    return exit_code(report, options.fail_under)


def _refuse_in_ci(is_forced: bool) -> None:
    if is_ci(os.environ) and not is_forced:
        raise SimkitError(
            f"simkit live sends real requests, which cost money, and is refused in CI "
            f"({CI_VARIABLE} is set)\n  --force runs it there."
        )


def _check_options(options: LiveOptions) -> None:
    """Raise SimkitError for what would be found out only after runs that cost money."""
    if options.k is not None and options.k > options.runs:
        raise SimkitError(
            f"--k {options.k}: pass@{options.k} needs at least {counted(options.k, 'run')}, and "
            f"--runs is {options.runs}\n  Ask for more with --runs {options.k}."
        )
    above = Path(options.folder)
    while not os.path.lexists(above):
        above = above.parent
    if not above.is_dir():
        raise SimkitError(f"--to {options.folder}: {above} is a file\n  Name a folder.")
    if not os.access(above, os.W_OK):
        raise SimkitError(f"--to {options.folder}: the folder {above} cannot be written to")


def _prices(options: LiveOptions) -> PriceTable:
    """Return the price table; raise SimkitError if a budget is given and there is none."""
    if options.prices:
        return prices_in(options.prices)
    if Path(PRICES_FILE).is_file():
        return prices_in(PRICES_FILE)
    if options.budget_usd is not None:
        raise SimkitError(
            "--budget-usd needs the prices of the models, and there is no file of prices\n"
            f"  Write `{PRICES_FILE}` here, or name a file with --prices:\n"
            "  prices: {gpt-5-mini: {input: 0.25, output: 2.0}}\n"
            "  in US dollars for a million tokens, as your provider's page lists them."
        )
    return PriceTable()


def _items(options: LiveOptions, cache: DocumentCache) -> list[scenario_items.ScenarioCase]:
    """Return the selected scenarios; raise SimkitError if there are none, or one is broken."""
    named = [
        path
        for path in options.paths
        if scenario_items.parted(path)[0].endswith(scenario_items.SIMULATION_SUFFIX)
    ]
    items = [item for path in named for item in _simulations(path, options.expression, cache)]
    paths = [path for path in options.paths if path not in named]
    items += cases_at(paths, cache, options.expression)
    if not items:
        fits = f" that fits -k {options.expression!r}" if options.expression else ""
        advice = "" if fits else "Scenarios are in files named *.scenario.yaml."
        raise SourceError(", ".join(options.paths), f"there is no scenario{fits}", advice=advice)
    return items


def _simulations(
    path: str, expression: str, cache: DocumentCache
) -> Iterator[scenario_items.ScenarioCase]:
    """Yield the simulations of a file, or the one that is named; raise SimkitError."""
    file, name = scenario_items.parted(path)
    if not Path(file).is_file():
        raise scenario_items.missing(file)
    cases = scenario_items.simulations_in(file, cache)
    if name:
        cases = scenario_items.items_named(file, cases, name)
    fits = keyword(expression) if expression else None
    yield from (case for case in cases if fits is None or fits(case.id))


def _plan(
    library: Library, item: scenario_items.ScenarioCase, options: LiveOptions, number: int = 1
) -> LiveSubject:
    """Return a scenario, or the simulation's run of this number, as it is run live."""
    if item.file.endswith(scenario_items.SIMULATION_SUFFIX):
        if options.first_turn > 1:
            raise SimkitError(
                f"--from {options.first_turn}: {item.id} is a simulation, which has no turns"
            )
        subject = simulation_subject(library, item, is_live=True)
        check_tools(subject)
        return LiveSimulation(subject, number)
    prepared = library.prepared(item)
    turns = len(prepared.scenario.turns)
    if options.first_turn > turns:
        raise SimkitError(
            f"--from {options.first_turn}: {prepared.item.id} has {counted(turns, 'turn')}"
        )
    units = claim_units(prepared, options.first_turn)
    if options.all_claims:
        units = [msgspec.structs.replace(unit, why_left_out="") for unit in units]
    return live_scenario(prepared, units, options.first_turn)


def _check_models(plan: LiveSubject, prices: PriceTable, options: LiveOptions) -> None:
    """Raise SimkitError if no model can answer, or a budget cannot be kept."""
    prepared, pipeline = plan.prepared, plan.prepared.pipeline
    if not isinstance(pipeline, Pipeline):
        if pipeline.program:
            raise prepared.document.error(
                ("pipeline",),
                "the pipeline is a program of its own, which is not run live: its requests come to "
                "simkit's own server, which forwards nothing",
            )
    elif not pipeline.models:
        raise prepared.pipeline_document.error(
            ("pipeline",),
            "the pipeline names no models, so nothing can answer a live run",
            advice="Add `models: {default: openai/gpt-5-mini}` to it.",
        )
    names = dict.fromkeys(model.name for model in _models_of(plan))
    unknown = [name for name in names if prices.price_of(name) is None]
    if unknown and options.budget_usd is not None:
        raise SimkitError(
            f"--budget-usd: the price of {', '.join(f'`{name}`' for name in unknown)} is not "
            f"known\n  Add it to {options.prices or PRICES_FILE}: "
            f"`{unknown[0]}: {{input: …, output: …}}`, in US dollars for a million tokens."
        )


def _models_of(plan: LiveSubject) -> list[ModelOptions]:
    """Return the models that a run asks: those of the pipeline, its judge and its users."""
    pipeline, judge = plan.prepared.pipeline, plan.prepared.scenario.judge
    models = [*pipeline.models.values()] if isinstance(pipeline, Pipeline) else []
    if judge is not None and plan.prepared.scenario.asks_judge:
        models.append(judge)
    return [*models, *plan.user_models]


class _Campaign:
    """All runs of a command, in processes of their own, within the budget."""

    def __init__(
        self,
        options: LiveOptions,
        prices: PriceTable,
        scenarios: Sequence[live_report.ScenarioRuns],
        items: Sequence[scenario_items.ScenarioCase],
    ) -> None:
        self._options, self._prices = options, prices
        self._scenarios, self._items = scenarios, items
        self._stems = live_report.unique_stems([scenario.name for scenario in scenarios])
        places = range(len(scenarios))
        # Each scenario has its first run before any has its second: a budget cuts all alike.
        self._waiting = deque((index, n + 1) for n in range(options.runs) for index in places)
        self._unchecked = deque[_Task]()
        """Failed runs whose files are to be replayed."""
        self._running = 0
        """The number of runs that now ask models."""
        self._spent = self._dearest = self._reserved = 0.0
        self.has_ended = False
        """Whether a run has ended."""
        self._end = ""

    def report(self, end: str, skipped: Sequence[tuple[str, str]]) -> live_report.LiveReport:
        """Return the report of the runs so far."""
        return live_report.LiveReport(
            scenarios=self._scenarios,
            k=self._options.k or min(K, self._options.runs),
            runs_requested=self._options.runs * len(self._scenarios),
            skipped=skipped,
            budget_usd=self._options.budget_usd,
            end=end,
        )

    def run(self) -> str:
        """Make the runs; return why they ended before all were made, or an empty text."""
        total = len(self._waiting)
        tasks: dict[Future[live_report.FinishedRun], _Task] = {}
        apps = [app_of(scenario.live.prepared) for scenario in self._scenarios]
        models = [model for each in self._scenarios for model in _models_of(each.live)]
        clients = client_modules(model.protocol for model in models) if None in apps else None
        # No run may find what another one has left in modules.
        own = OwnProcesses(
            [app for app in apps if app], keeps_keys=True, modules=clients,
            silence_s=self._options.timeout_s,
        )  # fmt: skip
        threads = ThreadPoolExecutor(self._options.processes)
        with Progress() as progress, threads, closing(own):
            while True:
                while len(tasks) < self._options.processes and (task := self._next_task()):
                    app = apps[task.scenario_index]
                    tasks[threads.submit(own.call, app, _do_task, task, marks())] = task
                if not tasks:
                    return self._end
                ended = sum(len(scenario.finished) for scenario in self._scenarios)
                progress.begin(f"{ended} of {total} runs, ${self._spent:.2f} spent")
                wait(tasks, return_when=FIRST_COMPLETED)
                done = next(future for future in tasks if future.done())
                task = tasks.pop(done)
                self._take(task, _result(done, task))

    def _next_task(self) -> _Task | None:
        """Return the next task; None if none may start now."""
        if self._unchecked:
            return self._unchecked.popleft()
        if not self._may_start():
            return None
        index, number = self._waiting.popleft()
        task = self._task(index, number)
        self._running += 1
        return task

    @property
    def _left_usd(self) -> float:
        """Return the part of the budget that is neither spent nor reserved for running runs."""
        assert self._options.budget_usd is not None
        return self._options.budget_usd - self._spent - self._reserved

    def _may_start(self) -> bool:
        """Return whether a run starts now: as much as the dearest run so far cost must be left."""
        budget = self._options.budget_usd
        if not self._waiting or self._end:
            return False
        if budget is None:
            return True
        if not self.has_ended:
            return self._running == 0
        if self._left_usd >= self._dearest - _ROUNDING:
            return True
        if not self._running:
            self._end = (
                f"stopped at the budget: ${self._spent:.4f} of ${budget:.4f} is spent, and the "
                f"dearest run cost ${self._dearest:.4f}; "
                f"{counted(len(self._waiting), 'run')} not made"
            )
        return False

    def _allowance(self) -> float | None:
        """Return what the next run may spend; all runs together cannot exceed the budget."""
        if self._options.budget_usd is None:
            return None
        if not self.has_ended:
            return self._left_usd
        # A dear run stops no other one that could start beside it.
        free = max(self._options.processes - self._running, 1)
        return max(self._dearest, self._left_usd / free)

    def _task(self, index: int, number: int) -> _Task:
        allowance = self._allowance()
        self._reserved += allowance or 0
        return _Task(
            scenario_index=index,
            item=self._items[index],
            number=number,
            options=self._options,
            prices=self._prices,
            stem=self._stems[index],
            allowance_usd=allowance,
            now=datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        )

    def _take(self, task: _Task, finished: live_report.FinishedRun) -> None:
        runs = self._scenarios[task.scenario_index].finished
        if task.failed is not None:
            runs[runs.index(task.failed)] = finished
            return
        if finished.trial.problem and not any(not run.trial.problem for run in runs):
            # A scenario whose runs all break off is wrong, and would only cost money.
            raise SimkitError(finished.trial.problem)
        runs.append(finished)
        self._running -= 1
        self._reserved -= task.allowance_usd or 0
        if finished.file:
            self._unchecked.append(msgspec.structs.replace(task, failed=finished))
        trial = finished.trial
        cost = live_report.total_cost(trial.calls)
        self.has_ended = True
        if cost is None:
            if self._options.budget_usd is not None:
                self._end = (
                    "stopped: the provider did not say how many tokens a call took, so that the "
                    "budget cannot be kept; a streamed request must ask for them "
                    "(`stream_options: {include_usage: true}`)"
                )
            return
        self._spent += cost
        self._dearest = max(self._dearest, cost)


def _result(done: Future[live_report.FinishedRun], task: _Task) -> live_report.FinishedRun:
    """Return a run that ended; raise the SimkitError of its process."""
    try:
        return done.result()
    except WorkerDied as death:
        run = f"run {task.number} of {task.item.id}"
        if death.silent_s is not None:
            raise SimkitError(
                f"{run} took longer than {death.silent_s:g} s, and was ended\n"
                "  The provider or the code hangs. --timeout SECONDS allows more time."
            ) from None
        raise SimkitError(f"-j: the process of {run} died (exit code {death.code})") from None


def _do_task(task: _Task, number: str) -> live_report.FinishedRun:
    """Make one run in this process, or replay one; ``number`` is that of the command's marks."""
    share_marks(number)
    with output_to_stderr():
        if task.failed is None:
            return _run(task)
        is_replayed = replays(Path(task.failed.file), task.failed.trial)
        return msgspec.structs.replace(task.failed, is_replayed=is_replayed)


def _run(task: _Task) -> live_report.FinishedRun:
    """Run a scenario with real models, and keep the run if it failed."""
    options = task.options
    plan = _plan(Library(DocumentCache()), task.item, options, task.number)
    files = live_report.free_files(Path(options.folder), f"{task.stem}-{task.number}")
    trial, text = run_trial(
        plan,
        files,
        task.prices,
        allowance_usd=task.allowance_usd,
        needs_prices=options.budget_usd is not None,
        now=task.now,
    )
    if not text:
        return live_report.FinishedRun(number=task.number, trial=trial)
    try:
        files.scenario.parent.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise SimkitError(f"{options.folder}: it cannot be made: {problem.strerror}") from None
    if not write_new(files.scenario, text):
        raise SimkitError(f"{files.scenario}: there is such a file, and nothing is overwritten")
    return live_report.FinishedRun(number=task.number, trial=trial, file=str(files.scenario))


def _print(options: LiveOptions, report: live_report.LiveReport) -> None:
    if options.form == "json":
        from simkit import __version__

        echo_json(live_report.report_json(report, __version__))
        return
    for line in live_report.report_lines(report):
        echo(line)


def exit_code(report: live_report.LiveReport, fail_under: float) -> int:
    """Return 1 if a scenario passed in fewer runs than asked for, or in none that was made."""
    rates = [scenario.rate for scenario in report.scenarios]
    below = any(not rate.runs or rate.passes * 100 < fail_under * rate.runs for rate in rates)
    return int(below)
