"""pytest plugin: each scenario of a ``*.scenario.yaml`` is an item, and so is each row of a table.

No other file is collected. Collection reads only names, tags, ``skip`` and ``needs``; the rest of a
scenario is read, and most of simkit loaded, when its item runs. An unreadable file is a collection
error, an invalid scenario fails without a traceback, and ``xfail`` excuses only findings, never an
invalid scenario.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

# Every pytest run with simkit installed loads this module, so that the parts of simkit are imported
# where the first scenario needs them.
if TYPE_CHECKING:
    from simkit.checks.findings import Finding
    from simkit.checks.judge import Outcome
    from simkit.language.yaml import DocumentCache
    from simkit.report.results import Result
    from simkit.session.simulation.fixture import Simulations
    from simkit.spec.scenario.files import Library, Prepared
    from simkit.spec.scenario.items import ScenarioCase
    from simkit.viewer import RunPage

SUFFIX: Final = ".scenario.yaml"
SIMULATED: Final = ".simulation.yaml"
UPDATES: Final = "simkit update"
"""The property by which an item's proposal reaches the process that writes files."""
PROPOSED_AS: Final = "simkit_update"
"""The attribute of a report with a proposal."""
WARNINGS: Final = "simkit warnings"
PASSED_OVER: Final = "simkit claims not looked at"
"""The section of a report for findings that fail nothing; the property with their number."""
PASSED_OVER_WHY: Final = "simkit claims not looked at: why"
"""The property with number and reasons: JUnit files contain properties, but no sections."""
COVERAGE: Final = "simkit-coverage"
"""The name of the plugin that measures coverage."""
PAGE: Final = "simkit-page"
"""The name of the plugin that writes a page of all runs."""
WORKFLOW: Final = "simkit-workflow"
"""The name of the plugin that reports to a workflow of GitHub Actions."""
UPDATE_MODES: Final = ("fix", "create")
OWN_MARKS: Final = frozenset(
    ("filterwarnings", "parametrize", "skip", "skipif", "usefixtures", "xfail")
)
"""Marks with a meaning in pytest, which cannot be tags."""
_LIBRARY: Final[pytest.StashKey[Library]] = pytest.StashKey()
_CACHE: Final[pytest.StashKey[DocumentCache]] = pytest.StashKey()
_TAGS: Final[pytest.StashKey[set[str]]] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options, all of which begin with ``--simkit-``."""
    group = parser.getgroup("simkit")
    group.addoption("--simkit-seed", type=int, metavar="N", help="run every scenario with seed N")
    group.addoption(
        "--simkit-base",
        default="",
        metavar="DIR",
        help="compare with the traces of this folder, such as those of the base branch",
    )
    group.addoption(
        "--simkit-html",
        default="",
        metavar="FILE",
        help="write a page that shows every scenario's run: what each agent was sent",
    )
    group.addoption(
        "--simkit-runs",
        type=_runs,
        default=100,
        metavar="N",
        help="draw N conversations of each simulation (default: 100)",
    )
    group.addoption(
        "--simkit-coverage",
        action="store_true",
        help="print at the end what of their pipelines the scenario files never made happen",
    )
    group.addoption(
        "--simkit-coverage-html",
        default="",
        metavar="FILE",
        help="write a page with the same: pictures of the pipelines, and each item with its line",
    )
    group.addoption(
        "--simkit-needs-met",
        action="store_true",
        help="fail a scenario instead of skipping it if what it needs is not installed",
    )
    group.addoption(
        "--simkit-strict",
        action="store_true",
        help="fail a scenario with claims that were not looked at, or that nothing could break",
    )
    group.addoption(
        "--simkit-update",
        nargs="?",
        const="fix",
        type=_update_mode,
        metavar="fix|create",
        help="change scenario files: failing claims into what was found (fix, the default), "
        "or write claims for turns that have none (create)",
    )


def _runs(word: str) -> int:
    count = int(word) if word.isdecimal() else 0
    if count < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, not {word!r}")
    return count


def _update_mode(word: str) -> str:
    if word not in UPDATE_MODES:
        raise argparse.ArgumentTypeError(
            f"{word!r} is neither `fix` nor `create`; write `--simkit-update=fix` before a path"
        )
    return word


def pytest_configure(config: pytest.Config) -> None:
    """Reject options that would change files in CI, or with another seed.

    In a workflow of GitHub Actions, and with a base, add the plugin that reports scenarios there.
    """
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Stopping(config), "simkit-stopping")
    base: str = config.getoption("--simkit-base")
    if base or os.environ.get("GITHUB_ACTIONS") == "true":
        from simkit.testing.pytest_workflow import Workflow

        config.pluginmanager.register(Workflow(base, config), WORKFLOW)
    if page := config.getoption("--simkit-html"):
        from simkit.testing.pytest_page import PytestPage

        config.pluginmanager.register(PytestPage(page), PAGE)
    coverage_page: str = config.getoption("--simkit-coverage-html")
    if coverage_page or config.getoption("--simkit-coverage"):
        from simkit.testing.pytest_coverage import PytestCoverage

        is_printed: bool = config.getoption("--simkit-coverage")
        config.pluginmanager.register(PytestCoverage(coverage_page, is_printed), COVERAGE)
    if config.getoption("--simkit-update") is None:
        return
    from simkit.core.errors import SimkitError
    from simkit.update.files import refuse_in_ci

    if config.getoption("--simkit-seed") is not None:
        raise pytest.UsageError(
            "--simkit-update writes what the scenarios' own seeds give, not --simkit-seed"
        )
    try:
        refuse_in_ci("--simkit-update", os.environ)
    except SimkitError as problem:
        raise pytest.UsageError(str(problem)) from None


@pytest.hookimpl(optionalhook=True)
def pytest_recording_configure(vcr: Any) -> None:
    """Register matchers with each of pytest-recording's recorders, if a configuration has any."""
    configured = sys.modules.get("simkit.vcr")
    if configured is not None:
        configured.register(vcr)


class _Stopping:
    """Ends a session on SIGTERM as on Ctrl-C: with its processes, its summary and files.

    Without it SIGTERM would leave the processes of pytest-xdist running. A session without
    scenarios ends as always.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._listens = self._was_told = False

    def pytest_collectstart(self, collector: pytest.Collector) -> None:
        """Listen from the first file of scenarios on."""
        if isinstance(collector, ScenarioFile):
            self._listen()

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        """Listen from the first process on that has collected scenarios."""
        if any(SUFFIX in id for id in ids):
            self._listen()

    def _listen(self) -> None:
        if self._listens:
            return
        from simkit.core.stopping import terminable

        self._listens = True
        stack = contextlib.ExitStack()
        stack.enter_context(terminable())
        self._config.add_cleanup(stack.close)

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Record the reason of the end."""
        if self._listens:
            from simkit.core.errors import Terminated

            self._was_told = isinstance(excinfo.value, Terminated)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Set the session's exit code to the shells' code for SIGTERM."""
        if self._was_told:
            from simkit.core.stopping import TERMINATED

            session.exitstatus = TERMINATED


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect a file that holds scenarios by its name."""
    if file_path.name.endswith(SUFFIX):
        return ScenarioFile.from_parent(parent, path=file_path)
    if file_path.name.endswith(SIMULATED):
        return SimulationFile.from_parent(parent, path=file_path)
    return None


@pytest.fixture
def sim(request: pytest.FixtureRequest) -> Simulations:
    """Begin conversations with a pipeline: ``sim("support.pipeline.yaml").say("Hello")``."""
    from simkit.session.simulation.fixture import Simulations

    return Simulations(request)


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    """Describe the differences of a value from a matcher, if a test compares one."""
    matchers = sys.modules.get("simkit.matchers")
    return None if matchers is None else matchers.explained(op, left, right)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the number of warnings of all scenarios; the items' reports have their texts."""
    counts = list(_properties(terminalreporter, WARNINGS))
    if counts:
        from simkit.core.output import clean
        from simkit.core.text import counted

        warnings, scenarios = counted(sum(counts), "warning"), counted(len(counts), "scenario")
        terminalreporter.write_line(clean(f"simkit: {warnings} in {scenarios}; -rA shows them"))
    over = list(_properties(terminalreporter, PASSED_OVER))
    if over:
        from simkit.core.text import counted

        claims, scenarios = counted(sum(over), "claim"), counted(len(over), "scenario")
        line = f"simkit: {claims} in {scenarios} not looked at; -rA shows them"
        terminalreporter.write_line(line)
    config = terminalreporter.config
    # Of the processes of pytest-xdist, only the parent has all reports.
    if config.getoption("--simkit-update") is not None and not hasattr(config, "workerinput"):
        _update(terminalreporter)


def _properties(terminalreporter: Any, key: str) -> Iterator[Any]:
    """Yield a property's value in all reports of items."""
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", None) == "call":
                yield from (value for name, value in report.user_properties if name == key)


@pytest.hookimpl(optionalhook=True)
def pytest_bdd_step_func_lookup_error(
    request: pytest.FixtureRequest, feature: Any, step: Any
) -> None:
    """Describe the nearest phrase, if a feature uses simkit's steps."""
    if bdd := sys.modules.get("simkit.bdd"):
        bdd.fail_unknown_step(request, feature, step)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Describe an invalid feature file, or a missing package, without a traceback."""
    report = yield
    bdd = sys.modules.get("simkit.bdd")
    call = getattr(report, "call", None)
    excinfo = None if call is None else call.excinfo
    if excinfo is not None and (lacking := _missing_package(excinfo.value, report.longreprtext)):
        report.longrepr = lacking
        return report
    if bdd is not None and excinfo is not None:
        errors = sys.modules.get("pytest_bdd.exceptions")
        if errors is not None and isinstance(excinfo.value, errors.GherkinParseError):
            report.longrepr = bdd.parse_error_text(excinfo.value)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Take proposals out of a report's properties: JUnit writes these, and proposals are raw.

    Also describe a missing package without a traceback.
    """
    report = yield
    if call.excinfo is not None and (lacking := _missing_package(call.excinfo.value)):
        report.longrepr = lacking
    for name, value in report.user_properties:
        if name == UPDATES:
            setattr(report, PROPOSED_AS, value)
    report.user_properties = [
        property_ for property_ in report.user_properties if property_[0] != UPDATES
    ]
    return report


def _missing_package(problem: BaseException, module_text: str = "") -> str:
    """Return the package that simkit lacks, if that is why an item or a module failed."""
    if not isinstance(problem, ModuleNotFoundError | pytest.Collector.CollectError):
        return ""
    from simkit.core.requirements import missing_in_test

    return missing_in_test(problem, module_text)


def _proposals(terminalreporter: Any) -> Iterator[Any]:
    """Yield the proposals of all items, from the reports of all processes."""
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", None) == "call" and hasattr(report, PROPOSED_AS):
                yield getattr(report, PROPOSED_AS)


def _update(terminalreporter: Any) -> None:
    """Write the proposals of all items, wherever they ran."""
    from simkit.core.errors import SimkitError
    from simkit.core.output import clean
    from simkit.update import accepted_lines, decoded

    terminalreporter.section("simkit update")
    proposals, cache = map(decoded, _proposals(terminalreporter)), _cache(terminalreporter.config)
    try:
        for line in accepted_lines(proposals, cache):
            terminalreporter.write_line(clean(line))
    except SimkitError as problem:
        terminalreporter.write_line(clean(str(problem)), red=True)


class ScenarioFile(pytest.File):
    """One file of scenarios."""

    def collect(self) -> Iterator[ScenarioItem]:
        from simkit.core.errors import SimkitError
        from simkit.core.output import clean

        try:
            for case in self.cases():
                # pytest prints names as they are, and writes them into reports.
                yield self.item_type().from_parent(self, name=clean(case.name), scenario=case)
        except SimkitError as problem:
            raise self.CollectError(clean(str(problem))) from None

    def cases(self) -> Sequence[ScenarioCase]:
        """Return what is in the file; raise SourceError."""
        from simkit.spec.scenario.items import items_in

        return items_in(_relative(self.path), _cache(self.config))

    def item_type(self) -> type[ScenarioItem]:
        """Return the type of its items."""
        return ScenarioItem


class SimulationFile(ScenarioFile):
    """One file of simulations."""

    def cases(self) -> Sequence[ScenarioCase]:
        from simkit.spec.scenario.items import simulations_in

        return simulations_in(_relative(self.path), _cache(self.config))

    def item_type(self) -> type[ScenarioItem]:
        return SimulationItem


class ScenarioItem(pytest.Item):
    """One scenario, or one row of its table."""

    def __init__(self, *, scenario: ScenarioCase, **rest: Any) -> None:
        super().__init__(**rest)
        self.scenario = scenario
        self.result: Result | None = None
        """Its result; None before the run."""
        self.page: RunPage | None = None
        """Its run for the page; None if none is written."""
        self.picture = ""
        """Its run as a Mermaid diagram, if it fails in a workflow; else empty."""
        for tag in scenario.tags:
            self._mark(tag)
        if scenario.skip is not None:
            self.add_marker(pytest.mark.skip(reason=_clean(scenario.skip)))
        elif scenario.needs and not self.config.getoption("--simkit-needs-met"):
            from simkit.spec.scenario.needs import unmet

            if reason := unmet(scenario.needs):
                self.add_marker(pytest.mark.skip(reason=reason))

    def _mark(self, tag: str) -> None:
        """Add a tag as a mark that ``--strict-markers`` knows."""
        from simkit.core.errors import SourceError

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
        from simkit.core.gc_pause import gc_paused
        from simkit.core.sudden_end import sudden_end_told

        capture = self.config.pluginmanager.get_plugin("capturemanager")
        releases = () if capture is None else (capture.suspend_global_capture,)
        with gc_paused(), sudden_end_told(*releases):
            self._run()

    def _run(self) -> None:
        from simkit.checks.judge import strictly
        from simkit.core.errors import SimkitError
        from simkit.core.output import clean, without_secrets
        from simkit.report.outcomes import not_run, result_of
        from simkit.session.simulate import simulate

        try:
            prepared = _library(self.config).prepared(self.scenario)
            if prepared.unmet:
                raise prepared.refusal()
            seed = self.config.getoption("--simkit-seed")
            outcome = simulate(prepared, seed=seed)
            if self.config.getoption("--simkit-strict"):
                import msgspec

                judgement = strictly(outcome.judgement)
                outcome = msgspec.structs.replace(outcome, judgement=judgement)
        except SimkitError as problem:
            self.result = not_run(self.scenario, "broken", error=str(problem))
            raise pytest.fail.Exception(_clean(str(problem)), pytrace=False) from None
        if (coverage := self.config.pluginmanager.get_plugin(COVERAGE)) is not None:
            coverage.collector.add(prepared, outcome.view)
        self.redactor = prepared.redactor(os.environ)
        # Reports, such as JUnit's, must contain no secret.
        self.result = without_secrets(result_of(prepared, outcome, seed), self.redactor)
        expected = prepared.scenario.xfail
        if expected is not None and outcome.judgement.exit_code < 2:
            # Added only now: an invalid scenario is not the expected failure.
            reason = clean(expected.reason, self.redactor)
            self.add_marker(pytest.mark.xfail(reason=reason, strict=expected.strict))
        self._propose(prepared, outcome)
        self._identify(self.result, outcome)
        self._show(self.result, prepared, outcome)
        self._report(self.result)
        if not outcome.passed:
            judgement = without_secrets(outcome.judgement, self.redactor)
            text = self._failure_text(self.result, judgement.findings)
            pytest.fail(clean(text, self.redactor), pytrace=False)

    def _propose(self, prepared: Prepared, outcome: Outcome) -> None:
        """Keep the proposed changes of the file for the process that writes them."""
        mode = self.config.getoption("--simkit-update")
        if mode is None or (mode == "fix" and outcome.judgement.exit_code != 1):
            return
        if mode == "fix" and prepared.scenario.xfail is not None:
            return
        from simkit.update import additions, encoded, fixes

        proposal = (
            additions(prepared, outcome.view, self.redactor)
            if mode == "create"
            else fixes(prepared, outcome.view, outcome.judgement)
        )
        self.user_properties.append((UPDATES, encoded(proposal)))

    def _identify(self, result: Result, outcome: Outcome) -> None:
        """Add the run's identity to reports such as JUnit's; keep the result if there is a base."""
        for name in ("seed", "digest", "tokens"):
            self.user_properties.append((f"simkit.{name}", getattr(result, name)))
        if self.config.getoption("--simkit-base"):
            from simkit.testing.pytest_workflow import with_trace

            self.result = with_trace(result, outcome.redacted(self.redactor).trace, self.config)

    def _show(self, result: Result, prepared: Prepared, outcome: Outcome) -> None:
        """Make the run's page, and the picture of a failing one, where somebody reads them."""
        plugins = self.config.pluginmanager
        draws = result.failed and plugins.has_plugin(WORKFLOW)
        if not draws and not plugins.has_plugin(PAGE):
            return
        from simkit.viewer import run_page, sequence_text

        view = outcome.redacted(self.redactor).view
        if plugins.has_plugin(PAGE):
            self.page = run_page(result, view, prepared.document, self.redactor)
        if draws:
            self.picture = sequence_text(view, result.findings)

    def _report(self, result: Result) -> None:
        """Add findings that fail nothing to the report."""
        from simkit.core.output import clean

        if result.warnings:
            from simkit.report.text import findings_text

            text = clean(findings_text(result.warnings), self.redactor)
            self.add_report_section("call", WARNINGS, text)
            self.user_properties.append((WARNINGS, len(result.warnings)))
        if result.passed_over:
            from simkit.report.text import findings_text, passed_over_words

            words = passed_over_words(result.passed_over)
            text = clean(f"{words}\n{findings_text(result.passed_over)}", self.redactor)
            self.add_report_section("call", PASSED_OVER, text)
            self.user_properties.append((PASSED_OVER, len(result.passed_over)))
            self.user_properties.append((PASSED_OVER_WHY, clean(words, self.redactor)))
        if result.lints_off:
            lines = [f"{lint}: {reason}" for lint, reason in result.lints_off]
            text = clean("\n".join(lines), self.redactor)
            self.add_report_section("call", "simkit lints turned off", text)

    def _failure_text(self, result: Result, findings: Sequence[Finding]) -> str:
        """Return what fails the scenario, whether that is expected or not."""
        from simkit.report.outcomes import not_run
        from simkit.report.text import result_text

        strict = self.config.getoption("--simkit-strict")
        failed = not_run(
            self.scenario, "failed", seed=result.seed, findings=findings, strict=strict
        )
        return result_text(failed)

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, self.scenario.line - 1, self.name


class SimulationItem(ScenarioItem):
    """One simulation: conversations that nobody wrote, of which none may break a rule."""

    def _run(self) -> None:
        from simkit.core.errors import SimkitError

        try:
            from simkit.explore.campaigns import Bounds
            from simkit.testing.simulations import failure_of

            runs, seed = (self.config.getoption(f"--simkit-{name}") for name in ("runs", "seed"))
            coverage = self.config.pluginmanager.get_plugin(COVERAGE)
            bounds = Bounds(runs=runs, seed=seed, measures=coverage is not None)
            strict = self.config.getoption("--simkit-strict")
            campaign, text = failure_of(
                _library(self.config), self.scenario, bounds, is_strict=strict
            )
            if coverage is not None and campaign.coverage is not None:
                coverage.take(campaign.coverage)
        except SimkitError as problem:
            raise pytest.fail.Exception(_clean(str(problem)), pytrace=False) from None
        if text:
            pytest.fail(_clean(text), pytrace=False)


def _clean(text: str) -> str:
    from simkit.core.output import clean

    return clean(text)


def _library(config: pytest.Config) -> Library:
    """Return the library of this run, which reads every file once."""
    from simkit.spec.scenario.files import Library

    return config.stash.setdefault(_LIBRARY, Library(_cache(config)))


def _cache(config: pytest.Config) -> DocumentCache:
    """Return the documents that collection has read, which items need again."""
    from simkit.language.yaml import DocumentCache

    return config.stash.setdefault(_CACHE, DocumentCache())


def _relative(path: Path) -> str:
    """Return the path relative to the working directory; on another drive it stays absolute."""
    try:
        return os.path.relpath(path)
    except ValueError:
        return str(path)
