"""Files of scenarios and of simulations, and their items, as collection needs them.

An item imports the code that runs a scenario, or explores a simulation, when it runs.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from collections.abc import Generator, Iterator, Sequence
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from simkit.core.errors import SimkitError, SourceError, Terminated
from simkit.core.gc_pause import gc_paused, imports_frozen
from simkit.core.output import clean
from simkit.core.stopping import TERMINATED, sudden_end_told, terminable
from simkit.core.text import counted, hinted, near, shell_word
from simkit.language.yaml import DocumentCache
from simkit.pytest_plugin import RAN_AS
from simkit.spec.scenario.items import ScenarioCase, items_in, simulations_in

# The run of a scenario loads most of simkit, and collection none of it.
if TYPE_CHECKING:
    from simkit.core.redact import Redactor
    from simkit.explore.campaigns import Bounds
    from simkit.explore.search import Campaign
    from simkit.report.results import Result
    from simkit.spec.scenario.files import Library
    from simkit.viewer import RunPage

NAME: Final = "simkit-stopping"


def listen(config: pytest.Config) -> None:
    """End the session on SIGTERM from now on; processes of pytest-xdist leave that to the parent.

    This is called for each file of scenarios.
    """
    if not hasattr(config, "workerinput") and not config.pluginmanager.has_plugin(NAME):
        config.pluginmanager.register(_Stopping(config), NAME)


class _Stopping:
    """Ends a session on SIGTERM as on Ctrl-C: with its processes, its summary and files.

    Without it SIGTERM would leave the processes of pytest-xdist running.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._was_told = False
        stack = contextlib.ExitStack()
        stack.enter_context(terminable())
        config.add_cleanup(stack.close)

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Record the reason of the end."""
        self._was_told = isinstance(excinfo.value, Terminated)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Set the session's exit code to the shells' code for SIGTERM."""
        if self._was_told:
            session.exitstatus = TERMINATED


OWN_MARKS: Final = frozenset(
    ("filterwarnings", "parametrize", "skip", "skipif", "usefixtures", "xfail")
)
"""Marks with a meaning in pytest, which cannot be tags."""
_RUNS: Final = "simkit.pytest_plugin.runs"
_CACHE: Final[pytest.StashKey[DocumentCache]] = pytest.StashKey()
_TAGS: Final[pytest.StashKey[set[str]]] = pytest.StashKey()


def documents_of(config: pytest.Config) -> DocumentCache:
    """Return the documents that collection has read, which items need again."""
    return config.stash.setdefault(_CACHE, DocumentCache())


def advice_on_arguments(config: pytest.Config) -> Iterator[str]:
    """Yield what to write in place of each argument of simkit's that pytest does not find."""
    for argument in config.args:
        path, _, name = argument.partition("::")
        file = config.invocation_params.dir / path
        if not file.is_file():
            continue
        if file.suffix == ".feature":
            yield (
                f"{path}: pytest runs a feature through a module. Save this as test_{file.stem}.py "
                "beside it, and run that file:\n  from pytest_bdd import scenarios\n"
                f"  from simkit.bdd import *\n  scenarios({file.name!r})"
            )
        elif name and file.name.endswith(".scenario.yaml"):
            with contextlib.suppress(SimkitError):
                cases = items_in(relative_path(file), documents_of(config))
                names = _cleaned([case.name for case in cases])
                if name not in names:
                    listed = [shell_word(each) for each in names]
                    problem = f"{path}: there is no scenario {name!r}"
                    yield hinted(problem, near(name, names), listed)


class ScenarioFile(pytest.File):
    """One file of scenarios."""

    shown_path = ""
    """The path that reports print for its items; empty before the first report."""

    def collect(self) -> Iterator[ScenarioItem]:
        listen(self.config)
        try:
            cases = self.cases()
            # pytest prints names as they are, and writes them into reports.
            names = _cleaned([case.name for case in cases])
            for name, case in zip(names, cases, strict=True):
                yield self.item_type.from_parent(self, name=name, scenario=case)
        except SimkitError as problem:
            raise self.CollectError(clean(str(problem))) from None

    def cases(self) -> Sequence[ScenarioCase]:
        """Return what is in the file; raise SourceError."""
        return items_in(relative_path(self.path), documents_of(self.config))

    @property
    def item_type(self) -> type[ScenarioItem]:
        """The type of its items."""
        return ScenarioItem


class Ran:
    """The facts of a run that reports carry: of a scenario's item, or of a feature's story."""

    scenario: ScenarioCase
    page: RunPage | None = None
    """Its run for the page; None if none is written."""
    picture = ""
    """Its run as a Mermaid diagram, if it fails in a workflow; else empty."""
    proposal: str | None = None
    """The proposed changes of its file, for the process that writes them; None without any."""
    _result: Result | None = None
    _redactor: Redactor | None = None

    @property
    def result(self) -> Result | None:
        """Its result without secrets; None before the run."""
        if self._redactor is not None:
            from simkit.core.output import without_secrets

            self._result = without_secrets(self._result, self._redactor)
            self._redactor = None
        return self._result

    def keep(self, result: Result, redactor: Redactor | None = None) -> None:
        """Keep its result, from which secrets are removed once somebody reads it."""
        self._result, self._redactor = result, redactor


class ScenarioItem(Ran, pytest.Item):
    """One scenario, or one row of its table."""

    def __init__(self, *, scenario: ScenarioCase, **rest: Any) -> None:
        super().__init__(**rest)
        self.scenario = scenario
        for tag in scenario.tags:
            self._mark(tag)
        if scenario.skip is not None:
            self.add_marker(pytest.mark.skip(reason=clean(scenario.skip)))
        elif scenario.needs and not self.config.getoption("--simkit-needs-met"):
            from simkit.spec.scenario.model import unmet

            if reason := unmet(scenario.needs):
                self.add_marker(pytest.mark.skip(reason=reason))

    def _mark(self, tag: str) -> None:
        """Add a tag as a mark that ``--strict-markers`` knows."""
        if tag in OWN_MARKS or not tag or tag.startswith("_"):
            raise SourceError(
                f"{self.scenario.file}:{self.scenario.line}:1",
                f"{tag!r} cannot be a tag of scenario {self.scenario.name!r}",
                advice="Tags become marks of pytest, whose own marks and names that start with "
                "`_` are taken.",
            )
        tags = self.config.stash.setdefault(_TAGS, set())
        if tag not in tags:
            tags.add(tag)
            self.config.addinivalue_line("markers", f"{tag}: a tag of simkit scenarios")
        self.add_marker(tag)

    def runtest(self) -> None:
        load_runs(self.session)
        from simkit.pytest_plugin.runs import run_scenario

        run_scenario(self)

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, self.scenario.line - 1, self.name

    @cached_property
    def location(self) -> tuple[str, int | None, str]:
        """Its place for reports; pytest computes the path, once for all items of a file."""
        file = self.parent
        assert isinstance(file, ScenarioFile)
        if not file.shown_path:
            file.shown_path = super().location[0]
        return file.shown_path, self.scenario.line - 1, self.name


def load_runs(session: pytest.Session) -> None:
    """Import what runs items, when the first one begins.

    In a session of scenarios alone, the collector leaves that out from then on, as in a command:
    the collections at the end of the session and of the process took a third of the time of pytest
    with one scenario. Where others' tests are, their fixtures must be collected when they end.
    """
    if _RUNS in sys.modules:
        return
    is_alone = all(isinstance(item, ScenarioItem) for item in session.items)
    if is_alone:
        gc.collect()  # Else garbage would be left out, too, and its finalizers would not run.
    with imports_frozen if is_alone else gc_paused:
        import_module(_RUNS)


def _cleaned(names: list[str]) -> list[str]:
    """Return names as they may leave the process."""
    # They are searched together, since hardly any has something to remove. A line end is an edge
    # for each pattern, so that together they hide nothing that one alone would show.
    together = "\n".join(names)
    if together.count("\n") == len(names) - 1 and clean(together) == together:
        return names
    return [clean(name) for name in names]


def relative_path(path: Path) -> str:
    """Return the path relative to the working directory; on another drive it stays absolute."""
    try:
        return os.path.relpath(path)
    except ValueError:
        return str(path)


class SimulationFile(ScenarioFile):
    """One file of simulations."""

    def cases(self) -> Sequence[ScenarioCase]:
        return simulations_in(relative_path(self.path), documents_of(self.config))

    @property
    def item_type(self) -> type[ScenarioItem]:
        return SimulationItem


class SimulationItem(ScenarioItem):
    """One simulation: conversations of which none may break a rule."""

    def runtest(self) -> None:
        load_runs(self.session)
        run_simulation(self)


def run_simulation(item: ScenarioItem) -> None:
    """Explore a simulation; raise pytest's failure if a conversation breaks a rule."""
    from simkit.explore.campaigns import Bounds
    from simkit.pytest_plugin.runs import session_of

    session = session_of(item.session)
    coverage = session.coverage
    with gc_paused, sudden_end_told(session.release):
        try:
            bounds = Bounds(
                runs=item.config.getoption("--simkit-runs"),
                seed=session.seed,
                measures=coverage is not None,
            )
            campaign, text = failure_of(
                session.library, item.scenario, bounds, is_strict=session.is_strict
            )
            if coverage is not None and campaign.coverage is not None:
                coverage.take(campaign.coverage)
        except SimkitError as problem:
            raise pytest.fail.Exception(clean(str(problem)), pytrace=False) from None
        if text:
            pytest.fail(clean(text), pytrace=False)


def failure_of(
    library: Library, case: ScenarioCase, bounds: Bounds, *, is_strict: bool = False
) -> tuple[Campaign, str]:
    """Explore a simulation; return the campaign, and what breaks a rule, empty if nothing does.

    ``is_strict``: a claim that no conversation judged is a failure, too. Raise SimkitError if it
    cannot be explored.
    """
    from simkit.explore.campaigns import command_of, is_exhaustive, run_campaign
    from simkit.explore.causes import refused_lines
    from simkit.explore.claims import unjudged_lines
    from simkit.explore.scenarios import shown_lines, title_of
    from simkit.explore.subjects import simulation_subject

    subject = simulation_subject(library, case)
    campaign = run_campaign(case.id, subject, bounds)
    if campaign.is_stopped and bounds.seconds is None:
        # The test proves nothing, and pytest must end.
        raise KeyboardInterrupt
    command = command_of(case.id, subject, bounds)
    lines: list[str] = []
    if is_strict:
        for line in unjudged_lines(campaign.reach):
            lines += [line, ""]
    if is_exhaustive(subject, bounds) and not campaign.is_complete:
        ran = counted(campaign.runs, "conversation")
        lines += [f"not every conversation was run, but {ran}: --simkit-runs draws more", ""]
    if campaign.refused:
        lines += [*refused_lines(subject, campaign), ""]
    for discovery in campaign.discoveries:
        texts = shown_lines(discovery, subject, campaign.growing, command)
        indent = "    " if discovery.is_alone else ""
        lines += [title_of(discovery), "", *(f"{indent}{line}" for line in texts), ""]
    if not lines:
        return campaign, ""
    if campaign.discoveries:
        lines.append(f"write it as a scenario: {command}")
    return campaign, "\n".join(lines)


class ReportCarrier:
    """Carries something of a scenario's run inside its report, which pytest-xdist sends on."""

    carried_as = ""
    """The attribute of a report that has it, as text: reports are sent as plain data."""

    def carried(
        self, item: Ran, call: pytest.CallInfo[None], report: pytest.TestReport
    ) -> str | None:
        """Return what a report of an item carries; None for nothing."""
        raise NotImplementedError

    def take(self, text: str) -> None:
        """Take what a report carried; of several runs of a scenario the last one counts."""
        raise NotImplementedError

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Put it into the report of a scenario."""
        report = yield
        ran: Ran | None = item if isinstance(item, Ran) else getattr(item, RAN_AS, None)
        text = None if ran is None else self.carried(ran, call, report)
        if text is not None:
            setattr(report, self.carried_as, text)
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take it out of a report."""
        text: str | None = getattr(report, self.carried_as, None)
        if text is not None:
            self.take(text)
