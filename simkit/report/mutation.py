"""Mutation scores as text and JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

import msgspec

from simkit.core.text import counted
from simkit.report.coverage import percent_text, score_table
from simkit.spec.scenario.writing import flow

FORMAT: Final = 1
"""The version of the JSON."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """One mutant, and whether a claim or a lint noticed it."""

    pipeline: str
    kind: str
    text: str
    """The change."""
    places: int = 1
    """The number of places in all runs where the fact could be changed."""
    by: str
    """``claim``, ``lint`` or ``error``; empty if it survived."""
    scenario: str
    """The id of the scenario that noticed it; else of the first one in which it could."""
    where: str
    """``file:line`` of the turn, or of the changed part of the pipeline."""
    turn: int = 0
    claim: Mapping[str, Any] = {}
    """The claims under the turn's `expect` that would have noticed it."""
    at: str = ""
    """``file:line`` of that turn, if ``where`` is in a pipeline's file."""

    @property
    def is_killed(self) -> bool:
        """Return whether something noticed it."""
        return bool(self.by)


class MutationReport(msgspec.Struct, frozen=True, kw_only=True):
    """The verdicts on the chosen mutants."""

    verdicts: Sequence[Verdict]
    kinds: Sequence[str]
    """All kinds, in the order of the table."""
    total: int
    """The number of mutants from which these were chosen."""
    equivalent: int = 0
    """The number of chosen mutants that no claim could notice; they do not count."""

    @property
    def killed(self) -> int:
        """Return the number of mutants that were noticed."""
        return sum(verdict.is_killed for verdict in self.verdicts)

    @property
    def percent(self) -> float:
        """Return the mutation score; 100 if there is no mutant."""
        return 100 * self.killed / len(self.verdicts) if self.verdicts else 100.0

    @property
    def survivors(self) -> list[Verdict]:
        """Return the mutants that nothing noticed."""
        return [verdict for verdict in self.verdicts if not verdict.is_killed]


def mutation_lines(report: MutationReport) -> Iterator[str]:
    """Yield the scores by kind, and each survivor with the claim that would kill it."""
    rows = [
        (kind, *_counts(group))
        for kind in report.kinds
        if (group := [verdict for verdict in report.verdicts if verdict.kind == kind])
    ]
    rows.append(("total", *_counts(report.verdicts)))
    yield from score_table(("kind", "killed", "of", "%"), rows)
    by_place = sorted(report.survivors, key=_place)
    for where, at_place in groupby(by_place, lambda verdict: verdict.where):
        yield ""
        yield where
        # One claim may notice several mutants.
        for (at, claim), of_claim in groupby(at_place, lambda v: (v.at, flow(v.claim))):
            for verdict in of_claim:
                more = f" ({verdict.places} places)" if verdict.places > 1 else ""
                yield f"  SURVIVED  {verdict.text}{more}"
            if claim != "{}":
                yield f"    {at}  expect: {claim}" if at else f"    expect: {claim}"


def _place(verdict: Verdict) -> tuple[str, int]:
    file, _, line = verdict.where.rpartition(":")
    return file, int(line)


def score_line(report: MutationReport, seed: int) -> str:
    """Return the last line: the score, and how the mutants were chosen."""
    judged = len(report.verdicts) + report.equivalent
    chosen = "" if judged == report.total else f", chosen from {report.total} by seed {seed}"
    same = f"; {report.equivalent} that no claim could notice left out" if report.equivalent else ""
    return (
        f"killed: {report.killed} of {counted(len(report.verdicts), 'mutant')} "
        f"({percent_text(report.percent)} %){chosen}{same}"
    )


def mutation_json(report: MutationReport, seed: int, version: str, notes: Sequence[str]) -> str:
    """Return the report as JSON."""
    return json.dumps(
        {
            "version": FORMAT,
            "simkit": version,
            "seed": seed,
            "killed": report.killed,
            "total": len(report.verdicts),
            "percent": round(report.percent, 2),
            "chosen_from": report.total,
            "equivalent": report.equivalent,
            "mutants": [
                {
                    "pipeline": verdict.pipeline,
                    "kind": verdict.kind,
                    "text": verdict.text,
                    "killed_by": verdict.by or None,
                    "scenario": verdict.scenario,
                    "where": verdict.where,
                    "turn": verdict.turn,
                    **({"at": verdict.at} if verdict.at else {}),
                    "places": verdict.places,
                    **({"expect": verdict.claim} if verdict.claim else {}),
                }
                for verdict in report.verdicts
            ],
            "notes": [*notes],
        },
        indent=2,
        ensure_ascii=False,
    )


def _counts(verdicts: Sequence[Verdict]) -> tuple[str, str, str]:
    report = MutationReport(verdicts=verdicts, kinds=(), total=0)
    return str(report.killed), str(len(verdicts)), percent_text(report.percent)
