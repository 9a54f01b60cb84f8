"""The end of a session: reports in GitHub Actions, written proposals, and the page of all runs.

Loaded only in a workflow, and with options such as ``--simkit-update`` and ``--simkit-html``. Under
xdist each process sends its results inside pytest's own reports, and the parent writes them.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from simkit import __version__
from simkit.checks.coverage import coverage_of
from simkit.core.errors import SimkitError, TraceError
from simkit.core.files import check_place, write_whole
from simkit.core.output import clean, command, current_redactor, without_secrets
from simkit.core.text import counted
from simkit.pytest_plugin.items import Ran, ReportCarrier, documents_of
from simkit.report import diffs, scores
from simkit.report.diff_lines import Sides
from simkit.report.diffs import summary_line
from simkit.report.last_run import failure_text, slug
from simkit.report.results import Result
from simkit.spec.scenario.items import SCENARIO_SUFFIX
from simkit.update.files import refuse_in_ci
from simkit.update.proposals import accepted_lines, decoded
from simkit.viewer import (
    CoverageCollector,
    Page,
    RunPage,
    RunsCoverage,
    coverage_data,
    page_html,
    run_page,
)


class Workflow(ReportCarrier):
    """Collects the results of all processes, and writes them at the end."""

    carried_as = "simkit_result"

    def __init__(self, base: str) -> None:
        """Raise UsageError if ``base`` is given and has no trace."""
        self._base = base
        self._results: dict[str, Result] = {}
        self._pictures: dict[str, str] = {}
        if base:
            try:
                diffs.traces_in(base)
            except TraceError as problem:
                raise pytest.UsageError(f"--simkit-base: {problem}") from None

    def carried(
        self, item: Ran, call: pytest.CallInfo[None], report: pytest.TestReport
    ) -> str | None:
        """Return the result of a scenario, and its picture if it fails."""
        if call.when != "call" and report.passed:
            return None
        result = _result(item, call, report)
        return msgspec.json.encode((result, item.picture)).decode()

    def take(self, text: str) -> None:
        """Take the result of a scenario, and its picture."""
        result, picture = msgspec.json.decode(text, type=tuple[Result, str])
        self._results[result.id], self._pictures[result.id] = result, picture

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Record an unreadable file."""
        file = report.nodeid
        if report.failed and file.endswith(SCENARIO_SUFFIX):
            error = report.longreprtext.strip()
            self._results[file] = Result(file, file, 1, "", "broken", error=error)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Write annotations, the summary of the step, and the number of changed scenarios."""
        results = list(self._results.values())
        if not results or hasattr(terminalreporter.config, "workerinput"):
            # Each process of xdist has its own terminal, which is not shown.
            return
        pairs = list(diffs.compared(results, self._base)) if self._base else None
        if diffs.is_workflow(os.environ):
            for line in diffs.workflow_commands(results, os.environ):
                terminalreporter.write_line(command(line))
            pictures = {name: text for name, text in self._pictures.items() if text}
            page = terminalreporter.config.getoption("--simkit-html") or ""
            note = diffs.add_summary(results, os.environ, pairs, pictures, page)
            if note:
                terminalreporter.write_line(clean(f"simkit: {note}"))
        if pairs is not None:
            counts = summary_line(pairs, Sides("base", "now"))
            hint = f"`simkit diff --base {self._base}` shows what"
            terminalreporter.write_line(clean(f"simkit: against {self._base}: {counts}; {hint}"))


def _result(item: Ran, call: pytest.CallInfo[None], report: pytest.TestReport) -> Result:
    """Return the item's own result, or why it did not run: skipped, or a fixture failed."""
    result, scenario = item.result, item.scenario
    if result is not None:
        return result
    from simkit.report.results import not_run  # It loads the checks, which suites may not need.

    if report.skipped:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
        return not_run(scenario, "skipped", reason=reason.removeprefix("Skipped: "))
    error = call.excinfo.exconly() if call.excinfo is not None else report.longreprtext
    return not_run(scenario, "broken", error=error)


# pytest with ``--simkit-update``: the proposals of all items, wherever they ran, are written


class Updates(ReportCarrier):
    """Collects the proposals of all processes, and changes the files."""

    carried_as = "simkit_update"

    def __init__(self, config: pytest.Config) -> None:
        """Raise UsageError in CI, and with another seed than the scenarios' own."""
        self._proposals: list[str] = []
        if config.getoption("--simkit-seed") is not None:
            raise pytest.UsageError(
                "--simkit-update writes what the scenarios' own seeds give, not --simkit-seed"
            )
        try:
            refuse_in_ci("--simkit-update", os.environ)
        except SimkitError as problem:
            raise pytest.UsageError(str(problem)) from None

    def carried(
        self, item: Ran, call: pytest.CallInfo[None], report: pytest.TestReport
    ) -> str | None:
        """Return the changes that a scenario's run proposes."""
        return item.proposal if call.when == "call" else None

    def take(self, text: str) -> None:
        """Take the changes that a scenario's run proposes."""
        self._proposals.append(text)

    def write(self, terminalreporter: Any) -> None:
        """Change the files, and print how; of pytest-xdist's processes only the parent does."""
        config = terminalreporter.config
        if hasattr(config, "workerinput"):
            return
        terminalreporter.section("simkit update")
        proposals = map(decoded, self._proposals)
        try:
            for line in accepted_lines(proposals, documents_of(config)):
                terminalreporter.write_line(clean(line))
        except SimkitError as problem:
            terminalreporter.write_line(clean(str(problem)), red=True)


# pytest with ``--simkit-html`` or ``--simkit-coverage``: the page of all runs, and their coverage.
#
# Loaded only with these options. Under xdist each process sends its scenarios inside pytest's own
# reports, compressed as the page holds them, and what it measured at its end; the parent prints the
# coverage and writes the pages.


MEASURED_AS: Final = "simkit_coverage"
"""The key under which a process of pytest-xdist sends what it measured: as text, as plain data."""
SHOWN_AT: Final = "simkit page"
"""The section of a failing item's report that says where its run is shown."""


class PytestPage(ReportCarrier):
    """Collects the scenarios of all processes, and writes the page."""

    carried_as = "simkit_page"

    def __init__(self, file: str) -> None:
        """Raise UsageError if no file can be written there."""
        self._file = file
        self._scenarios: dict[str, RunPage] = {}
        _check(file, "--simkit-html")

    def link(self, identity: str) -> str:
        """Return where the page shows a scenario."""
        return f"{self._file}#{slug(identity)}"

    def carried(
        self, item: Ran, call: pytest.CallInfo[None], report: pytest.TestReport
    ) -> str | None:
        """Return the scenario for the page; put the place of a run into the report of a failure."""
        result, page = item.result, item.page
        if page is None and result is not None:
            page = run_page(result, None)
        if call.when != "call" or page is None:
            return None
        if report.failed:
            link = clean(self.link(item.scenario.id))
            if add_section := getattr(report.longrepr, "addsection", None):  # JUnit shows it.
                add_section(SHOWN_AT, link, "-")
        return msgspec.json.encode(page).decode()

    def take(self, text: str) -> None:
        """Take a scenario for the page."""
        page = msgspec.json.decode(text, type=RunPage)
        self._scenarios[page.scenario.id] = page

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Write the page."""
        if hasattr(terminalreporter.config, "workerinput"):
            return
        scenarios = list(self._scenarios.values())
        page = Page("pytest", __version__, scenarios)
        more = f" with {counted(len(scenarios), 'scenario')}"
        terminalreporter.write_line(clean(_write(self._file, page, "the page", more)))


class PytestCoverage:
    """Measures the scenarios of this process, and reports those of all processes."""

    def __init__(self, page: str = "", is_printed: bool = True) -> None:
        """Raise UsageError if no page can be written; empty for none."""
        self.collector = CoverageCollector()
        self._page, self._is_printed = page, is_printed
        self._others = RunsCoverage()
        if page:
            _check(page, "--simkit-coverage-html")

    def take(self, collected: RunsCoverage) -> None:
        """Take into account what was measured elsewhere."""
        self._others = self._others.merged(collected)

    def _all(self) -> RunsCoverage:
        return self._others.merged(self.collector.coverage())

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Send what was measured to the parent, if there is one."""
        output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
        if output is not None:
            output[MEASURED_AS] = msgspec.json.encode(self._all()).decode()

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take what a process measured that has ended; one that crashed sends nothing."""
        payload = getattr(node, "workeroutput", {}).get(MEASURED_AS, "{}")
        self.take(msgspec.json.decode(payload, type=RunsCoverage))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the report, and write the page."""
        if hasattr(terminalreporter.config, "workerinput"):
            return
        collected = self._all()
        report = coverage_of(collected.items)
        if self._is_printed:
            terminalreporter.section("simkit coverage")
            for line in (*scores.coverage_lines(report), "", scores.summary_line(report)):
                terminalreporter.write_line(clean(line))
        if self._page:
            data = coverage_data(collected, counted(collected.runs, "run"))
            data = without_secrets(data, current_redactor())
            page = Page("pytest", __version__, (), coverage=data)
            noun, more = "the page of coverage", f", {scores.summary_line(report)}"
            terminalreporter.write_line(clean(_write(self._page, page, noun, more)))


def _check(file: str, option: str) -> None:
    """Raise UsageError if no file can be written there."""
    try:
        check_place(file, option)
    except SimkitError as problem:
        raise pytest.UsageError(clean(str(problem))) from None


def _write(file: str, page: Page, noun: str, more: str) -> str:
    """Write a page; return a line that says so, or why it is not written."""
    try:
        write_whole(Path(file), page_html(page).encode())
    except OSError as problem:
        return f"simkit: {noun} is not written: {failure_text(problem)}"
    return f"simkit: wrote {file}{more}"
