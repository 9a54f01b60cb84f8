"""Implementation of ``simkit view``: read traces, judge them, write one page, open it."""

from __future__ import annotations

import contextlib
import os
import sys
import webbrowser
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from simkit import __version__, viewer
from simkit.checks.coverage import CoverageReport, coverage_of
from simkit.cli.console import Progress
from simkit.cli.judge import JudgeRunner, ObservedRuns, files_at
from simkit.cli.plan import RunPlan, share_exit_code
from simkit.cli.running import Job
from simkit.cli.selection import select
from simkit.cli.traces import SUFFIX, stored, stored_pairs, trace_files, unchanged
from simkit.core import output
from simkit.core.answers import answer, note_written
from simkit.core.errors import SimkitError, SourceError, TraceError
from simkit.core.files import check_place, write_whole
from simkit.core.text import counted, shell_word
from simkit.report.diffs import Compared, diff_object
from simkit.report.last_run import FOLDER, make_folder
from simkit.report.results import Result
from simkit.report.scores import coverage_json, coverage_lcov, coverage_lines, summary_line
from simkit.runtime.compiled import compile_pipeline, facts_of
from simkit.session.simulate import run
from simkit.spec.pipeline.model import Limits, Pipeline
from simkit.spec.scenario.files import Library
from simkit.spec.scenario.items import PIPELINE_SUFFIX, is_pipeline
from simkit.trace.store import redacted
from simkit.trace.views import view_of
from simkit.update.files import is_ci

REPORT: Final = "report.html"


def view(traces: Sequence[str], question: str, file: str, base: str, opens: bool) -> int:
    """Write the page of traces; return 0. ``base`` is a trace or a folder to compare with.

    Raise SimkitError if there is no trace, or the page cannot be written.
    """
    place = file or str(Path(FOLDER, REPORT))
    if file:
        check_place(place, "-o")
    with unchanged(traces or (FOLDER,)):
        files = files_at(traces)
        pairs, base_only = _pairs(base, traces) if base else ({}, [])
        with Progress(len(files) + len(base_only)) as progress:
            scenarios = list(_scenarios(files, question, pairs, base_only, progress))
    if not any(page.run for page in scenarios):
        raise SimkitError(_no_trace(files[0], scenarios[0].scenario.error))
    if not file:
        make_default_folder()
    sides = (base, ", ".join(traces) or "the last run") if base else ("", "")
    title = ", ".join(traces) or "the last run"
    report = write_page(place, title, scenarios, sides)
    output.echo(f"{counted(len(scenarios), 'scenario')}: wrote {report}")
    open_page(place, opens)
    return 0


def _no_trace(file: str, problem: str) -> str:
    """Return the error of files of which none is a trace, so that a page would show nothing."""
    if not file.endswith((".yaml", ".yml")):
        return problem
    command = f"simkit replay {shell_word(str(file))} --html report.html"
    return f"{problem}\n  To run a scenario and see it: `{command}`."


def _scenarios(
    files: Sequence[str],
    question: str,
    pairs: dict[str, Compared],
    base_only: Sequence[Compared],
    progress: Progress,
) -> Iterator[viewer.RunPage]:
    """Yield the pages of traces, then of those that only the base has."""
    runner = _Viewer(Job(details="none", makes_pages=True), question)
    for file in files:
        progress.begin(Path(file).name)
        page = runner.page_of(file)
        pair = pairs.get(os.path.realpath(file))
        yield page if pair is None else _with_base(page, pair, runner)
    for pair in base_only:
        progress.begin(Path(pair.sources[0]).name)
        base = runner.page_of(pair.sources[0])
        yield _with_base(msgspec.structs.replace(base, run="", graph=None), pair, runner)


class _Viewer(JudgeRunner):
    """Judges traces for a page; a trace without a scenario is shown without claims."""

    def page_of(self, file: str) -> viewer.RunPage:
        """Return the page of one trace."""
        ran = self.ran_on(file)
        page = ran.page
        assert page is not None
        if page.run:
            return page
        try:
            trace = stored(file)
        except TraceError:
            return page  # Its error is on the page.
        result = msgspec.structs.replace(
            ran.result,
            name=ran.result.name or trace.started.scenario,
            pipeline=trace.view.pipeline.name,
            seed=trace.started.seed,
        )
        unjudged = viewer.run_page(result, trace.view)
        scenario = msgspec.structs.replace(
            unjudged.scenario,
            outcome="unjudged",
            turns=len(trace.view.turns),
            calls=len(trace.view.calls),
            tokens=sum(call.context.tokens for call in trace.view.calls.values()),
        )
        return msgspec.structs.replace(unjudged, scenario=scenario)


# Two runs


def _pairs(base: str, traces: Sequence[str]) -> tuple[dict[str, Compared], list[Compared]]:
    """Return the trace pairs by the real path of the second, and those of the base alone."""
    if len(traces) > 1:
        raise SimkitError("--diff compares one trace or folder with another; name one")
    pairs = list(stored_pairs(base, traces[0] if traces else ""))
    both = {os.path.realpath(pair.sources[1]): pair for pair in pairs if pair.sources[1]}
    return both, [pair for pair in pairs if not pair.sources[1]]


def _base_page(pair: Compared, runner: _Viewer) -> viewer.RunPage:
    """Return the page of a base's trace; one that names no scenario has that of its pair."""
    page = runner.page_of(pair.sources[0])
    if page.scenario.outcome != "unjudged" or not pair.file:
        return page
    return _Viewer(Job(details="none", makes_pages=True), pair.name).page_of(pair.sources[0])


def _with_base(page: viewer.RunPage, pair: Compared, runner: _Viewer) -> viewer.RunPage:
    """Return a page with the differences, and the base's run, judged like its own."""
    scenario = msgspec.structs.replace(page.scenario, diff=diff_object(pair))
    base = _base_page(pair, runner) if pair.sources[0] else None
    return msgspec.structs.replace(page, scenario=scenario, base=base)


DEFAULT: Final = str(Path(FOLDER, "graph.html"))
TEXTS: Final = {"mermaid": viewer.mermaid_text, "dot": viewer.dot_text}
FORMS: Final = ("page", *TEXTS)


def draw(path: str, form: str, file: str, opens: bool) -> int:
    """Draw the pipeline at a path: a pipeline, a scenario, or traces; return 0.

    Text is printed unless a file is named. A page is written and opened. Raise SimkitError if there
    is no pipeline, or several, or the file cannot be written.
    """
    if form == "page" and file:
        check_place(file, "-o")
    graphs = viewer.together(_graphs(path))
    if len(graphs) != 1:
        names = ", ".join(graph.name for graph in graphs) or "none"
        raise SourceError(path, f"a picture is of one pipeline, and here are: {names}")
    if form == "json":
        answer(pipeline=graphs[0])
        return 0
    if form == "page":
        if not file:
            make_default_folder()
        output.echo(
            f"{graphs[0].name or path}: wrote {write_graph_page(file or DEFAULT, path, graphs)}"
        )
        open_page(file or DEFAULT, opens)
        return 0
    text = output.picture(TEXTS[form](graphs[0]))
    if file:
        write_file(file, f"{text}\n".encode(), "-o")
    else:
        output.echo_picture(text)
    return 0


def _graphs(path: str) -> Iterator[viewer.Graph]:
    file = path.partition("::")[0]
    if Path(file).is_dir() or file.endswith(SUFFIX):
        for name in trace_files(file):
            view = stored(name).view
            yield viewer.graph_of(view.pipeline, view)
        return
    library = Library()
    if file.endswith(PIPELINE_SUFFIX):
        for document in library.documents(file):
            if is_pipeline(document.data):
                subject = library.subject(document)
                if not isinstance(subject, Pipeline):
                    raise SourceError(
                        file,
                        "this pipeline is code, and only a run shows its agents",
                        advice="Name one of its scenarios, which is run for that, or a trace.",
                    )
                yield viewer.graph_of(facts_of(compile_pipeline(subject), Limits()))
        return
    for entry in select([path], library.cache).entries:
        if isinstance(entry, Result):
            raise SourceError(path, entry.error)
        prepared = library.prepared(entry)
        if isinstance(prepared.pipeline, Pipeline):
            yield viewer.graph_of(facts_of(compile_pipeline(prepared.pipeline), Limits()))
            continue
        # Output of a user's function must not be inside a picture.
        with contextlib.redirect_stdout(sys.stderr):
            trace = redacted(run(prepared), output.current_redactor().line)
        view = view_of(trace.events)
        yield viewer.graph_of(view.pipeline, view)


def with_bases(pages: Sequence[viewer.RunPage], pairs: Iterable[Compared]) -> list[viewer.RunPage]:
    """Return pages with the differences of their runs, and the runs on the other side."""
    runner = _Viewer(Job(details="none", makes_pages=True), "")
    by_id = {pair.name: pair for pair in pairs}
    return [
        page if (pair := by_id.get(page.scenario.id)) is None else _with_base(page, pair, runner)
        for page in pages
    ]


# Pages: written completely or not at all, and opened, for `view`, `graph` and `replay --html`


LARGE: Final = 1_000_000
"""In bytes: pages from here on are said to be so large."""


def write_page(
    file: str, title: str, scenarios: Sequence[viewer.RunPage], sides: tuple[str, str] = ("", "")
) -> str:
    """Write a page, and return its file for the user, with its size if it is large.

    Raise SimkitError if it cannot be written.
    """
    return _write(file, viewer.Page(title, __version__, scenarios, sides))


def make_default_folder() -> None:
    """Make the folder for a page that no option names; raise SimkitError."""
    try:
        make_folder(Path(FOLDER))
    except OSError as problem:
        if Path(FOLDER).is_dir() and not Path(FOLDER).is_symlink():
            return  # Its .gitignore is missing, which keeps no page from being written.
        raise SimkitError(
            f"the page: the folder {FOLDER} cannot be made: {problem.strerror}\n"
            "  Name a file somewhere else with -o."
        ) from None


def write_coverage_page(
    file: str, title: str, collected: viewer.RunsCoverage, measured: str, notes: Sequence[str] = ()
) -> str:
    """Write a page of coverage, and return its file for the user; raise SimkitError.

    ``measured`` says what was run, such as ``5 scenarios``.
    """
    redactor = output.current_redactor()
    data = output.without_secrets(viewer.coverage_data(collected, measured, notes), redactor)
    page = viewer.Page(redactor.text(title), __version__, (), coverage=data)
    return _write(file, page)


def write_graph_page(file: str, title: str, graphs: Sequence[viewer.Graph]) -> str:
    """Write a page of pipelines, and return its file for the user; raise SimkitError."""
    redactor = output.current_redactor()
    clean = [output.without_secrets(graph, redactor) for graph in graphs]
    return _write(file, viewer.Page(redactor.text(title), __version__, (), graphs=clean))


def open_page(file: str, opens: bool) -> None:
    """Open a page in the browser if the user sits at a terminal; ``opens`` is the option."""
    if opens and sys.stdout.isatty() and not is_ci(os.environ):
        webbrowser.open(Path(file).resolve().as_uri())


def _write(file: str, page: viewer.Page) -> str:
    content = viewer.page_html(page).encode()
    write_file(file, content, "the page")
    size = f" ({len(content) / 1e6:.1f} MB)" if len(content) >= LARGE else ""
    return f"{file}{size}"


def write_file(file: str, content: bytes, option: str) -> None:
    """Write a file completely or not at all; raise SimkitError if that is impossible."""
    check_place(file, option)
    try:
        write_whole(Path(file), content)
    except OSError as problem:
        raise SimkitError(f"{option}: {file} cannot be written: {problem.strerror}") from None
    note_written(file)


# Implementation of `simkit coverage`: run scenarios, or read traces; say what is missing.


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
    collector = viewer.CoverageCollector()
    for observed in runs:
        collector.add(observed.prepared, observed.outcome.view)
    collected = collector.coverage()
    report = coverage_of(collected.items)
    notes = list(runs.notes("and counted all the same: `simkit replay` shows why"))
    by = counted(runs.ran, "scenario")
    if form == "html":
        title = ", ".join(paths) or "all scenarios"
        if not file:
            make_default_folder()
        path = write_coverage_page(file or str(Path(FOLDER, PAGE)), title, collected, by, notes)
        for note in notes:
            output.echo(note)
        output.echo(f"{summary_line(report)} by {by}: wrote {path}")
    else:
        _say(form, file, report, by, notes)
    nothing = "coverage of nothing, since nothing ran,"
    return share_exit_code(report.percent, fail_under, "coverage", nothing, runs.problems)


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
        content = output.json_document(text) if form == "json" else output.picture(text)
        write_file(file, f"{content}\n".encode(), "-o")
        output.echo(f"{summary_line(report)} by {by}: wrote {file}")
    elif form == "json":
        output.echo_json(text)
    else:
        output.echo(text)
    if form == "lcov":
        for note in notes:
            output.echo(note, err=True)
