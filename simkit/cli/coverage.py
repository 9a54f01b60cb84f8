"""Implementation of ``simkit coverage``: run scenarios, or read traces; say what is missing."""

from __future__ import annotations

from collections.abc import Sequence

from simkit.checks.coverage import Measurement, coverage_of
from simkit.cli.observed_runs import ObservedRuns
from simkit.core.output import echo, echo_json
from simkit.core.text import counted
from simkit.report.coverage import (
    coverage_json,
    coverage_lcov,
    coverage_lines,
    percent_text,
    summary_line,
)


def coverage(paths: Sequence[str], expression: str, form: str, fail_under: float) -> int:
    """Measure and print coverage; return 1 if it is below ``fail_under``, 2 for a broken file."""
    runs, measurement = ObservedRuns(paths, expression, "running"), Measurement()
    for run in runs:
        prepared = run.prepared
        measurement.add(prepared.pipeline, prepared.pipeline_document, run.outcome.view)
    report, notes = (
        coverage_of(measurement.items()),
        list(runs.notes("and counted all the same: `simkit replay` shows why")),
    )
    if form == "json":
        from simkit import __version__

        echo_json(coverage_json(report, __version__, notes))
    elif form == "lcov":
        echo(coverage_lcov(report))
        for note in notes:
            echo(note, err=True)
    else:
        for line in (*coverage_lines(report), "", *notes):
            echo(line)
        echo(f"{summary_line(report)} by {counted(runs.ran, 'scenario')}")
    # The shares are compared as they are printed.
    is_below = float(percent_text(report.percent)) < fail_under
    if is_below:
        echo(f"coverage is below --fail-under {fail_under:g}", err=True)
    return 2 if runs.problems else int(is_below)
