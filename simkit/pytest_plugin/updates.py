"""pytest with ``--simkit-update``: the proposals of all items, wherever they ran, are written.

Loaded only with the option. A report carries an item's proposal in an attribute, and not in a
property: JUnit files contain these, and proposals are raw.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from typing import Any, Final

import pytest

from simkit.core.errors import SimkitError
from simkit.core.output import clean
from simkit.pytest_plugin.items import documents_of
from simkit.update.files import refuse_in_ci
from simkit.update.merging import accepted_lines
from simkit.update.proposals import decoded

SENT_AS: Final = "simkit_update"
"""The attribute of a report with a proposal."""


class Updates:
    """Collects the proposals of all processes, and changes the files."""

    def __init__(self, config: pytest.Config) -> None:
        """Raise UsageError in CI, and with another seed than the scenarios' own."""
        if config.getoption("--simkit-seed") is not None:
            raise pytest.UsageError(
                "--simkit-update writes what the scenarios' own seeds give, not --simkit-seed"
            )
        try:
            refuse_in_ci("--simkit-update", os.environ)
        except SimkitError as problem:
            raise pytest.UsageError(str(problem)) from None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Put an item's proposal into its report."""
        report = yield
        proposal: str | None = getattr(item, "proposal", None)
        if proposal is not None and call.when == "call":
            setattr(report, SENT_AS, proposal)
        return report

    def write(self, terminalreporter: Any) -> None:
        """Change the files, and print how; of pytest-xdist's processes only the parent does."""
        config = terminalreporter.config
        if hasattr(config, "workerinput"):
            return
        terminalreporter.section("simkit update")
        proposals = map(decoded, _proposals(terminalreporter))
        try:
            for line in accepted_lines(proposals, documents_of(config)):
                terminalreporter.write_line(clean(line))
        except SimkitError as problem:
            terminalreporter.write_line(clean(str(problem)), red=True)


def _proposals(terminalreporter: Any) -> Iterator[Any]:
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", None) == "call" and hasattr(report, SENT_AS):
                yield getattr(report, SENT_AS)
