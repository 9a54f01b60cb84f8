"""pytest with ``--simkit-coverage``: what scenario files never made happen, at the end.

Loaded only with the option. Under xdist each process measures its own scenarios and sends the items
to the parent, which prints them together.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
import pytest

from simkit.checks.coverage import Measurement, PlacedItem, coverage_of
from simkit.core.output import clean
from simkit.report.coverage import coverage_lines, summary_line

SENT_AS: Final = "simkit_coverage"
"""The key under which a process of pytest-xdist sends its items: as text, as plain data."""


class PytestCoverage:
    """Measures the scenarios of this process, and prints those of all processes."""

    def __init__(self) -> None:
        self.measurement = Measurement()
        self._items: list[PlacedItem] = []

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Send the items to the parent, if there is one."""
        output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
        if output is not None:
            output[SENT_AS] = msgspec.json.encode(self.measurement.items()).decode()

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take the items of a process that has ended; one that crashed sends none."""
        payload = getattr(node, "workeroutput", {}).get(SENT_AS, "[]")
        self._items += msgspec.json.decode(payload, type=list[PlacedItem])

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the report."""
        report = coverage_of([*self._items, *self.measurement.items()])
        terminalreporter.section("simkit coverage")
        for line in (*coverage_lines(report), "", summary_line(report)):
            terminalreporter.write_line(clean(line))
