"""pytest with ``--simkit-html`` or ``--simkit-coverage``: the page of all runs, and their coverage.

Loaded only with these options. Under xdist each process sends its scenarios inside pytest's own
reports, compressed as the page holds them, and what it measured at its end; the parent prints the
coverage and writes the pages.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from simkit import __version__
from simkit.checks.coverage import coverage_of
from simkit.core.errors import SimkitError
from simkit.core.files import check_place, write_whole
from simkit.core.output import clean, current_redactor, without_secrets
from simkit.core.text import counted
from simkit.pytest_plugin.items import ReportCarrier, ScenarioItem
from simkit.report.last_run import failure_text, slug
from simkit.report.scores import coverage_lines, summary_line
from simkit.viewer import (
    CoverageCollector,
    Page,
    RunPage,
    RunsCoverage,
    coverage_data,
    page_html,
    run_page,
)

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
        self, item: ScenarioItem, call: pytest.CallInfo[None], report: pytest.TestReport
    ) -> str | None:
        """Return the scenario for the page; put the place of a run into the report of a failure."""
        result, page = item.result, item.page
        if page is None and result is not None:
            page = run_page(result, None)
        if call.when != "call" or page is None:
            return None
        if report.failed:
            report.sections.append((SHOWN_AT, clean(self.link(item.scenario.id))))
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
            for line in (*coverage_lines(report), "", summary_line(report)):
                terminalreporter.write_line(clean(line))
        if self._page:
            data = coverage_data(collected, counted(collected.runs, "run"))
            data = without_secrets(data, current_redactor())
            page = Page("pytest", __version__, (), coverage=data)
            noun, more = "the page of coverage", f", {summary_line(report)}"
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
