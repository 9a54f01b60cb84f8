"""pytest collects ``*.scenario.yaml``: a scenario is an item, and so is each row of its table.

No other file is looked at. Collecting reads only names, tags and ``skip``; the rest of a scenario,
and most of simkit, is loaded when its item runs. A file that cannot be read is a collection error,
a scenario that cannot be run fails without a traceback, and ``xfail`` excuses only findings, never
a broken scenario.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

# Whoever has simkit installed pays for this module in every run of pytest, so that what it needs
# of simkit is imported where the first scenario needs it.
if TYPE_CHECKING:
    from simkit.scenario.files import Library
    from simkit.scenario.items import Item
    from simkit.session import Outcome

SUFFIX: Final = ".scenario.yaml"
WARNINGS: Final = "simkit warnings"
"""The section of a report that shows what failed nothing; the property that counts it."""
OWN_MARKS: Final = frozenset(
    ("filterwarnings", "parametrize", "skip", "skipif", "usefixtures", "xfail")
)
"""Marks that mean something to pytest, and so can be no tags."""
_LIBRARY: Final[pytest.StashKey[Library]] = pytest.StashKey()
_TAGS: Final[pytest.StashKey[set[str]]] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds ``--simkit-seed``."""
    parser.getgroup("simkit").addoption(
        "--simkit-seed", type=int, metavar="N", help="run every scenario with seed N"
    )


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collects a file whose name says that it holds scenarios."""
    if file_path.name.endswith(SUFFIX):
        return ScenarioFile.from_parent(parent, path=file_path)
    return None


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Counts the warnings of all scenarios; what they say stands in the items' reports."""
    counts = [
        count
        for reports in terminalreporter.stats.values()
        for report in reports
        if getattr(report, "when", None) == "call"
        for name, count in report.user_properties
        if name == WARNINGS
    ]
    if counts:
        from simkit.words import counted

        warnings, scenarios = counted(sum(counts), "warning"), counted(len(counts), "scenario")
        terminalreporter.write_line(f"simkit: {warnings} in {scenarios}; -rA shows them")


class ScenarioFile(pytest.File):
    """One file of scenarios."""

    def collect(self) -> Iterator[ScenarioItem]:
        from simkit.errors import SimkitError
        from simkit.scenario.items import items_in

        try:
            for scenario in items_in(_relative(self.path)):
                yield ScenarioItem.from_parent(self, name=scenario.name, scenario=scenario)
        except SimkitError as problem:
            raise self.CollectError(str(problem)) from None


class ScenarioItem(pytest.Item):
    """One scenario, or one row of its table."""

    def __init__(self, *, scenario: Item, **rest: Any) -> None:
        super().__init__(**rest)
        self.scenario = scenario
        for tag in scenario.tags:
            self._mark(tag)
        if scenario.skip is not None:
            self.add_marker(pytest.mark.skip(reason=scenario.skip))

    def _mark(self, tag: str) -> None:
        """Adds a tag as a mark that ``--strict-markers`` knows."""
        from simkit.errors import SourceError

        if tag in OWN_MARKS or not tag or tag.startswith("_"):
            raise SourceError(
                f"{self.scenario.file}:{self.scenario.line}:1",
                f"{tag!r} cannot be a tag of scenario {self.scenario.name!r}",
                advice="Tags become marks of pytest, whose own marks and names that start with "
                "`_` are taken.",
            )
        known = self.config.stash.setdefault(_TAGS, set())
        if tag not in known:
            known.add(tag)
            self.config.addinivalue_line("markers", f"{tag}: a tag of simkit scenarios")
        self.add_marker(tag)

    def runtest(self) -> None:
        from simkit.errors import SimkitError
        from simkit.session import simulate

        try:
            prepared = _library(self.config).prepared(self.scenario)
            seed = self.config.getoption("--simkit-seed")
            outcome = simulate(prepared, seed=seed)
        except SimkitError as problem:
            raise pytest.fail.Exception(str(problem), pytrace=False) from None
        expected = prepared.scenario.xfail
        if expected is not None and outcome.judgement.exit_code < 2:
            # Added only now: a broken scenario is not the failure that was expected.
            self.add_marker(pytest.mark.xfail(reason=expected.reason, strict=expected.strict))
        self._report(outcome)
        if not outcome.passed:
            used = prepared.scenario.seed if seed is None else seed
            pytest.fail(_failure_text(self.scenario, outcome, used), pytrace=False)

    def _report(self, outcome: Outcome) -> None:
        """Puts into the report what fails nothing, but must not go unseen."""
        judgement = outcome.judgement
        if judgement.warnings:
            from simkit.report.text import findings_text

            self.add_report_section("call", WARNINGS, findings_text(judgement.warnings))
            self.user_properties.append((WARNINGS, len(judgement.warnings)))
        if judgement.lints_off:
            lines = [f"{lint}: {reason}" for lint, reason in judgement.lints_off]
            self.add_report_section("call", "simkit lints turned off", "\n".join(lines))

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, self.scenario.line - 1, self.name


def _failure_text(scenario: Item, outcome: Outcome, seed: int) -> str:
    from simkit.report.results import Result
    from simkit.report.text import result_text

    return result_text(
        Result(
            scenario.id, scenario.file, scenario.line, scenario.name, "failed", seed,
            findings=outcome.judgement.findings,
        )
    )  # fmt: skip


def _library(config: pytest.Config) -> Library:
    """Returns the one library of this run, so that every file is read once."""
    from simkit.scenario.files import Library

    library = config.stash.get(_LIBRARY, None)
    if library is None:
        library = config.stash[_LIBRARY] = Library()
    return library


def _relative(path: Path) -> str:
    """Returns the path as one would type it here; from another drive it stays whole."""
    try:
        return os.path.relpath(path)
    except ValueError:
        return str(path)
