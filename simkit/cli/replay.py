"""Implementation of ``simkit replay``: select, run, print, verify, record, count.

Modules for an option are imported where the option is obeyed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from simkit.checks.findings import Finding
from simkit.cli.console import Progress, fit_terminal, paint_for, table_width, wants_color
from simkit.cli.plan import KeptRun, RunPlan
from simkit.cli.running import Job, ScenarioRun
from simkit.cli.selection import DEFAULT_PATH, SelectedEntry, Selection
from simkit.core.answers import current_answer
from simkit.core.errors import SimkitError
from simkit.core.output import echo, echo_commands, echo_json
from simkit.core.stopping import stop_in
from simkit.core.text import counted
from simkit.language.yaml import DocumentCache
from simkit.report.results import OutcomeName, Result, lints_off, skips, summary_of
from simkit.report.table import TABLE_WIDTH
from simkit.report.text import findings_text, summary_lines
from simkit.report.wording import wrapped
from simkit.session.execution.own_process import app_of
from simkit.session.execution.recorded import cassette_path
from simkit.session.simulate import run
from simkit.spec.scenario.apps import App
from simkit.spec.scenario.files import Prepared
from simkit.spec.scenario.items import ScenarioCase

if TYPE_CHECKING:
    from simkit.session.execution.applications import OwnProcesses


class ReplayOptions(Job, frozen=True, kw_only=True):
    """The user's options."""

    plan: RunPlan
    verify: bool = False
    form: str = "table"
    quiet: bool = False
    update: bool = False
    """Whether failing claims are changed to the actual values."""
    accepts_all: bool = False
    """Whether changes are written without asking."""
    base: str = ""
    """A folder of traces to compare with; empty for none."""
    page: str = ""
    """The file of a page that shows all runs; empty for none."""


def replay(options: ReplayOptions) -> int:
    """Run the selected scenarios and return the exit code; raise SimkitError if there is none."""
    fit_terminal()
    cache = DocumentCache()
    selection = options.plan.selection(cache)
    if selection is None:
        if options.form == "json":
            _say_json([], options)
        return 0
    _check_files(options)
    if options.update:
        from simkit.cli.expect import update

        if declined := update(selection.entries, options.plan, options.accepts_all, cache):
            return declined
        # The new claims must hold, except those that a person must change.
        options = msgspec.structs.replace(options, update=False, quiet=True)
        cache.begin_anew()
        selection = options.plan.selection(cache)
        if selection is None:
            return 0
    return _replay(options, selection, cache)


def _say_json(results: Sequence[Result], options: ReplayOptions) -> None:
    from simkit import __version__
    from simkit.core.compat import libraries
    from simkit.report.contexts import context_objects
    from simkit.report.results import json_text
    from simkit.trace.store import read_trace
    from simkit.trace.views import view_of

    echo_json(json_text(results, __version__, libraries()))
    if (answered := current_answer()) is not None and options.show:
        for scenario in answered.fields["scenarios"]:
            events = read_trace(scenario["trace"]).events if scenario["trace"] else ()
            chosen = context_objects(view_of(events), options.turn, options.agent)
            scenario["contexts"] = chosen


def _check_files(options: ReplayOptions) -> None:
    """Raise SimkitError for a file or folder that cannot be used, before anything runs."""
    if options.base:
        from simkit.report.diffs import traces_in

        traces_in(options.base)
    if options.page:
        from simkit.core.files import check_place

        check_place(options.page, "--html")


def _replay(options: ReplayOptions, selection: Selection, cache: DocumentCache) -> int:
    """Run the selected scenarios once, report, and return the exit code."""
    started, kept_run = time.perf_counter(), KeptRun(_job(options, selection))
    rans: list[ScenarioRun] = []
    printer = _Printer(options, len(selection.entries))
    try:
        with ExitStack() as stack:
            runs = stack.enter_context(options.plan.start(selection.entries, kept_run.job, cache))
            check = _check_of_recordings(options, selection, kept_run.job, cache, stack)
            printer.begin(selection.entries, 0)
            for entry, ran in zip(selection.entries, runs, strict=True):
                ran = check(entry, ran)
                rans.append(ran)
                printer.show(ran)
                printer.begin(selection.entries, len(rans))
            if (refused := runs.refused_at_end(rans)) is not None:
                rans[-1] = refused
                printer.show(refused)
        results = [ran.result for ran in rans]
        if options.verify:
            results = _verify(options, selection, rans, printer)
    except BaseException as problem:
        if stop_in(problem) is not None:
            results = [ran.result for ran in rans]
            printer.note(kept_run.close(results))
            if options.form == "json":
                _say_json(results, options)
            else:
                printer.stopped(results, len(selection.entries), time.perf_counter() - started)
        raise
    notes = [kept_run.close(results), *(ran.note for ran in rans)]
    printer.note(next(filter(None, notes), ""))
    if options.form == "json":
        _say_json(results, options)
    else:
        printer.finish(results, selection.deselected, time.perf_counter() - started)
        pictures = {ran.result.id: ran.picture for ran in rans if ran.picture}
        _publish(options, results, printer, pictures)
    if options.page:
        _write_page(options, rans, printer)
    return _exit_code(rans, results)


def _exit_code(rans: Sequence[ScenarioRun], results: Sequence[Result]) -> int:
    """Return the exit code; raise SimkitError if no run can have what the options choose."""
    if rans and all(ran.unknown for ran in rans):
        raise SimkitError(rans[0].unknown)
    return summary_of(results).exit_code


_REPLAY_FAILS: Final = "recorded, but this replay of it, in a new process, fails"
_NOTHING_SENT: Final = (
    "nothing was sent, so nothing is recorded: the scenario answers each call by itself\n"
    "    Leave out the `replies:` that models shall give, or `cassette:`."
)


def _check_of_recordings(
    options: ReplayOptions, selection: Selection, job: Job, cache: DocumentCache, stack: ExitStack
) -> Callable[[SelectedEntry, ScenarioRun], ScenarioRun]:
    """Return the function that replays what was recorded, in a process that recorded nothing.

    A scenario holds if that holds, too.
    """
    if options.recording is None or options.recording.mode == "verify":
        return lambda entry, ran: ran
    replaying = msgspec.structs.replace(job, recording=None, run="")
    runs = stack.enter_context(options.plan.start(selection.entries, replaying, cache))

    def check(entry: SelectedEntry, ran: ScenarioRun) -> ScenarioRun:
        if ran.result.outcome != "held" or not isinstance(entry, ScenarioCase):
            return ran
        prepared = runs.runner.prepared(entry)[0]
        if prepared is None or prepared.scenario.cassette is None:
            return ran
        again = runs.run(entry)
        if not again.result.failed:
            return ran
        is_recorded = os.path.exists(cassette_path(prepared) or "")
        text = f"{again.text}\n    {_REPLAY_FAILS if is_recorded else _NOTHING_SENT}"
        return msgspec.structs.replace(again, text=text)

    return check


def _write_page(options: ReplayOptions, rans: Sequence[ScenarioRun], printer: _Printer) -> None:
    """Write the page of all runs, and print where it is."""
    from simkit.cli.view import with_bases, write_page
    from simkit.report.diffs import compared

    paths = options.plan.paths or (DEFAULT_PATH,)
    # On the page of somebody else `.` says nothing.
    title = " ".join(Path.cwd().name if path in (".", "./") else path for path in paths)
    scenarios = [ran.page for ran in rans if ran.page is not None]
    sides = ("", "")
    if options.base:
        scenarios = with_bases(scenarios, compared([ran.result for ran in rans], options.base))
        sides = (options.base, "now")
    printer.note_page(write_page(options.page, title, scenarios, sides))


def _publish(
    options: ReplayOptions,
    results: Sequence[Result],
    printer: _Printer,
    pictures: Mapping[str, str],
) -> None:
    """Report to GitHub, if requested, and print how many scenarios differ from the base."""
    if not options.base and options.form != "github":
        return
    from simkit.report.diff_lines import Sides
    from simkit.report.diffs import add_summary, compared, summary_line, workflow_commands

    pairs = list(compared(results, options.base)) if options.base else None
    if options.form == "github":
        echo_commands(workflow_commands(results, os.environ))
        printer.note(add_summary(results, os.environ, pairs, pictures, options.page))
    if pairs is not None:
        counts = summary_line(pairs, Sides("base", "now"))
        echo(f"against {options.base}: {counts}; `simkit diff --base {options.base}` shows what")


def _job(options: ReplayOptions, selection: Selection) -> Job:
    is_all = (len(selection.entries) == 1 or selection.by_name) and not options.quiet
    return msgspec.structs.replace(
        options,
        details="none" if options.form == "json" else "all" if is_all else "failing",
        show="" if options.quiet else options.show,
        makes_pages=bool(options.page),
        draws=options.form == "github",
        color=wants_color() and options.form != "json",
        width=table_width(),
        keeps_lines=options.verify,
    )


def _verify(
    options: ReplayOptions, selection: Selection, rans: Sequence[ScenarioRun], printer: _Printer
) -> list[Result]:
    """Run everything again; a difference is a finding of its scenario."""

    pairs = [
        (entry, ran)
        for entry, ran in zip(selection.entries, rans, strict=True)
        if isinstance(entry, ScenarioCase) and ran.result.digest
    ]
    printer.begin_verifying(len(pairs))
    differences = determinism_findings(pairs, options.seed, options.in_process) if pairs else []
    differing = {
        ran.result.id: finding
        for (_, ran), finding in zip(pairs, differences, strict=True)
        if finding is not None
    }
    results = [_with(ran.result, differing.get(ran.result.id)) for ran in rans]
    printer.verified(len(pairs), [r for r in results if r.id in differing])
    return results


def _with(result: Result, finding: Finding | None) -> Result:
    if finding is None:
        return result
    outcome: OutcomeName = "broken" if result.outcome == "broken" else "failed"
    return msgspec.structs.replace(result, outcome=outcome, findings=(*result.findings, finding))


class _Printer:
    """Prints results as they come, under the names of their files."""

    def __init__(self, options: ReplayOptions, total: int) -> None:
        self._options = options
        self._paint = paint_for(wants_color())
        self._progress = Progress(total)
        self._file = ""
        self._is_open = False

    def begin(self, entries: Sequence[SelectedEntry], index: int) -> None:
        """Show on the progress line which scenario runs now."""
        if index < len(entries):
            doing = "recording " if self._options.recording is not None else ""
            self._progress.begin(f"{doing}{entries[index].name or entries[index].file}")

    def begin_verifying(self, count: int) -> None:
        """Show on the progress line that a second process runs everything again."""
        scenarios = counted(count, "scenario")
        self._progress.begin(f"running {scenarios} again, in another process", is_counted=False)

    def show(self, ran: ScenarioRun) -> None:
        """Print the report of a scenario, if it has one."""
        if self._options.form == "json" or (self._options.quiet and not ran.result.failed):
            return
        self._progress.clear()
        if ran.result.file != self._file:
            self._file = ran.result.file
            echo(self._paint(self._file, "strong"))
        echo(ran.text)
        self._is_open = not ran.text.endswith("\n")

    def verified(self, count: int, differing: Sequence[Result]) -> None:
        """Print the results of the second runs."""
        self._progress.clear()
        if self._options.form == "json" or (self._options.quiet and not differing):
            return
        self._end_report()
        for result in differing:
            echo(findings_text(result.findings[-1:], self._paint))
            echo(f"\nreproduce: {result.reproduce} --verify\n")
        equal = count - len(differing)

        text = (
            f"verified: {counted(count, 'scenario')} ran twice, the second time with "
            f"PYTHONHASHSEED={other_hash_seed()} and {DAYS_LATER} days later; "
            f"{equal} of {counted(count, 'digest')} {'is' if equal == 1 else 'are'} equal"
        )
        for line in wrapped(text, "", "  ") if table_width() < TABLE_WIDTH else [text]:
            echo(line)
        echo()

    def stopped(self, results: Sequence[Result], total: int, seconds: float) -> None:
        """Print the results of those that ran before the user stopped."""
        has_failed = any(result.failed for result in results)
        until = "what failed until then:" if has_failed else "nothing failed until then"
        echo(f"\nstopped after {len(results)} of {total}; {until}")
        self.finish(results, 0, seconds)
        for result in results:
            if result.failed:
                echo(f"  {result.id}")

    def note(self, text: str) -> None:
        """Print on stderr what went wrong beside the run, which is over."""
        self._progress.end()
        if text:
            echo(f"note: {text}", err=True)

    def note_page(self, page: str) -> None:
        """Print on stderr, beside the report, that a page was written."""
        self._progress.end()
        echo(f"wrote {page}", err=True)

    def _end_report(self) -> None:
        """Print the empty line after a report, unless it is there already."""
        if self._is_open:
            echo()
            self._is_open = False

    def finish(self, results: Sequence[Result], deselected: int, seconds: float) -> None:
        """Print the waivers and skips, and the summary line."""
        self._end_report()
        if deselected and not self._options.quiet:
            echo(f"{deselected} not selected")
        counts, off = summary_of(results), lints_off(results)
        advice = "; -q hides warnings" if self._options.quiet else ""
        more = f"{advice}; --strict fails on warnings" if counts.warnings else ""
        for line in summary_lines(counts, off, seconds, self._paint, skips(results), more):
            echo(line)


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
    from simkit.session.workers import WorkerDied, start_worker

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
    from simkit.report.diff_lines import NOT_DETERMINISTIC, first_difference

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
    from simkit.session.execution.applications import OwnProcesses

    with later(timedelta(days=days_later)):
        apps = [None if in_process else _app_of(first) for first in runs]
        with closing(OwnProcesses(app for app in apps if app is not None)) as processes:
            return [
                _second_run(processes, app, first, seed)
                for app, first in zip(apps, runs, strict=True)
            ]


def _app_of(first: FirstRun) -> App | None:
    with suppress(SimkitError):
        return app_of(_prepared(first))
    return None


def _second_run(
    processes: OwnProcesses, app: App | None, first: FirstRun, seed: int | None
) -> SecondRun:
    if app is None:
        return _run(first, seed)
    from simkit.session.workers import WorkerDied

    try:
        second: SecondRun = processes.call(app, _run, first, seed)
    except WorkerDied as death:
        return SecondRun("", error=f"its process ended {death.how}")
    return second


def _run(first: FirstRun, seed: int | None) -> SecondRun:
    try:
        trace = run(_prepared(first), seed=seed)
    except SimkitError as problem:
        return SecondRun("", error=str(problem))
    digest = trace.digest()
    if digest == first.digest:
        return SecondRun(digest)
    return SecondRun(digest, [line.decode() for line in trace.lines()])


def _prepared(first: FirstRun) -> Prepared:
    from simkit.cli.processes import runners

    prepared = runners.get(Job()).prepared(first.item)[0]
    assert prepared is not None
    return prepared
