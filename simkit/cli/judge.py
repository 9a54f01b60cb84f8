"""Implementation of ``simkit judge``: read traces, find their scenarios, check, print."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from simkit import __version__
from simkit.checks.findings import Finding
from simkit.checks.judge import Outcome, judge
from simkit.cli import bug_text, console
from simkit.cli.plan import RunPlan
from simkit.cli.running import Job, Runner, ScenarioRun
from simkit.cli.traces import SUFFIX, Scenarios, Stored, stored, trace_files, unchanged
from simkit.core.errors import SimkitError
from simkit.core.gc_pause import gc_paused
from simkit.core.output import echo, echo_commands, echo_json
from simkit.core.text import counted, shell_word, short
from simkit.language.yaml import DocumentCache
from simkit.report import results as rows
from simkit.report.last_run import FOLDER
from simkit.report.text import result_annotations, summary_lines
from simkit.report.wording import wrapped
from simkit.runtime.functions import function_named
from simkit.spec.loading import validated
from simkit.spec.pipeline.models import is_off
from simkit.spec.scenario.files import Library, Prepared
from simkit.spec.scenario.items import ScenarioCase
from simkit.spec.scenario.model import Scenario
from simkit.trace.views import said_in

SECOND_RUN: Final = {
    "STA-06": "it holds a run against the same without restarts",
    "STA-08": "it holds a session against the same alone",
}
"""Lints that need a second run and cannot check a stored trace, with the reason."""


class Judged(rows.Result, frozen=True, rename={"question": "asked"}):
    """The result of one trace."""

    unjudged: tuple[str, ...] = ()
    """Lints that would have checked the scenario if it had run."""
    question: str = ""
    """The ``--scenario`` of the command."""

    @property
    def reproduce(self) -> str:
        """Return the command that checks this again, quoted for the shell."""
        named = f" --scenario {shell_word(self.question)}" if self.question else ""
        strict = " --strict" if self.strict else ""
        return f"simkit judge {shell_word(self.trace)}{named}{strict}"


def judge_traces(
    traces: Sequence[str], question: str, form: str, quiet: bool, strict: bool = False
) -> int:
    """Check the traces and print the findings; return the exit code.

    Raise SimkitError if nothing can be checked.
    """
    started = time.perf_counter()
    console.fit_terminal()
    with unchanged(traces or (FOLDER,)):
        files = files_at(traces)
        is_long = len(files) == 1 and not quiet
        job = Job(
            details="none" if form != "text" else "all" if is_long else "failing",
            color=console.wants_color() and form == "text",
            width=console.table_width(),
            strict=strict,
        )
        runner = JudgeRunner(job, question)
        results, is_open = [], False
        for file in files:
            ran = runner.ran_on(file)
            results.append(ran.result)
            if form == "text" and (ran.result.failed or not quiet):
                echo(f"{console.paint_for(console.wants_color())(file, 'strong')}\n{ran.text}")
                is_open = not ran.text.endswith("\n")
    _echo_end(results, form, time.perf_counter() - started, is_open)
    return rows.summary_of(results).exit_code


def _echo_end(results: Sequence[rows.Result], form: str, seconds: float, is_open: bool) -> None:
    """Print what follows the last trace; ``is_open`` if its text did not end with an empty line."""
    if form == "json":
        echo_json(_json(results))
        return
    if form == "github":
        echo_commands(result_annotations(results))
    elif is_open:
        echo()
    for line in _last_lines(results, seconds):
        echo(line)


def files_at(paths: Sequence[str]) -> list[str]:
    """Return the traces at paths, or those of the last run, each once; raise TraceError."""
    return list(dict.fromkeys(file for path in paths or (FOLDER,) for file in trace_files(path)))


class JudgeRunner(Runner):
    """Reports on stored traces as replay does on runs."""

    def __init__(self, job: Job, question: str) -> None:
        super().__init__(job)
        self._question = question
        self._scenarios = Scenarios(self.library.cache, question)

    def ran_on(self, file: str) -> ScenarioRun:
        """Check one trace. Any error is its result, and does not stop the others."""
        try:
            trace = stored(file, with_lints=True)
            if self._scenarios.is_of_feature(file):
                no_claims = {"outcome": "skipped", "reason": "pytest judges features"}
                return self.writer.report(
                    msgspec.structs.replace(self._broken(file, ""), **no_claims)
                )
            prepared = _prepared(trace, self.library, self._scenarios)
            if prepared.skip is not None:
                skipped = rows.not_run(prepared.item, "skipped", reason=prepared.skip)
                return self.writer.report(self._judged(skipped, file))
            with console.output_to_stderr():
                outcome = judged_trace(prepared, trace)
        except SimkitError as problem:
            return self.writer.report(self._broken(file, str(problem)))
        except Exception as problem:
            again = f"simkit --traceback judge {shell_word(file)}"
            return self.writer.report(self._broken(file, bug_text(problem, again)))
        outcome = self.strictly(outcome)
        result = rows.result_of(prepared, outcome, trace.started.seed)
        pipeline, unjudged = trace.view.pipeline.name, _unjudged(prepared.scenario)
        judged = self._judged(
            result, file, pipeline=pipeline, strict=self._job.strict, unjudged=unjudged
        )
        return self.writer.report(judged, outcome, prepared)

    def _judged(self, result: rows.Result, file: str, **more: Any) -> Judged:
        facts = {name: getattr(result, name) for name in rows.Result.__struct_fields__}
        return Judged(**{**facts, "trace": file, "question": self._question, **more})

    def _broken(self, file: str, error: str) -> Judged:
        return Judged(file, file, 1, "", "broken", error=error, trace=file, question=self._question)


def _prepared(trace: Stored, library: Library, scenarios: Scenarios) -> Prepared:
    """Return the scenario of a trace; its claims contain words that Faker drew from the seed."""
    prepared = library.prepared(scenarios.item_of(trace))
    return prepared.with_seed(trace.started.seed).after(said_in(trace.view))


def judged_trace(prepared: Prepared, trace: Stored) -> Outcome:
    """Return the outcome of a stored trace with the claims of its scenario."""
    scenario = _as_stored(prepared)
    outcome = judge(scenario, prepared.document, trace.trace, function_named, trace.runner)
    findings = outcome.judgement.findings
    own_findings = tuple(f for f in findings if not _claims_second_run(f, prepared.scenario))
    judgement = msgspec.structs.replace(outcome.judgement, findings=own_findings)
    return msgspec.structs.replace(outcome, judgement=judgement)


def _as_stored(prepared: Prepared) -> Scenario:
    """Return the scenario with its claims redacted, for a trace without secrets.

    Otherwise a claim that a secret is absent would hold for a trace in which it was replaced.
    """
    data, redactor = prepared.document.data, prepared.redactor(os.environ)

    def claiming(part: Mapping[str, Any]) -> dict[str, Any]:
        return {k: redactor.texts(v) if k == "expect" else v for k, v in part.items()}

    hidden = claiming({**data, "turns": [claiming(turn) for turn in data["turns"]]})
    if hidden == data:
        return prepared.scenario
    scenario = validated(Scenario, prepared.document.with_data(hidden))
    return scenario.model_copy(update={"seed": prepared.scenario.seed})


def _claims_second_run(finding: Finding, scenario: Scenario) -> bool:
    """Return whether a finding misses a lint that needs a second run."""
    match finding.path:
        case ("turns", int(turn), "expect", "findings", int(place)):
            claims = scenario.turns[turn].expect.findings
        case ("expect", "findings", int(place)):
            claims = scenario.expect.findings
        case _:
            return False
    return bool(claims) and list(claims or ())[place]["id"] in SECOND_RUN


def _unjudged(scenario: Scenario) -> tuple[str, ...]:
    results = []
    if any(turn.restart for turn in scenario.turns):
        results.append("STA-06")
    if len({turn.session for turn in scenario.turns}) > 1:
        results.append("STA-08")
    return tuple(lint for lint in results if not is_off(scenario.lints, lint))


def _unjudged_counts(results: Sequence[rows.Result]) -> dict[str, int]:
    lints = [lint for r in results if isinstance(r, Judged) for lint in r.unjudged]
    return {lint: lints.count(lint) for lint in SECOND_RUN if lint in lints}


def _last_lines(results: Sequence[rows.Result], seconds: float) -> Iterator[str]:
    for lint, count in _unjudged_counts(results).items():
        yield from wrapped(
            f"{lint} in {counted(count, 'scenario')}: {SECOND_RUN[lint]}, and only "
            "`simkit replay` makes that run",
            "not judged: ",
            "  ",
        )
    yield from summary_lines(
        rows.summary_of(results),
        rows.lints_off(results),
        seconds,
        console.paint_for(console.wants_color()),
        rows.skips(results),
    )


def _json(results: Sequence[rows.Result]) -> str:
    whole: dict[str, Any] = json.loads(rows.json_text(results, __version__, {}))
    whole["not_judged"] = [
        {"id": lint, "reason": SECOND_RUN[lint], "scenarios": count}
        for lint, count in _unjudged_counts(results).items()
    ]
    return json.dumps(whole, indent=2, ensure_ascii=False)


PROBLEMS_MAX: Final = 10
"""The number of broken scenarios that a note names."""


class ObservedRun(msgspec.Struct, frozen=True):
    """One scenario and what happened in it."""

    prepared: Prepared
    outcome: Outcome


class ObservedRuns:
    """The runs of a plan, one after the other, and those that could not be made.

    A path may be a trace, or a folder of traces, which are read instead.
    """

    def __init__(self, plan: RunPlan) -> None:
        self.ran = self.failed = self.skipped = 0
        self.problems: list[str] = []
        """The first line of the error of each scenario that is broken."""
        self._traces = [path for path in plan.paths if _holds_traces(path)]
        scenarios = tuple(path for path in plan.paths if not _holds_traces(path))
        plan = msgspec.structs.replace(plan, paths=scenarios)
        cache = DocumentCache()
        selection = plan.selection(cache) if scenarios or not self._traces else None
        self._runs = plan.start(selection.entries if selection else (), Job(), cache)
        self.library = self._runs.runner.library

    @property
    def reads_traces(self) -> bool:
        """Return whether nothing is run: all runs come from traces."""
        return not self._runs.entries

    def __iter__(self) -> Iterator[ObservedRun]:
        """Yield each run; a scenario that is broken is only counted."""
        progress = console.Progress(len(self._runs.entries))
        with progress, self._runs, unchanged(self._traces):
            for file in (file for path in self._traces for file in trace_files(path)):
                yield from self._runs_of(partial(self._judged, file))
            for entry in self._runs.entries:
                if isinstance(entry, rows.Result):
                    self.problems.append(entry.error.partition("\n")[0])
                    continue
                progress.begin(f"running {entry.name}")
                yield from self._runs_of(partial(self._simulated, entry))

    def notes(self, of_failed: str) -> Iterator[str]:
        """Yield lines about scenarios left out; ``of_failed`` says what became of failed ones."""
        if self.skipped:
            yield f"{counted(self.skipped, 'scenario')} skipped"
        if self.failed:
            yield f"{counted(self.failed, 'scenario')} failed, {of_failed}"
        for problem in self.problems[:PROBLEMS_MAX]:
            yield f"broken, and left out: {short(problem, 200)}"
        if len(self.problems) > PROBLEMS_MAX:
            yield f"broken, and left out: {len(self.problems) - PROBLEMS_MAX} more"

    def _runs_of(self, make: Callable[[], ObservedRun | None]) -> Iterator[ObservedRun]:
        try:
            with console.output_to_stderr():
                run = make()
        except SimkitError as problem:
            self.problems.append(str(problem).partition("\n")[0])
            return
        if run is None:
            self.skipped += 1
            return
        self.ran += 1
        is_expected = run.prepared.scenario.xfail is not None
        self.failed += not run.outcome.passed and not is_expected
        yield run

    def _simulated(self, item: ScenarioCase) -> ObservedRun | None:
        prepared = self.library.prepared(item)
        if prepared.skip is not None:
            return None
        with gc_paused:
            return ObservedRun(prepared, self._runs.outcome_of(item, prepared))

    def _judged(self, file: str) -> ObservedRun | None:
        trace = stored(file, with_lints=True)
        prepared = _prepared(trace, self.library, Scenarios(self.library.cache))
        return ObservedRun(prepared, judged_trace(prepared, trace))


def _holds_traces(path: str) -> bool:
    address = Path(path)
    return path.endswith(SUFFIX) or address.name == FOLDER or (address / "last.json").is_file()
