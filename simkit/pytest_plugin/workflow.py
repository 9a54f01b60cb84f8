"""pytest in GitHub Actions: results of scenarios, and their changes since a base.

Loaded only in a workflow, or with ``--simkit-base``. Under xdist each process sends its results
inside pytest's own reports, and the parent writes them.
"""

from __future__ import annotations

import os
from typing import Any

import msgspec
import pytest

from simkit.core.errors import TraceError
from simkit.core.output import clean, command
from simkit.pytest_plugin.items import ReportCarrier, ScenarioItem
from simkit.report.diff_lines import Sides
from simkit.report.diffs import summary_line
from simkit.report.github_actions import (
    add_summary,
    compared,
    is_workflow,
    traces_in,
    workflow_commands,
)
from simkit.report.results import Result
from simkit.spec.scenario.items import SCENARIO_SUFFIX


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
                traces_in(base)
            except TraceError as problem:
                raise pytest.UsageError(f"--simkit-base: {problem}") from None

    def carried(
        self, item: ScenarioItem, call: pytest.CallInfo[None], report: pytest.TestReport
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
        pairs = list(compared(results, self._base)) if self._base else None
        if is_workflow(os.environ):
            for line in workflow_commands(results, os.environ):
                terminalreporter.write_line(command(line))
            pictures = {name: text for name, text in self._pictures.items() if text}
            page = terminalreporter.config.getoption("--simkit-html") or ""
            note = add_summary(results, os.environ, pairs, pictures, page)
            if note:
                terminalreporter.write_line(clean(f"simkit: {note}"))
        if pairs is not None:
            counts = summary_line(pairs, Sides("base", "now"))
            hint = f"`simkit diff --base {self._base}` shows what"
            terminalreporter.write_line(clean(f"simkit: against {self._base}: {counts}; {hint}"))


def _result(item: ScenarioItem, call: pytest.CallInfo[None], report: pytest.TestReport) -> Result:
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
