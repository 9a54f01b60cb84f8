"""Running of scenarios, one after the other or in processes, and texts of their results."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from simkit.checks.judge import Judgement, Outcome, strictly
from simkit.cli import bug_text
from simkit.cli.console import INDENT, output_to_stderr, paint_for
from simkit.cli.selection import SelectedEntry, named_for, other_pipeline, turned
from simkit.core.errors import SimkitError
from simkit.core.gc_pause import gc_paused
from simkit.core.output import current_redactor, without_secrets
from simkit.core.text import counted, guess, shell_word
from simkit.language.yaml import DocumentCache
from simkit.report import results
from simkit.report.last_run import Ledger, failure_text
from simkit.report.table import TABLE_WIDTH, rows_of, selected, table
from simkit.report.text import judged_text, reproduce_line, result_text, title_line, warning_lines
from simkit.report.wording import block, set_columns, wrapped
from simkit.session.execution.own_process import ProcessMessages, refused_at_exit
from simkit.session.execution.recorded import Recording
from simkit.session.simulate import record, simulate
from simkit.spec.scenario.apps import HOLDS, Standing
from simkit.spec.scenario.files import Library, Prepared
from simkit.spec.scenario.items import PIPELINE_SUFFIX, SCENARIO_SUFFIX, ScenarioCase, is_pipeline
from simkit.trace.views import View, view_of

if TYPE_CHECKING:
    from simkit.update.proposals import Proposal
    from simkit.viewer import RunPage


class Job(msgspec.Struct, frozen=True):
    """The options of the command, for processes."""

    seed: int | None = None
    details: Literal["all", "failing", "none"] = "failing"
    """The scenarios that get a timeline."""
    show: str = ""
    """``context``, ``state``, ``events`` or empty."""
    turn: int | None = None
    agent: str = ""
    color: bool = False
    width: int = TABLE_WIDTH
    keeps_lines: bool = False
    """Whether the traces are needed after the run."""
    needs_met: bool = False
    """Whether a scenario with missing needs is broken."""
    strict: bool = False
    """Whether claims that prove nothing are findings."""
    proposes: bool = False
    """Whether failing claims are to be changed."""
    pipeline: str = ""
    """The pipeline to run on, in place of the scenario's own; empty for none."""
    recording: Recording | None = None
    """The options of recording real traffic; None if nothing is recorded."""
    run: str = ""
    """The run of `.simkit/` that keeps the traces; empty if none does."""
    makes_pages: bool = False
    """Whether scenarios are shown on a page."""
    draws: bool = False
    """Whether failing runs are drawn as Mermaid diagrams."""
    in_process: bool = False
    """Whether scenarios of code run in this process, one after the other."""


class ScenarioRun(msgspec.Struct, frozen=True):
    """The result of one scenario, and its text."""

    result: results.Result
    text: str
    lines: tuple[bytes, ...] = ()
    """The stored form of the trace, if it is needed."""
    note: str = ""
    """Why the trace could not be kept; empty if it was."""
    proposal: Proposal | None = None
    """The changes that would make its failing claims hold, if requested; else None."""
    page: RunPage | None = None
    """The scenario for a page, if one is made; else None."""
    picture: str = ""
    """The run as a Mermaid diagram, if it fails and is drawn; else empty."""
    unknown: str = ""
    """Which agent or turn of the options its run cannot have; empty if it has them."""


def entries_of_code(
    entries: Sequence[SelectedEntry], job: Job, cache: DocumentCache
) -> Iterator[ScenarioCase]:
    """Yield the scenarios whose pipeline may be code, before their files are read as a whole."""
    names_code: dict[tuple[str, str], bool] = {}
    for entry in entries:
        if isinstance(entry, ScenarioCase):
            named = entry.file, entry.pipeline
            if named not in names_code:
                names_code[named] = bool(job.pipeline) or _names_code(*named, cache)
            if names_code[named]:
                yield entry


def _names_code(file: str, name: str, cache: DocumentCache) -> bool:
    is_file = name.endswith((PIPELINE_SUFFIX, SCENARIO_SUFFIX))
    if ":" in name and not is_file:
        return True
    try:
        heads = cache.heads(str(Path(file).parent / name) if is_file else file)
    except SimkitError:
        return False  # It is the result of the scenario's run.
    pipelines = [head for head in heads if is_pipeline(head.values)]
    if not is_file:
        pipelines = [head for head in pipelines if head.values["pipeline"] == name]
    # A name that no document has is that of a module, which reads its input itself.
    return not pipelines or any("code" in head.keys for head in pipelines)


class RunWriter:
    """Writes results of runs: their texts, pages and pictures."""

    def __init__(self, job: Job) -> None:
        self._job, self._paint = job, paint_for(job.color)
        self.redactor = current_redactor()
        """Replaces the secrets of the scenario that was read last."""

    def report(
        self,
        result: results.Result,
        outcome: Outcome | None = None,
        prepared: Prepared | None = None,
    ) -> ScenarioRun:
        """Return a result with its text, without secrets; ``outcome`` contains none already."""
        result = without_secrets(result, self.redactor)
        details = self._job.details
        set_columns(self._job.width + INDENT)
        is_long = details == "all" or (details == "failing" and result.failed)
        blocks = []
        unknown = "" if outcome is None else _unknown(outcome.view, self._job)
        if unknown:
            is_long = False
        elif outcome is not None and prepared is not None and (is_long or self._job.show):
            blocks += list(self._detail_blocks(result, prepared, outcome, is_long))
        if result.failed:
            # The reason of the failure comes first; then what happened, and how to see it again.
            blocks = [judged_text(result, self._paint), *blocks, reproduce_line(result)]
        elif is_long:
            blocks.append(result_text(result, self._paint))
        title = f"  {title_line(result, self._paint)}"
        if not (is_long or result.failed):
            title = "\n".join((title, *warning_lines(result, self._paint)))
        text = "\n\n".join(filter(None, blocks))
        page = self._page(result, outcome, prepared) if self._job.makes_pages else None
        picture = self._diagram(result, outcome)
        text = f"{title}\n\n{text}\n" if text else title
        return ScenarioRun(result, text, page=page, picture=picture, unknown=unknown)

    def _diagram(self, result: results.Result, outcome: Outcome | None) -> str:
        """Return a failed run's sequence diagram if it is wanted, else an empty text."""
        if not self._job.draws or not result.failed or outcome is None:
            return ""
        from simkit.viewer import sequence_text

        return sequence_text(outcome.view, result.findings)

    def _page(
        self, result: results.Result, outcome: Outcome | None, prepared: Prepared | None
    ) -> RunPage:
        # Most commands make no page.
        from simkit.viewer import run_page

        if outcome is None or prepared is None:
            return run_page(result, None)
        return run_page(result, outcome.view, prepared.document, prepared.redactor(os.environ))

    def _detail_blocks(
        self, result: results.Result, prepared: Prepared, outcome: Outcome, is_long: bool
    ) -> Iterator[str]:
        job, paint = self._job, self._paint
        view = outcome.view
        if is_long:
            line = facts(result)
            lines = wrapped(line, width=job.width) if job.width < TABLE_WIDTH else [line]
            yield "\n".join(paint(f"    {picture_line}", "quiet") for picture_line in lines)
            chosen = selected(rows_of(view), job.turn, job.agent)
            noun = "node" if view.pipeline.flow == "graph" else "agent"
            idle = f"agent {job.agent!r} did nothing there" if job.agent else "no agent ran"
            yield block(table(chosen, job.width, noun, paint) or [idle])
        # The following lines are indented after they were wrapped.
        set_columns(job.width)
        if job.show == "context":
            from simkit.report.contexts import context_lines

            yield block(context_lines(view, job.turn, job.agent, paint))
        elif job.show == "state":
            from simkit.report.contexts import state_lines

            yield block(state_lines(view, job.turn, paint))
        elif job.show == "events":
            from simkit.report.wording import event_lines

            yield block(event_lines(view.events, job.turn, job.agent, paint))
        set_columns(job.width + INDENT)


class Runner:
    """Runs scenarios in this process; reads each file once."""

    def __init__(self, job: Job, cache: DocumentCache | None = None) -> None:
        """``cache`` has the files that were read to select what is run."""
        self._job = job
        self.library = Library(cache)
        """The files that were read."""
        self._ledger = Ledger(run=job.run)
        self.writer = RunWriter(job)
        """Makes texts of the results."""

    def run(self, entry: SelectedEntry) -> ScenarioRun:
        """Run one scenario. Any error is its result, and does not stop the others."""
        # Until its trace is freed: whatever is collected before would walk through all of it.
        with gc_paused:
            return self._run(entry)

    def _run(self, entry: SelectedEntry) -> ScenarioRun:
        if isinstance(entry, results.Result):
            return self.writer.report(entry)
        standing = HOLDS
        try:
            prepared, standing = self.prepared(entry)
            if prepared is None or standing.other or prepared.skip is not None:
                return self.writer.report(self._left_out(entry, prepared, standing))
            with output_to_stderr():
                outcome, note = self._outcome(prepared)
        except SimkitError as problem:
            return self.writer.report(
                self._turned(results.not_run(entry, "broken", error=str(problem)), standing)
            )
        except (Exception, SystemExit) as problem:
            again = f"simkit --traceback replay {shell_word(entry.id)}"
            return self.writer.report(
                results.not_run(entry, "broken", error=bug_text(problem, again))
            )
        outcome = self.strictly(outcome)
        result = results.result_of(prepared, outcome, self._job.seed)
        result = msgspec.structs.replace(result, strict=self._job.strict)
        ran = self.finish_run(prepared, outcome, self._turned(result, standing))
        if self._job.proposes and ran.result.outcome == "failed":
            from simkit.update.proposals import fixes

            proposal = fixes(prepared, outcome.view, outcome.judgement)
            ran = msgspec.structs.replace(ran, proposal=proposal)
        if note:
            ran = msgspec.structs.replace(ran, text=f"{ran.text}\n    {note}")
        return ran

    def strictly(self, outcome: Outcome) -> Outcome:
        """Return the outcome with claims that prove nothing as findings, if the job is strict."""
        if not self._job.strict:
            return outcome
        return msgspec.structs.replace(outcome, judgement=strictly(outcome.judgement))

    def prepared(self, item: ScenarioCase) -> tuple[Prepared | None, Standing]:
        """Return a scenario ready to run on the job's pipeline, and what is said of that.

        Raise SimkitError if it cannot be read; None if it is not for this pipeline.
        """
        self.writer.redactor = current_redactor()
        if self._job.pipeline:
            named = named_for(item.file, self._job.pipeline, self.library.cache)
            other = other_pipeline(item, named, self.library)
            prepared, standing = other.prepared, other.standing
        else:
            prepared, standing = self.library.prepared(item), HOLDS
        if prepared is not None:
            self.writer.redactor = prepared.redactor(os.environ)
        return prepared, standing

    def _turned(self, result: results.Result, standing: Standing) -> results.Result:
        return turned(result, standing, self._job.pipeline)

    def _outcome(self, prepared: Prepared) -> tuple[Outcome, str]:
        """Run a scenario; return its outcome, and a text about its traffic."""
        if self._job.recording is None:
            return simulate(prepared, seed=self._job.seed), ""
        recorded = record(prepared, self._job.recording)
        return recorded.outcome, recorded.note

    def died(self, item: ScenarioCase, messages: ProcessMessages, how: str) -> ScenarioRun:
        """Return the result of a scenario whose process has ended, with its trace until then."""
        prepared, standing = self.prepared(item)
        assert prepared is not None
        result = results.result_of_death(prepared, self._job.seed, messages.turn, how)
        result = self._turned(result, standing)
        trace = messages.trace(how)
        if trace is None:
            return self.writer.report(result)
        result = msgspec.structs.replace(result, **results.counts_of(trace.events))
        judgement = Judgement(result.findings, (), (), ())
        outcome = Outcome(trace, judgement, view_of(trace.events))
        return self.finish_run(prepared, outcome, result, messages.environment)

    def refused_late(
        self, item: ScenarioCase, ran: ScenarioRun, refused: Sequence[str]
    ) -> ScenarioRun:
        """Return a run with what its code was refused after its end as findings."""
        prepared, _ = self.prepared(item)
        if prepared is None or "RUN-02" in dict(ran.result.lints_off):
            return ran
        result = msgspec.structs.replace(
            ran.result,
            outcome="failed" if ran.result.outcome == "held" else ran.result.outcome,
            findings=(*ran.result.findings, *results.refused_late(prepared, refused)),
        )
        again = self.writer.report(result)
        return msgspec.structs.replace(ran, result=result, text=again.text, page=again.page)

    def _left_out(
        self, item: ScenarioCase, prepared: Prepared | None, standing: Standing
    ) -> results.Result:
        """Return the result of a scenario that does not run here; broken if it has to."""
        if standing.other:
            return results.not_run(item, "skipped", reason=standing.other)
        if prepared is None:
            return results.not_run(item, "xfailed", reason=standing.left_out)
        if self._job.needs_met and prepared.scenario.skip is None:
            return results.not_run(item, "broken", error=str(prepared.refusal()))
        return results.not_run(item, "skipped", reason=prepared.skip or "")

    def finish_run(
        self,
        prepared: Prepared,
        outcome: Outcome,
        result: results.Result,
        environment: Mapping[str, str] = os.environ,
    ) -> ScenarioRun:
        """Store the trace of a finished run, and return its report.

        ``environment`` is that of its process: a run may have read secrets into it.
        """
        lines = tuple(outcome.trace.lines()) if self._job.keeps_lines else ()
        self.writer.redactor = prepared.redactor(environment)
        # Before the layout: a shortened secret would not be recognized.
        outcome = outcome.redacted(self.writer.redactor)
        ran = self.writer.report(result, outcome, prepared)
        result, note = ran.result, ""
        try:
            if self._job.run:
                trace = self._ledger.keep(result.id, outcome.trace.stored())
                result = msgspec.structs.replace(result, trace=trace)
        except OSError as problem:
            note = f"the traces of this run are not kept: {failure_text(problem)}"
        return msgspec.structs.replace(ran, result=result, lines=lines, note=note)


class Runs(AbstractContextManager["Runs"]):
    """Runs the entries of a command in this process; a context manager, as those in others are."""

    def __init__(self, entries: Sequence[SelectedEntry], runner: Runner) -> None:
        self.entries, self.runner = entries, runner

    def __exit__(self, *_: object) -> None:
        """End all processes."""

    def __iter__(self) -> Iterator[ScenarioRun]:
        """Return the results of the entries, in order."""
        return map(self.run, self.entries)

    def run(self, entry: SelectedEntry) -> ScenarioRun:
        """Return the result of an entry."""
        return self.runner.run(entry)

    def outcome_of(self, entry: SelectedEntry, prepared: Prepared) -> Outcome:
        """Return what happens in an entry's scenario; raise SimkitError if it cannot be run."""
        return simulate(prepared)

    def refused_at_end(self, rans: Sequence[ScenarioRun]) -> ScenarioRun | None:
        """Return the last run with what code of this process is refused at its end; None if none.

        Call it when all have run.
        """
        refused = refused_at_exit()
        pairs = [*zip(self.entries, rans, strict=True)] if refused else []
        for entry, ran in reversed(pairs):
            if isinstance(entry, ScenarioCase):
                return self.runner.refused_late(entry, ran, refused)
        return None


def facts(result: results.Result) -> str:
    """Return the facts about a scenario on one line."""
    return (
        f"{result.file}:{result.line}, pipeline {result.pipeline}, "
        f"{counted(result.turns, 'turn')}, {counted(result.model_calls, 'model call')}, "
        f"seed {result.seed}"
    )


def _unknown(view: View, job: Job) -> str:
    """Return which agent or turn of the options a run cannot have; empty if it has them."""
    if job.turn is not None and job.turn > len(view.turns):
        return f"there is no turn {job.turn}: the run has {counted(len(view.turns), 'turn')}"
    ran = dict.fromkeys(run.agent for run in view.runs.values())
    known = {*ran, *view.pipeline.agents}
    if not job.agent or job.agent in known:
        return ""
    nearest = guess(job.agent, known, "; did you mean `{}`?")
    return f"there is no agent {job.agent!r}; agents of the whole run: {', '.join(ran)}{nearest}"
