"""pytest with ``--simkit-html``: one page with the runs of all scenarios, written at the end.

Loaded only with the option. Under xdist each process sends its scenarios inside pytest's own
reports, compressed as the page holds them, and the parent writes the page.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from simkit import __version__
from simkit.core.errors import SimkitError
from simkit.core.files import check_place, write_whole
from simkit.core.output import clean
from simkit.core.text import counted
from simkit.report.last_run import failure_text, slug
from simkit.spec.scenario.items import ScenarioCase
from simkit.viewer import Page, RunPage, page_html, run_page

SENT_AS: Final = "simkit_page"
"""The attribute of a report with a scenario for the page."""
SHOWN_AT: Final = "simkit page"
"""The section of a failing item's report that says where its run is shown."""


class PytestPage:
    """Collects the scenarios of all processes, and writes the page."""

    def __init__(self, file: str) -> None:
        """Raise UsageError if no file can be written there."""
        self._file = file
        self._scenarios: dict[str, RunPage] = {}
        try:
            check_place(file, "--simkit-html")
        except SimkitError as problem:
            raise pytest.UsageError(clean(str(problem))) from None

    def link(self, identity: str) -> str:
        """Return where the page shows a scenario."""
        return f"{self._file}#{slug(identity)}"

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Put the scenario into its report, and the place of its run into that of a failure."""
        report = yield
        scenario: ScenarioCase | None = getattr(item, "scenario", None)
        if not isinstance(scenario, ScenarioCase) or call.when != "call":
            return report
        page: RunPage | None = getattr(item, "page", None)
        result = getattr(item, "result", None)
        if page is None and result is not None:
            page = run_page(result, None)
        if page is not None:
            setattr(report, SENT_AS, msgspec.json.encode(page).decode())
            if report.failed:
                report.sections.append((SHOWN_AT, clean(self.link(scenario.id))))
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take a scenario out of a report; of several runs of a scenario the last one counts."""
        payload: str | None = getattr(report, SENT_AS, None)
        if payload is not None:
            page = msgspec.json.decode(payload, type=RunPage)
            self._scenarios[page.scenario.id] = page

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Write the page."""
        if hasattr(terminalreporter.config, "workerinput"):
            return
        scenarios = list(self._scenarios.values())
        content = page_html(Page("pytest", __version__, scenarios)).encode()
        try:
            write_whole(Path(self._file), content)
        except OSError as problem:
            line = f"simkit: the page is not written: {failure_text(problem)}"
        else:
            line = f"simkit: wrote {self._file} with {counted(len(scenarios), 'scenario')}"
        terminalreporter.write_line(clean(line))
