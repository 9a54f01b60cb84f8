"""pytest plugin: each scenario of a ``*.scenario.yaml`` is an item, and so is each row of a table.

No other file is collected. Collection reads only names, tags, ``skip`` and ``needs``; the rest of a
scenario is read, and most of simkit loaded, when its item runs. An unreadable file is a collection
error, an invalid scenario fails without a traceback, and ``xfail`` excuses only findings, never an
invalid scenario.

Here are the hooks that every run of pytest calls. ``items`` are files and items, those of
simulations, too; ``runs`` runs an item; ``page`` and ``workflow`` are hooks that only
some runs need.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Generator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

# Every pytest run with simkit installed loads this module, so that the parts of simkit are imported
# where the first scenario needs them.
if TYPE_CHECKING:
    from simkit.session.simulation.fixture import Simulations

SUFFIX: Final = ".scenario.yaml"
SIMULATED: Final = ".simulation.yaml"
FILES: Final = {
    SUFFIX: ("simkit.pytest_plugin.items", "ScenarioFile"),
    SIMULATED: ("simkit.pytest_plugin.items", "SimulationFile"),
}
"""The module and the name of the collector of each kind of file."""
WARNINGS: Final = "simkit warnings"
PASSED_OVER: Final = "simkit claims not looked at"
"""The section of a report for findings that fail nothing; the property with their number."""
KEPT_AS: Final = "simkit_kept"
"""The attribute of an item, and of its report, with its run to be kept."""
STORY_AS: Final = "simkit_story"
"""The attribute of a test with its story that has ended; RAN_AS is that of what was kept of it."""
RAN_AS: Final = "simkit_ran"
COVERAGE: Final = "simkit-coverage"
"""The name of the plugin that measures coverage."""
PAGE: Final = "simkit-page"
"""The name of the plugin that writes a page of all runs."""
WORKFLOW: Final = "simkit-workflow"
"""The name of the plugin that reports to a workflow of GitHub Actions."""
UPDATES: Final = "simkit-update"
"""The name of the plugin that changes scenario files."""
UPDATE_MODES: Final = ("fix", "create")
_REFUSED: Final[pytest.StashKey[list[str]]] = pytest.StashKey()
"""The effects that were refused to code of runs at the end of the session."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options, all of which begin with ``--simkit-``."""
    add = parser.getgroup("simkit").addoption
    text: dict[str, Any] = {"default": ""}
    flag: dict[str, Any] = {"action": "store_true"}
    add("--simkit-seed", type=_whole_number, metavar="N", help="run every scenario with seed N")
    goal = "compare with the traces of this folder, such as those of the base branch"
    add("--simkit-base", metavar="DIR", help=goal, **text)
    goal = "write a page that shows every scenario's run: what each agent was sent"
    add("--simkit-html", metavar="FILE", help=goal, **text)
    goal = "draw N conversations of each simulation (default: 100)"
    add("--simkit-runs", type=_positive_number, default=100, metavar="N", help=goal)
    goal = "print at the end what of their pipelines the scenario files never made happen"
    add("--simkit-coverage", help=goal, **flag)
    goal = "write a page with the same: pictures of the pipelines, and each item with its line"
    add("--simkit-coverage-html", metavar="FILE", help=goal, **text)
    goal = "fail a scenario instead of skipping it if what it needs is not installed"
    add("--simkit-needs-met", help=goal, **flag)
    goal = "fail a scenario with warnings, or with claims that were not looked at"
    add("--simkit-strict", help=goal, **flag)
    goal = (
        "change scenario files: failing claims into what was found (fix, the default), "
        "or write claims for turns that have none (create)"
    )
    modes: dict[str, Any] = {"nargs": "?", "const": "fix", "metavar": "fix|create"}
    add("--simkit-update", type=_update_mode, help=goal, **modes)


def _whole_number(word: str, least: float = float("-inf"), bound: str = "") -> int:
    if not word.lstrip("-").isdecimal() or int(word) < least:
        raise argparse.ArgumentTypeError(f"must be a whole number{bound}, not {word!r}")
    return int(word)


_positive_number = partial(_whole_number, least=1, bound=" of at least 1")


def _update_mode(word: str) -> str:
    if word not in UPDATE_MODES:
        raise argparse.ArgumentTypeError(
            f"{word!r} is neither `fix` nor `create`; write `--simkit-update=fix` before a path"
        )
    return word


def pytest_load_initial_conftests(parser: pytest.Parser, args: list[str]) -> None:
    """Refuse an unknown option of simkit with the nearest, before pytest does without."""
    known = [name for option in parser.getgroup("simkit").options for name in option.names()]
    words = [word.partition("=")[0] for word in args if word.startswith("--simkit-")]
    if unknown := next((word for word in words if word not in known), ""):
        from simkit.core.text import hinted, near

        problem = f"there is no option `{unknown}`"
        raise pytest.UsageError(hinted(problem, near(unknown, known), known))


def pytest_configure(config: pytest.Config) -> None:
    """Reject options that would change files in CI, or with another seed.

    In a workflow of GitHub Actions, and with a base, add the plugin that reports scenarios there.
    """
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_LastRun())
    base: str = config.getoption("--simkit-base")
    if base or os.environ.get("GITHUB_ACTIONS") == "true":
        from simkit.pytest_plugin.workflow import Workflow

        config.pluginmanager.register(Workflow(base), WORKFLOW)
    if page := config.getoption("--simkit-html"):
        from simkit.pytest_plugin.workflow import PytestPage

        config.pluginmanager.register(PytestPage(page), PAGE)
    coverage_page: str = config.getoption("--simkit-coverage-html")
    if coverage_page or config.getoption("--simkit-coverage"):
        from simkit.pytest_plugin.workflow import PytestCoverage

        is_printed: bool = config.getoption("--simkit-coverage")
        config.pluginmanager.register(PytestCoverage(coverage_page, is_printed), COVERAGE)
    if config.getoption("--simkit-update") is None:
        return
    from simkit.pytest_plugin.workflow import Updates

    config.pluginmanager.register(Updates(config), UPDATES)


class _LastRun:
    """Keeps a session with runs of simkit as the last run."""

    def __init__(self) -> None:
        self._session: Any = None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take what a report carries, also from a process of pytest-xdist."""
        text = getattr(report, KEPT_AS, None)
        if text is None:
            return
        if self._session is None:
            from simkit.pytest_plugin.runs import KeptSession

            self._session = KeptSession()
        self._session.take(text)

    def pytest_sessionfinish(self) -> None:
        """Write the list of the run."""
        if self._session is not None:
            self._session.close()


@pytest.hookimpl(optionalhook=True)
def pytest_recording_configure(vcr: Any) -> None:
    """Register matchers with each of pytest-recording's recorders, if a configuration has any."""
    configured = sys.modules.get("simkit.vcr")
    if configured is not None:
        configured.register(vcr)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: Any, ids: Sequence[str]) -> None:
    """Listen to SIGTERM from the first process on that has collected scenarios."""
    if any(SUFFIX in id for id in ids):
        from simkit.pytest_plugin.items import listen

        listen(node.config)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Say what was near a scenario that pytest does not find, and how a feature is run."""
    try:
        return (yield)
    except pytest.UsageError as problem:
        from simkit.pytest_plugin.items import advice_on_arguments

        raise pytest.UsageError(*problem.args, *advice_on_arguments(session.config)) from None


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect a file that holds scenarios by its name."""
    name = file_path.name
    if not name.endswith(tuple(FILES)):
        return None
    from importlib import import_module

    module, kind = FILES[SUFFIX if name.endswith(SUFFIX) else SIMULATED]
    file: pytest.File = getattr(import_module(module), kind).from_parent(parent, path=file_path)
    return file


@pytest.fixture
def sim(request: pytest.FixtureRequest) -> Simulations:
    """Begin conversations with a pipeline: ``sim("support.pipeline.yaml").say("Hello")``."""
    from simkit.session.simulation.fixture import Simulations

    return Simulations(request)


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    """Describe the differences of a value from a matcher, if a test compares one."""
    matchers = sys.modules.get("simkit.matchers")
    return None if matchers is None else matchers.explained(op, left, right)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """Fail a test in whose time code of an earlier run was refused something."""
    refusals = sys.modules.get("simkit.capture.http.refusals")
    if refusals is not None and (refused := refusals.late_refusals()):
        from simkit.core.output import clean

        pytest.fail(clean(_refused_text(refused)), pytrace=False)


def _refused_text(refused: Sequence[str]) -> str:
    return "\n".join(f"RUN-02: {text}" for text in refused)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a session at whose end code of its runs is refused something."""
    processes = sys.modules.get("simkit.capture.http.processes")
    refused = [] if processes is None else processes.refused_at_exit()
    output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["simkit_refused"] = refused
    refused = session.config.stash.setdefault(_REFUSED, []) + refused
    session.config.stash[_REFUSED] = refused
    if refused and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take what code was refused in a process that has ended."""
    refused = getattr(node, "workeroutput", {}).get("simkit_refused", [])
    node.config.stash.setdefault(_REFUSED, []).extend(refused)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the number of warnings of all scenarios; the items' reports have their texts."""
    if refused := terminalreporter.config.stash.get(_REFUSED, []):
        terminalreporter.section("simkit: refused at the end of the session")
        from simkit.core.output import clean

        terminalreporter.write_line(clean(_refused_text(refused)))
    counts, over = _properties(terminalreporter, WARNINGS, PASSED_OVER)
    if counts:
        from simkit.core.output import clean
        from simkit.core.text import counted

        warnings, scenarios = counted(sum(counts), "warning"), counted(len(counts), "scenario")
        terminalreporter.write_line(clean(f"simkit: {warnings} in {scenarios}; -rA shows them"))
    if over:
        from simkit.core.text import counted

        claims, scenarios = counted(sum(over), "claim"), counted(len(over), "scenario")
        line = f"simkit: {claims} in {scenarios} not looked at; -rA shows them"
        terminalreporter.write_line(line)
    if (updates := terminalreporter.config.pluginmanager.get_plugin(UPDATES)) is not None:
        updates.write(terminalreporter)


def _properties(terminalreporter: Any, *keys: str) -> list[list[Any]]:
    """Return the values of each property in all reports of items."""
    values: dict[str, list[Any]] = {key: [] for key in keys}
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", None) == "call":
                for name, value in report.user_properties:
                    if name in values:
                        values[name].append(value)
    return [*values.values()]


@pytest.hookimpl(optionalhook=True)
def pytest_bdd_before_scenario(request: pytest.FixtureRequest, feature: Any, scenario: Any) -> None:
    """Refuse what pytest-bdd would pass over, if a feature uses simkit's steps."""
    if bdd := sys.modules.get("simkit.bdd"):
        bdd.read_outline(request, feature, scenario)


@pytest.hookimpl(optionalhook=True)
def pytest_bdd_step_func_lookup_error(
    request: pytest.FixtureRequest, feature: Any, step: Any
) -> None:
    """Describe the nearest phrase, or the import that is missing."""
    from simkit import bdd

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
        problem, is_read = excinfo.value, hasattr(excinfo.value, "line_content")
        is_feature = str(getattr(problem, "filename", "")).endswith(".feature")
        is_read = is_read or isinstance(problem, FileNotFoundError)
        if (is_feature and is_read) or isinstance(problem, bdd.NoScenariosFound):
            report.longrepr = bdd.parse_error_text(problem)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Describe a missing package without a traceback; let the report carry a run that is kept."""
    report = yield
    if (story := item.__dict__.pop(STORY_AS, None)) is not None:
        from simkit.pytest_plugin.runs import keep_story

        keep_story(item, *story)
    run_text = getattr(item, KEPT_AS, None)
    if run_text is not None and call.when == "call":
        setattr(report, KEPT_AS, run_text)
        if report.failed and run_text:
            from simkit.pytest_plugin.runs import shorten

            shorten(item, report)
    if call.excinfo is not None and (lacking := _missing_package(call.excinfo.value)):
        report.longrepr = lacking
    return report


def _missing_package(problem: BaseException, module_text: str = "") -> str:
    """Return the package that simkit lacks, if that is why an item or a module failed."""
    if not isinstance(problem, ModuleNotFoundError | pytest.Collector.CollectError):
        return ""
    from simkit.core.requirements import missing_in_test

    return missing_in_test(problem, module_text)
