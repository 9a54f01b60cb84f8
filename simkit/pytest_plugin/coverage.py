"""pytest with ``--simkit-coverage``: what scenario files never made happen, at the end.

Loaded only with the option. Under xdist each process measures its own scenarios and sends what they
did to the parent, which prints all together, or writes the page of ``--simkit-coverage-html``.
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
from simkit.report.last_run import failure_text
from simkit.report.scores import coverage_lines, summary_line
from simkit.viewer import CoverageCollector, Page, RunsCoverage, coverage_data, page_html

SENT_AS: Final = "simkit_coverage"
"""The key under which a process of pytest-xdist sends what it measured: as text, as plain data."""


class PytestCoverage:
    """Measures the scenarios of this process, and reports those of all processes."""

    def __init__(self, page: str = "", is_printed: bool = True) -> None:
        """Raise UsageError if no page can be written; empty for none."""
        self.collector = CoverageCollector()
        self._page, self._is_printed = page, is_printed
        self._others = RunsCoverage()
        try:
            if page:
                check_place(page, "--simkit-coverage-html")
        except SimkitError as problem:
            raise pytest.UsageError(clean(str(problem))) from None

    def take(self, collected: RunsCoverage) -> None:
        """Take into account what was measured elsewhere."""
        self._others = self._others.merged(collected)

    def _all(self) -> RunsCoverage:
        return self._others.merged(self.collector.coverage())

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Send what was measured to the parent, if there is one."""
        output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
        if output is not None:
            output[SENT_AS] = msgspec.json.encode(self._all()).decode()

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take what a process measured that has ended; one that crashed sends nothing."""
        payload = getattr(node, "workeroutput", {}).get(SENT_AS, "{}")
        self.take(msgspec.json.decode(payload, type=RunsCoverage))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the report, and write the page."""
        if hasattr(terminalreporter.config, "workerinput"):
            return
        collected = self._all()
        if self._is_printed:
            report = coverage_of(collected.items)
            terminalreporter.section("simkit coverage")
            for line in (*coverage_lines(report), "", summary_line(report)):
                terminalreporter.write_line(clean(line))
        if self._page:
            terminalreporter.write_line(clean(self._write(collected)))

    def _write(self, collected: RunsCoverage) -> str:
        """Write the page; return a line that says so."""
        data = coverage_data(collected, counted(collected.runs, "run"))
        data = without_secrets(data, current_redactor())
        content = page_html(Page("pytest", __version__, (), coverage=data)).encode()
        try:
            write_whole(Path(self._page), content)
        except OSError as problem:
            return f"simkit: the page of coverage is not written: {failure_text(problem)}"
        report = coverage_of(collected.items)
        return f"simkit: wrote {self._page}, {summary_line(report)}"
