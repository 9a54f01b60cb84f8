"""Coverage as text, JSON and LCOV; mutation scores as text and JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, groupby
from typing import Any, Final

import msgspec

from simkit.checks.coverage import KINDS, CoverageReport, PlacedItem
from simkit.core.text import counted
from simkit.spec.scenario.writing import flow

FORMAT: Final = 1
"""The version of the JSON."""


_ITEM: Final = ("pipeline", "kind", "name", "file", "line", "hits")
_MUTANT: Final = ("pipeline", "kind", "text", "scenario", "where", "turn", "places")


def coverage_lines(report: CoverageReport) -> Iterator[str]:
    """Yield the counts by kind and by file, and then what is missing, with a way to cover it."""
    items = report.items
    yield from _table("kind", {kind: _of_kind(items, kind) for kind in KINDS})
    files = {item.file: [i for i in items if i.file == item.file] for item in items}
    if len(files) > 1:
        yield ""
        yield from _table("file", files)
    missing = (item for item in items if not item.hits)
    for _, rows in groupby(missing, lambda item: item.file):
        yield ""
        yield from _missing_lines(list(rows))


def summary_line(report: CoverageReport) -> str:
    """Return ``covered: 41 of 50 items (82.0 %)``."""
    total = counted(len(report.items), "item")
    return f"covered: {report.covered} of {total} ({percent_text(report.percent)} %)"


def percent_text(percent: float | None) -> str:
    """Return a share with one digit, rounded down: 100.0 only if all is covered."""
    return "-" if percent is None else f"{int(percent * 10) / 10:.1f}"


def coverage_json(report: CoverageReport, version: str, notes: Sequence[str]) -> str:
    """Return the report as JSON."""
    return _json(
        version,
        notes,
        {
            "covered": report.covered,
            "total": len(report.items),
            "percent": report.percent and round(report.percent, 2),
            "kinds": {
                kind: {"covered": sum(i.hits > 0 for i in rows), "total": len(rows)}
                for kind in KINDS
                if (rows := _of_kind(report.items, kind))
            },
            "items": [
                {
                    **{name: getattr(item, name) for name in _ITEM},
                    **({"code": item.code} if item.code else {}),
                    **({} if item.hits else {"hint": item.hint}),
                }
                for item in report.items
            ],
        },
    )


def _json(version: str, notes: Sequence[str], fields: Mapping[str, Any]) -> str:
    whole = {"version": FORMAT, "simkit": version, **fields, "notes": [*notes]}
    return json.dumps(whole, indent=2, ensure_ascii=False)


def coverage_lcov(report: CoverageReport) -> str:
    """Return an LCOV tracefile: one record a file; a line with several items has a branch each.

    A line is covered if something on it happened; its branches say whether all of it did.
    """
    lines = []
    for file, in_file in groupby(report.items, lambda item: item.file):
        by_line = {line: list(rows) for line, rows in groupby(in_file, lambda item: item.line)}
        branches = [
            (line, branch, item.hits)
            for line, rows in by_line.items()
            for branch, item in enumerate(rows)
            if len(rows) > 1
        ]
        hits = {line: max(item.hits for item in rows) for line, rows in by_line.items()}
        lines += ["TN:simkit", f"SF:{file}"]
        lines += [f"BRDA:{line},0,{branch},{count}" for line, branch, count in branches]
        lines += [f"BRF:{len(branches)}", f"BRH:{sum(count > 0 for _, _, count in branches)}"]
        lines += [f"DA:{line},{count}" for line, count in hits.items()]
        lines += [f"LF:{len(hits)}", f"LH:{sum(count > 0 for count in hits.values())}"]
        lines.append("end_of_record")
    return "\n".join(lines)


def _of_kind(items: Sequence[PlacedItem], kind: str) -> list[PlacedItem]:
    return [item for item in items if item.kind == kind]


def _table(head: str, groups: Mapping[str, Sequence[PlacedItem]]) -> Iterator[str]:
    flags = {name: [item.hits > 0 for item in group] for name, group in groups.items()}
    yield from _score_table((head, "covered", "of", "%"), flags)


def _score_table(heads: Sequence[str], groups: Mapping[str, Sequence[bool]]) -> Iterator[str]:
    """Yield the lines of a table: how many of each group count, and of all together."""
    # Here, since every command imports this module, and few write such a table.
    from tabulate import tabulate

    rows = {name: group for name, group in groups.items() if group}
    rows["total"] = [*chain.from_iterable(groups.values())]
    cells = [
        (name, sum(row), len(row), percent_text(100 * sum(row) / len(row)) if row else "-")
        for name, row in rows.items()
    ]
    align = ("left", "right", "right", "right")
    text = tabulate(cells, headers=heads, disable_numparse=True, colalign=align)
    yield from (line.rstrip() for line in text.split("\n"))


def _missing_lines(items: Sequence[PlacedItem]) -> Iterator[str]:
    """Yield two lines for each item; what an agent that never ran would do is only counted."""
    idle = {item.name for item in items if item.kind == "agents"}
    waiting = [item for item in items if item.agent in idle]
    for item in items:
        if item in waiting:
            continue
        of_it = sum(other.agent == item.name for other in waiting) if item.kind == "agents" else 0
        also = f" (and so {counted(of_it, 'item')} of it)" if of_it else ""
        code = f" ({item.code})" if item.code else ""
        yield f"{item.file}:{item.line}  {item.kind}: {item.name}{code}{also}"
        if item.hint:
            yield f"    cover it with {item.hint}"


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
    def percent(self) -> float | None:
        """Return the mutation score; None if there is no mutant."""
        return 100 * self.killed / len(self.verdicts) if self.verdicts else None


def mutation_lines(report: MutationReport) -> Iterator[str]:
    """Yield the scores by kind, and each survivor with the claim that would kill it."""
    groups = {
        kind: [verdict.is_killed for verdict in report.verdicts if verdict.kind == kind]
        for kind in report.kinds
    }
    yield from _score_table(("kind", "killed", "of", "%"), groups)
    survivors = [verdict for verdict in report.verdicts if not verdict.is_killed]
    for where, at_place in groupby(sorted(survivors, key=_place), lambda verdict: verdict.where):
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
    if not report.verdicts:
        return f"no mutant to kill: there is no score{same}"
    return (
        f"killed: {report.killed} of {counted(len(report.verdicts), 'mutant')} "
        f"({percent_text(report.percent)} %){chosen}{same}"
    )


def mutation_json(report: MutationReport, seed: int, version: str, notes: Sequence[str]) -> str:
    """Return the report as JSON."""
    return _json(
        version,
        notes,
        {
            "seed": seed,
            "killed": report.killed,
            "total": len(report.verdicts),
            "percent": report.percent and round(report.percent, 2),
            "chosen_from": report.total,
            "equivalent": report.equivalent,
            "mutants": [
                {
                    **{name: getattr(verdict, name) for name in _MUTANT},
                    "killed_by": verdict.by or None,
                    **({"at": verdict.at} if verdict.at else {}),
                    **({"expect": verdict.claim} if verdict.claim else {}),
                }
                for verdict in report.verdicts
            ],
        },
    )
