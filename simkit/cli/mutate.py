"""Implementation of ``simkit mutate``: change facts, judge again, and list what nothing noticed."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from heapq import nsmallest
from typing import Any, Final, TypeVar

import msgspec

from simkit.checks.findings import CLAIM
from simkit.checks.judge import claims_hold, expectation_holds, lints_hold
from simkit.checks.mutants import IMPOSSIBLE, KINDS, TraceMutant, mutated, trace_mutants
from simkit.cli.console import Progress, output_to_stderr
from simkit.cli.judge import ObservedRun, ObservedRuns
from simkit.cli.plan import RunPlan, share_exit_code
from simkit.core.errors import SimkitError
from simkit.core.gc_pause import gc_paused
from simkit.core.output import echo, echo_json
from simkit.language.paths import literal
from simkit.language.yaml import Document
from simkit.report.scores import MutationReport, Verdict, mutation_json, mutation_lines, score_line
from simkit.runtime.functions import function_named
from simkit.session.simulate import simulate
from simkit.spec.pipeline.model import Pipeline
from simkit.spec.pipeline.mutants import KINDS as PIPELINE_KINDS
from simkit.spec.pipeline.mutants import PipelineMutant, apply_edits, pipeline_mutants
from simkit.spec.scenario.claims import Expect
from simkit.spec.scenario.files import Library
from simkit.trace.views import View, view_of
from simkit.update.observed_values import StableClaims, claims_on, first_claims, parts_of, words_of

T = TypeVar("T")
PLACES_MAX: Final = 30
"""The number of places at which one fact is changed before it counts as unnoticed."""


def mutate(
    paths: tuple[str, ...],
    expression: str,
    most: int,
    seed: int,
    is_of_traces: bool,
    form: str,
    fail_under: float,
) -> int:
    """Judge mutants and print their verdicts.

    Return 1 if the score is below ``fail_under``, or if no scenario holds to measure anything.
    """
    runs = ObservedRuns(RunPlan(paths=paths, expression=expression))
    # A scenario that fails already notices nothing.
    sound = [run for run in runs if run.outcome.passed]
    reports = [_traces(sound, most, seed)]
    if not is_of_traces and not runs.reads_traces:
        reports.append(_pipelines(sound, runs.library, most, seed))
    report = _joined(reports)
    notes = list(runs.notes("and left out: `simkit replay` shows why"))
    if form == "json":
        from simkit import __version__

        echo_json(mutation_json(report, seed, __version__, notes))
    else:
        for line in (*mutation_lines(report), "", *notes, score_line(report, seed)):
            echo(line)
    # Of scenarios that all fail, or are skipped, there is no mutant, and so no score.
    nothing = "a score of no mutants"
    code = share_exit_code(report.percent, fail_under, "the mutation score", nothing, runs.problems)
    if not code and not sound and runs.failed:
        echo("nothing was measured: no scenario passed (`simkit replay` shows why)", err=True)
        code = 1
    return code


def _traces(runs: Sequence[ObservedRun], most: int, seed: int) -> MutationReport:
    """Judge the mutants of all traces: a mutant is a fact, changed in one run after the other."""
    places: dict[tuple[str, str, str], list[tuple[int, TraceMutant]]] = {}
    for index, run in enumerate(runs):
        pipeline = run.prepared.pipeline_document
        name = f"{pipeline.file}#{run.prepared.pipeline.pipeline}"
        for mutant in trace_mutants(run.outcome.view):
            places.setdefault((name, mutant.kind, mutant.text), []).append((index, mutant))
    chosen = chosen_by_seed(list(places), most, seed)
    judges = [TraceJudge(run) for run in runs]
    verdicts = [_verdict(judges, places[fact]) for fact in chosen]
    return _report(verdicts, tuple(KINDS), len(places))


def _report(verdicts: Sequence[Verdict | None], kinds: Sequence[str], total: int) -> MutationReport:
    """Return the report of verdicts, of which those that no claim can see are None."""
    noticeable = [verdict for verdict in verdicts if verdict is not None]
    equivalent = len(verdicts) - len(noticeable)
    return MutationReport(verdicts=noticeable, kinds=kinds, total=total, equivalent=equivalent)


def _verdict(
    judges: Sequence[TraceJudge], places: Sequence[tuple[int, TraceMutant]]
) -> Verdict | None:
    """Return the first verdict of death, else the first of survival; None if no claim can see it.

    Of many places, only some are tried.
    """
    survivor: Verdict | None = None
    step = max(len(places) // PLACES_MAX, 1)
    for number, mutant in places[::step]:
        verdict = judges[number].verdict(mutant, needs_claim=survivor is None)
        if verdict is not None:
            verdict = msgspec.structs.replace(verdict, places=len(places))
            if verdict.is_killed:
                return verdict
            survivor = survivor or verdict
    return survivor


def chosen_by_seed(rows: Sequence[T], most: int, seed: int) -> list[T]:
    """Return the rows that the seed chooses, in their order; other rows do not change a choice."""
    ranked = [
        (hashlib.sha256(f"{seed}/{row}".encode()).digest(), index) for index, row in enumerate(rows)
    ]
    return [rows[index] for index in sorted(index for _, index in nsmallest(most, ranked))]


class TraceJudge:
    """Judges the mutants of one run."""

    def __init__(self, run: ObservedRun) -> None:
        self._run = run
        prepared = run.prepared
        self._scenario, self._document = prepared.scenario, prepared.document
        self._places: dict[int, str] = {}
        self._stable = StableClaims(prepared.redactor(os.environ), words_of(prepared.document.data))

    def verdict(self, mutant: TraceMutant, *, needs_claim: bool = True) -> Verdict | None:
        """Return what noticed a mutant; None if nothing could.

        Unless ``needs_claim``, None if nothing did: the claim that would is not looked for.
        """
        try:
            return self._verdict(mutant, needs_claim)
        except IMPOSSIBLE:
            return None

    def _verdict(self, mutant: TraceMutant, needs_claim: bool) -> Verdict | None:
        events = mutated(self._run.outcome.trace.events, mutant.changes())
        view = view_of(events)
        by, claim = "", dict[str, Any]()
        if not claims_hold(self._scenario, self._document, view, function_named, mutant.turn - 1):
            by = "claim"
        elif not lints_hold(self._scenario, self._document, events):
            by = "lint"
        else:
            turn = self._run.outcome.view.turns[mutant.turn - 1]
            claims = claims_on(mutant.fact, turn, self._stable) if needs_claim else ()
            killing = self._first_killing(claims, mutant.turn, view)
            if killing is None:
                return None
            claim = killing
        return Verdict(
            pipeline=self._run.prepared.pipeline.pipeline,
            kind=mutant.kind,
            text=mutant.text,
            by=by,
            scenario=self._run.prepared.item.id,
            where=self.where(mutant.turn),
            turn=mutant.turn,
            claim=literal(claim),
        )

    def _first_killing(
        self, claims: Iterable[dict[str, Any]], turn: int, view: View
    ) -> dict[str, Any] | None:
        """Return the first claim on a turn that holds for the run, but not for a mutant's view."""
        own_view = self._run.outcome.view
        for claim in claims:
            try:
                expect = Expect.model_validate(claim)
                if not self._holds(expect, turn, view) and self._holds(expect, turn, own_view):
                    return claim
            except (SimkitError, ValueError):
                continue
        return None

    def _holds(self, expect: Expect, turn: int, view: View) -> bool:
        return expectation_holds(expect, turn, self._document, view)

    def difference(self, view: View) -> tuple[int, dict[str, Any]] | None:
        """Return the first turn that a claim would find different in a view, and that claim."""
        turns = self._run.outcome.view.turns
        for index in range(min(len(turns), len(view.turns))):
            claims = parts_of(first_claims(self._run.outcome.view, index, self._stable))
            claim = self._first_killing(claims, index + 1, view)
            if claim is not None:
                return index + 1, literal(claim)
        return None

    def where(self, turn: int) -> str:
        """Return ``file:line`` of a turn."""
        if turn not in self._places:
            path = self._document.written_at(("turns", turn - 1))
            self._places[turn] = f"{self._document.file}:{self._document.line(path)}"
        return self._places[turn]


# Mutants of declared pipelines


def _pipelines(
    runs: Sequence[ObservedRun], library: Library, most: int, seed: int
) -> MutationReport:
    """Run the scenarios of each mutant of a declared pipeline until one of them notices it."""
    subjects: dict[tuple[str, int], _PipelineJudge] = {}
    for run in runs:
        document = run.prepared.pipeline_document
        if isinstance(run.prepared.pipeline, Pipeline):
            key = document.file, document.index
            subjects.setdefault(key, _PipelineJudge(document, library)).runs.append(run)
    mutants = {
        (*key, mutant.text, mutant.path): (judge, mutant)
        for key, judge in subjects.items()
        for mutant in pipeline_mutants(judge.document.data)
        if judge.is_valid(mutant)
    }
    chosen = chosen_by_seed(list(mutants), most, seed)
    verdicts = []
    with Progress(len(chosen)) as progress:
        for name in chosen:
            judge, mutant = mutants[name]
            progress.begin(f"running mutants: {mutant.text}")
            verdicts.append(judge.verdict(mutant))
    return _report(verdicts, PIPELINE_KINDS, len(mutants))


class _PipelineJudge:
    """Judges the mutants of one pipeline's document by its scenarios."""

    def __init__(self, document: Document, library: Library) -> None:
        self.document, self._library = document, library
        self.runs: list[ObservedRun] = []

    def is_valid(self, mutant: PipelineMutant) -> bool:
        """Return whether a pipeline with this fault can be run at all."""
        try:
            self._mutated(mutant)
        except (SimkitError, LookupError):
            return False
        return True

    def _mutated(self, mutant: PipelineMutant) -> Library:
        document = self.document.with_data(apply_edits(self.document.data, mutant.edits))
        library = self._library.with_document(document)
        library.pipeline(document)
        return library

    def verdict(self, mutant: PipelineMutant) -> Verdict | None:
        """Return what noticed a mutant; None if no scenario shows anything of it."""
        library = self._mutated(mutant)
        survivor: Verdict | None = None
        for run in self._runs_for(mutant):
            if mutant.agent and not _uses(run, mutant.agent):
                continue
            by, view = _noticed(run, library)
            if by:
                return self._verdict(mutant, run, by=by)
            if survivor is None and view is not None:
                judge = TraceJudge(run)
                difference = judge.difference(view)
                if difference is not None:
                    turn, claim = difference
                    survivor = self._verdict(
                        mutant, run, turn=turn, claim=claim, at=judge.where(turn)
                    )
        return survivor

    def _runs_for(self, mutant: PipelineMutant) -> Sequence[ObservedRun]:
        """Return the runs to repeat; a restart is a new process, which takes a second.

        So scenarios with restarts come last, and only for what may be lost in them, unless a
        pipeline has no others.
        """
        restarts = [run for run in self.runs if _restarts(run)]
        others = [run for run in self.runs if not _restarts(run)]
        return [*others, *restarts] if mutant.kind in _LASTING or not others else others

    def _verdict(self, mutant: PipelineMutant, run: ObservedRun, **rest: Any) -> Verdict:
        return Verdict(
            pipeline=run.prepared.pipeline.pipeline,
            kind=mutant.kind,
            text=mutant.text,
            scenario=run.prepared.item.id,
            where=f"{self.document.file}:{self.document.line(mutant.path)}",
            **{"by": "", **rest},
        )


_LASTING: Final = ("reducers", "scopes", "writes")
"""The kinds of mutants that change what a restart finds."""


def _restarts(run: ObservedRun) -> bool:
    return any(turn.restart for turn in run.prepared.scenario.turns)


def _uses(run: ObservedRun, agent: str) -> bool:
    """Return whether an agent ran, or a node of a graph that it defines, or its summaries."""
    pipeline, view = run.prepared.pipeline, run.outcome.view
    names = {run_view.agent for run_view in view.runs.values()}
    names |= {call.agent for call in view.calls.values()}
    if isinstance(pipeline, Pipeline) and pipeline.flow.graph is not None:
        nodes = pipeline.flow.graph.nodes
        names = {(nodes[name].agent or name) if name in nodes else name for name in names}
    return agent in names


def _noticed(run: ObservedRun, library: Library) -> tuple[str, View | None]:
    """Return what noticed a fault in a scenario; if nothing did, what happened there instead."""
    try:
        with output_to_stderr(), gc_paused:
            outcome = simulate(library.prepared(run.prepared.item))
    except SimkitError:
        # The script no longer fits the pipeline, which fails the scenario, too.
        return "error", None
    if not outcome.passed:
        is_claim = any(finding.id == CLAIM for finding in outcome.judgement.findings)
        return "claim" if is_claim else "lint", None
    before = run.outcome
    is_same = outcome.trace.events[1:] == before.trace.events[1:]
    # The events have what was written; the state follows from that and from the channels.
    if is_same and outcome.view.pipeline.channels == before.view.pipeline.channels:
        return "", None
    return "", outcome.view


def _joined(reports: Sequence[MutationReport]) -> MutationReport:
    return MutationReport(
        verdicts=[verdict for report in reports for verdict in report.verdicts],
        kinds=list(dict.fromkeys(kind for report in reports for kind in report.kinds)),
        total=sum(report.total for report in reports),
        equivalent=sum(report.equivalent for report in reports),
    )
