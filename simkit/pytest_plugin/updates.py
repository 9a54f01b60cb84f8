"""pytest with ``--simkit-update``: the proposals of all items, wherever they ran, are written.

Loaded only with the option. A report carries an item's proposal in an attribute, and not in a
property: JUnit files contain these, and proposals are raw.
"""

from __future__ import annotations

import os
from typing import Any

import pytest

from simkit.core.errors import SimkitError
from simkit.core.output import clean
from simkit.pytest_plugin.items import ReportCarrier, ScenarioItem, documents_of
from simkit.update.files import refuse_in_ci
from simkit.update.merging import accepted_lines
from simkit.update.proposals import decoded


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
        self, item: ScenarioItem, call: pytest.CallInfo[None], report: pytest.TestReport
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
