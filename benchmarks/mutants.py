"""How many trace mutants are judged in a second, by the length of the runs that they change."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Final

from benchmarks.measuring import medians
from simkit.checks.mutants import TraceMutant, trace_mutants
from simkit.cli.judge import ObservedRun, ObservedRuns
from simkit.cli.mutate import TraceJudge
from simkit.cli.plan import RunPlan

SCENARIOS: Final = Path(__file__).resolve().parents[1] / "scenarios"
SYSTEMS: Final = (
    "fitness_coach", "agent_engine", "handoff_pattern", "supervisor_context", "research_assistant",
)  # fmt: skip
LENGTHS: Final = ((0, 40), (40, 80), (80, 1000))
"""The numbers of events of a run: from, and up to."""
MUTANTS: Final = 400
"""About the number of mutants of each row."""


def rows(rounds: int) -> Sequence[Sequence[object]]:
    """Returns for runs of some length the mutants, and how many a second are judged."""
    return [*_rows(rounds)]


def _rows(rounds: int) -> Iterator[Sequence[object]]:
    with redirect_stdout(sys.stderr):
        paths = [str(SCENARIOS / system) for system in SYSTEMS]
        runs = [run for run in ObservedRuns(RunPlan(paths=tuple(paths))) if run.outcome.passed]
    yield "events of a run", "runs", "mutants", "judged a second", "ms each"
    for least, most in LENGTHS:
        fitting = [run for run in runs if least <= len(run.outcome.trace.events) < most]
        every = [[(run, one) for one in trace_mutants(run.outcome.view)] for run in fitting]
        # All mutants of some runs, as the command judges them.
        step = max(sum(map(len, every)) // MUTANTS, 1)
        pairs = [pair for of_run in every[::step] for pair in of_run]

        def judge(pairs: Sequence[tuple[ObservedRun, TraceMutant]] = pairs) -> None:
            # Judges are made anew: what they note of a run is a part of the cost.
            judges: dict[int, TraceJudge] = {}
            for run, mutant in pairs:
                judges.setdefault(id(run), TraceJudge(run)).verdict(mutant, needs_claim=False)

        seconds = medians({"judge": judge}, rounds)["judge"]
        average = sum(len(run.outcome.trace.events) for run, _ in pairs) / len(pairs)
        yield (
            f"{average:.0f}",
            len(every[::step]),
            len(pairs),
            f"{len(pairs) / seconds:,.0f}",
            f"{1000 * seconds / len(pairs):.2f}",
        )
