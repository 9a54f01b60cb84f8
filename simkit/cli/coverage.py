"""Implementation of ``simkit coverage``: run scenarios, or read traces; say what is missing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from simkit.checks.coverage import CoverageReport, coverage_of
from simkit.cli.judge import ObservedRuns
from simkit.cli.plan import RunPlan, share_exit_code
from simkit.cli.view import make_default_folder, write_coverage_page, write_file
from simkit.core.files import check_place
from simkit.core.output import echo, echo_json, json_document, picture
from simkit.core.text import counted
from simkit.report.last_run import FOLDER
from simkit.report.scores import coverage_json, coverage_lcov, coverage_lines, summary_line
from simkit.viewer import CoverageCollector

PAGE: Final = "coverage.html"


def coverage(
    paths: tuple[str, ...], expression: str, form: str, file: str, fail_under: float
) -> int:
    """Measure and report coverage; return 1 if it is below ``fail_under``, 2 for a broken file.

    ``file`` is where the report is written; empty for stdout, and for a page in `.simkit/`.
    """
    if file:
        check_place(file, "-o")
    runs = ObservedRuns(RunPlan(paths=paths, expression=expression))
    collector = CoverageCollector()
    for run in runs:
        collector.add(run.prepared, run.outcome.view)
    collected = collector.coverage()
    report = coverage_of(collected.items)
    notes = list(runs.notes("and counted all the same: `simkit replay` shows why"))
    by = counted(runs.ran, "scenario")
    if form == "html":
        title = ", ".join(paths) or "all scenarios"
        if not file:
            make_default_folder()
        place = write_coverage_page(file or str(Path(FOLDER, PAGE)), title, collected, by, notes)
        for note in notes:
            echo(note)
        echo(f"{summary_line(report)} by {by}: wrote {place}")
    else:
        _say(form, file, report, by, notes)
    percent = report.percent if report.items else None
    nothing = "coverage of nothing, since nothing ran,"
    return share_exit_code(percent, fail_under, "coverage", nothing, runs.problems)


def _say(form: str, file: str, report: CoverageReport, by: str, notes: Sequence[str]) -> None:
    """Print the report, or write it to a file, and then print what is not in the file."""
    from simkit import __version__

    text = {
        "json": lambda: coverage_json(report, __version__, notes),
        "lcov": lambda: coverage_lcov(report),
        "text": lambda: "\n".join(
            [*coverage_lines(report), "", *notes, f"{summary_line(report)} by {by}"]
        ),
    }[form]()
    if file:
        content = json_document(text) if form == "json" else picture(text)
        write_file(file, f"{content}\n".encode(), "-o")
        echo(f"{summary_line(report)} by {by}: wrote {file}")
    elif form == "json":
        echo_json(text)
    else:
        echo(text)
    if form == "lcov":
        for note in notes:
            echo(note, err=True)
