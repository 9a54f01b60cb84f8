"""Implementation of ``simkit mutate``: change facts, judge again, and list what nothing noticed."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from heapq import nsmallest
from typing import Any, Final, TypeVar

import msgspec

from simkit.checks.mutants import (
    IMPOSSIBLE,
    KINDS,
    TraceMutant,
    claims_hold,
    expectation_holds,
    lints_hold,
    mutated,
    trace_mutants,
)
from simkit.cli.observed_runs import ObservedRun, ObservedRuns
from simkit.core.errors import SimkitError
from simkit.core.output import echo, echo_json
from simkit.report.coverage import percent_text
from simkit.report.mutation import (
    MutationReport,
    Verdict,
    mutation_json,
    mutation_lines,
    score_line,
)
from simkit.runtime.functions import function_named
from simkit.spec.scenario.claims import Expect
from simkit.trace.views import View, view_of
from simkit.update.fact_claims import claims_on, literal
from simkit.update.observed_values import StableClaims, words_of

T = TypeVar("T")
PLACES_MAX: Final = 30
"""The number of places at which one fact is changed before it counts as unnoticed."""


class MutateOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The call of the command."""

    paths: tuple[str, ...]
    expression: str
    most: int
    seed: int
    is_of_traces: bool
    form: str
    fail_under: float


def mutate(call: MutateOptions) -> int:
    """Judge mutants and print their verdicts; return 1 if the score is below ``fail_under``."""
    runs = ObservedRuns(call.paths, call.expression, "running")
    # A scenario that fails already notices nothing.
    sound = [run for run in runs if run.outcome.passed]
    report = _traces(sound, call)
    notes = list(runs.notes("and left out: `simkit replay` shows why"))
    if call.form == "json":
        from simkit import __version__

        echo_json(mutation_json(report, call.seed, __version__, notes))
    else:
        for line in (*mutation_lines(report), "", *notes, score_line(report, call.seed)):
            echo(line)
    is_below = float(percent_text(report.percent)) < call.fail_under
    if is_below:
        echo(f"the mutation score is below --fail-under {call.fail_under:g}", err=True)
    return 2 if runs.problems else int(is_below)


def _traces(runs: Sequence[ObservedRun], call: MutateOptions) -> MutationReport:
    """Judge the mutants of all traces: a mutant is a fact, changed in one run after the other."""
    places: dict[tuple[str, str, str], list[tuple[int, TraceMutant]]] = {}
    for place, run in enumerate(runs):
        pipeline = run.prepared.pipeline_document
        name = f"{pipeline.file}#{run.prepared.pipeline.pipeline}"
        for mutant in trace_mutants(run.outcome.view):
            places.setdefault((name, mutant.kind, mutant.text), []).append((place, mutant))
    chosen = chosen_by_seed(list(places), call.most, call.seed)
    judges = [_TraceJudge(run) for run in runs]
    verdicts = [_verdict(judges, places[fact]) for fact in chosen]
    noticeable = [verdict for verdict in verdicts if verdict is not None]
    return MutationReport(
        verdicts=noticeable,
        kinds=KINDS,
        total=len(places),
        equivalent=len(verdicts) - len(noticeable),
    )


def _verdict(
    judges: Sequence[_TraceJudge], places: Sequence[tuple[int, TraceMutant]]
) -> Verdict | None:
    """Return the first verdict of death, else the first of survival; None if no claim can see it.

    Of many places, only some are tried.
    """
    survivor: Verdict | None = None
    step = max(len(places) // PLACES_MAX, 1)
    for place, mutant in places[::step]:
        verdict = judges[place].verdict(mutant)
        if verdict is not None:
            verdict = msgspec.structs.replace(verdict, places=len(places))
            if verdict.is_killed:
                return verdict
            survivor = survivor or verdict
    return survivor


def chosen_by_seed(rows: Sequence[T], most: int, seed: int) -> list[T]:
    """Return the rows that the seed chooses, in their order; other rows do not change a choice."""
    ranked = [
        (hashlib.sha256(f"{seed}/{row}".encode()).digest(), place) for place, row in enumerate(rows)
    ]
    return [rows[place] for place in sorted(place for _, place in nsmallest(most, ranked))]


class _TraceJudge:
    """Judges the mutants of one run."""

    def __init__(self, run: ObservedRun) -> None:
        self._run = run
        prepared = run.prepared
        self._scenario, self._document = prepared.scenario, prepared.document
        self._places: dict[int, str] = {}
        self._stable = StableClaims(prepared.redactor(os.environ), words_of(prepared.document.data))

    def verdict(self, mutant: TraceMutant) -> Verdict | None:
        """Return what noticed a mutant; None if nothing could."""
        try:
            return self._verdict(mutant)
        except IMPOSSIBLE:
            return None

    def _verdict(self, mutant: TraceMutant) -> Verdict | None:
        events = mutated(self._run.outcome.trace.events, mutant.changes())
        view = view_of(events)
        scenario, document = self._scenario, self._document
        by, claim = "", dict[str, Any]()
        if not claims_hold(scenario, document, view, function_named, mutant.turn - 1):
            by = "claim"
        elif not lints_hold(scenario, document, events):
            by = "lint"
        else:
            killing = self._killing(mutant, view)
            if killing is None:
                return None
            claim = killing
        return Verdict(
            pipeline=self._run.prepared.pipeline.pipeline,
            kind=mutant.kind,
            text=mutant.text,
            by=by,
            scenario=self._run.prepared.item.id,
            where=self._where(mutant.turn),
            turn=mutant.turn,
            claim=literal(claim),
        )

    def _where(self, turn: int) -> str:
        if turn not in self._places:
            place = self._document.written_at(("turns", turn - 1))
            self._places[turn] = f"{self._document.file}:{self._document.line(place)}"
        return self._places[turn]

    def _killing(self, mutant: TraceMutant, view: View) -> dict[str, Any] | None:
        """Return the first claim that holds for the run, but not for the mutant."""
        turn = self._run.outcome.view.turns[mutant.turn - 1]
        for claim in claims_on(mutant.fact, turn, self._stable):
            try:
                expect = Expect.model_validate(claim)
                holds = [
                    expectation_holds(expect, mutant.turn, self._scenario, self._document, each)
                    for each in (self._run.outcome.view, view)
                ]
            except (SimkitError, ValueError):
                continue
            if holds == [True, False]:
                return claim
        return None
