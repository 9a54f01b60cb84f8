"""The run of an item: a scenario is judged, and its report has what the judgement says."""

from __future__ import annotations

import os
import sys
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Any, Final

import msgspec
import pytest

from simkit.checks.judge import Outcome, strictly
from simkit.core.errors import SimkitError
from simkit.core.gc_pause import gc_paused
from simkit.core.output import clean, without_secrets
from simkit.core.redact import Redactor
from simkit.core.stopping import sudden_end_told
from simkit.core.text import shell_word
from simkit.pytest_plugin import COVERAGE, PAGE, RAN_AS, WORKFLOW
from simkit.pytest_plugin.items import Ran, ScenarioItem, documents_of
from simkit.report.last_run import KEPT_AS, Ledger, RunEntry, failure_text
from simkit.report.results import Result, not_run, result_of
from simkit.session.simulate import simulate
from simkit.spec.scenario.files import Library, Prepared


class Session:
    """The files and options that all items of a run of pytest share."""

    def __init__(self, config: pytest.Config, scenarios: int) -> None:
        """``scenarios`` is the number of scenarios in the session."""
        plugins, option = config.pluginmanager, config.getoption
        self.library = Library(documents_of(config))
        """It reads every file once."""
        self.seed: int | None = option("--simkit-seed")
        self.is_strict: bool = option("--simkit-strict")
        self.update_mode: str | None = option("--simkit-update")
        self.keeps_all = bool(option("--simkit-base")) or scenarios <= SMALL
        """Whether traces of scenarios that pass are kept, too."""
        self.coverage = plugins.get_plugin(COVERAGE)
        """The plugin that measures coverage; None if there is none."""
        self.has_page, self.has_workflow = plugins.has_plugin(PAGE), plugins.has_plugin(WORKFLOW)
        capture = plugins.get_plugin("capturemanager")
        self.release: Callable[[], object] = (
            (lambda: None) if capture is None else capture.suspend_global_capture
        )
        """Lets through what the process writes."""


_SESSION: Final[pytest.StashKey[Session]] = pytest.StashKey()


def session_of(session: pytest.Session) -> Session:
    """Return the files and options of a run of pytest, made once."""
    stash = session.config.stash
    if _SESSION not in stash:
        scenarios = sum(
            isinstance(item, ScenarioItem) or hasattr(getattr(item, "obj", None), "__scenario__")
            for item in session.items
        )
        stash[_SESSION] = Session(session.config, scenarios)
    return stash[_SESSION]


def run_scenario(item: ScenarioItem) -> None:
    """Run a scenario and fill its report; raise pytest's failure if it does not hold."""
    session = session_of(item.session)
    with gc_paused, sudden_end_told(session.release):
        try:
            prepared = session.library.prepared(item.scenario)
            if prepared.unmet:
                raise prepared.refusal()
            outcome = simulate(prepared, seed=session.seed)
        except SimkitError as problem:
            item.keep(not_run(item.scenario, "broken", error=str(problem)))
            _keep(item, b"")
            raise pytest.fail.Exception(clean(str(problem)), pytrace=False) from None
        if session.is_strict:
            judgement = strictly(outcome.judgement)
            outcome = msgspec.structs.replace(outcome, judgement=judgement)
        _report(item, session, prepared, outcome)


def _report(item: ScenarioItem, session: Session, prepared: Prepared, outcome: Outcome) -> None:
    """Put the outcome into the item's report; raise pytest's failure if it does not hold."""
    if session.coverage is not None:
        session.coverage.collector.add(prepared, outcome.view)
    redactor = prepared.redactor(os.environ)
    result = result_of(prepared, outcome, session.seed)
    # Reports, such as JUnit's, must contain no secret.
    item.keep(result, redactor)
    expected = prepared.scenario.xfail
    if expected is not None and outcome.judgement.exit_code < 2:
        # Added only now: an invalid scenario is not the expected failure.
        reason = clean(expected.reason, redactor)
        item.add_marker(pytest.mark.xfail(reason=reason, strict=expected.strict))
    if session.update_mode is not None:
        item.proposal = _proposal(session.update_mode, prepared, outcome, redactor)
    _measure(item, result)
    _show(item, session, prepared, outcome, redactor)
    if result.warnings or result.passed_over or result.lints_off:
        _note(item, redactor)
    if not outcome.passed:
        judgement = without_secrets(outcome.judgement, redactor)
        # The report says why it fails, whether that is expected or not.
        failed = not_run(
            item.scenario, "failed", seed=result.seed, findings=judgement.findings,
            strict=session.is_strict,
        )  # fmt: skip
        from simkit.report.text import failure_text, reproduce_line

        text = failure_text(judgement, outcome.redacted(redactor).view)
        pytest.fail(clean(f"{text}\n\n{reproduce_line(failed)}", redactor), pytrace=False)


def _proposal(mode: str, prepared: Prepared, outcome: Outcome, redactor: Redactor) -> str | None:
    """Return the proposed changes of the file; None without any."""
    from simkit.update.proposals import additions, encoded, fixes

    if mode == "create":
        return encoded(additions(prepared, outcome.view, redactor))
    if outcome.judgement.exit_code != 1 or prepared.scenario.xfail is not None:
        return None
    return encoded(fixes(prepared, outcome.view, outcome.judgement))


def keep_story(item: pytest.Item, prepared: Prepared, outcome: Outcome) -> None:
    """Keep the run of a feature's story as that of a scenario; the test's name has its row."""
    session, redactor, ran = session_of(item.session), prepared.redactor(os.environ), Ran()
    row = item.name[item.name.index("[") :] if "[" in item.name else ""
    case = msgspec.structs.replace(prepared.item, name=clean(f"{prepared.item.name}{row}"))
    prepared = msgspec.structs.replace(prepared, item=case)
    result = result_of(prepared, outcome, session.seed)
    again = f"pytest {shell_word(item.nodeid)}"
    ran.keep(msgspec.structs.replace(result, again=again), redactor)
    ran.scenario = case
    _measure(item, result)
    _show(ran, session, prepared, outcome, redactor)
    for name, value in ((RAN_AS, ran), (KEPT_AS, getattr(ran, KEPT_AS))):
        setattr(item, name, value)


def shorten(item: Any, report: pytest.TestReport) -> None:
    """Let the message, of which a page of CI shows the first lines, name each finding."""
    from simkit.report.text import headline

    result = _result(getattr(item, RAN_AS, item))
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None and result.findings:
        first = result.findings[:FINDINGS_MAX]
        lines = [f"{finding.where}: {headline(finding)}" for finding in first]
        if more := len(result.findings) - len(first):
            lines.append(f"and {more} more")
        lines.append(f"reproduce: {result.reproduce}")
        crash.message = clean("\n".join(["Failed: " + lines[0], *lines[1:]]))


def _show(
    item: Ran, session: Session, prepared: Prepared, outcome: Outcome, redactor: Redactor
) -> None:
    """Keep the trace, the run's page, and the picture of a failing one.

    Each is made only where somebody reads it.
    """
    result, trace = _result(item), b""
    if session.keeps_all or result.failed:
        result = msgspec.structs.replace(result, trace=Ledger().place(result.id))
        item.keep(result)
        trace = outcome.redacted(redactor).trace.stored()
    _keep(item, trace)
    draws = result.failed and session.has_workflow
    if not draws and not session.has_page:
        return
    from simkit.viewer import run_page, sequence_text

    view = outcome.redacted(redactor).view
    if session.has_page:
        item.page = run_page(result, view, prepared.document, redactor)
    if draws:
        item.picture = sequence_text(view, result.findings)


def _measure(item: pytest.Item, result: Result) -> None:
    for name in ("seed", "digest", "tokens"):
        item.user_properties.append((f"simkit.{name}", getattr(result, name)))


def _keep(item: Ran, trace: bytes) -> None:
    """Let the item's report carry its run, with its trace if there is one."""
    result = _result(item)
    entry = RunEntry(result.id, result.outcome, result.digest, result.trace)
    setattr(item, KEPT_AS, text_of_run(entry, result.failed and not result.again, trace))


def _note(item: ScenarioItem, redactor: Redactor) -> None:
    """Add findings that fail nothing to the report."""
    from simkit.report.text import note_unfailing

    result = _result(item)
    note_unfailing(item, result.warnings, result.passed_over, redactor)
    if result.lints_off:
        lines = [f"{lint}: {reason}" for lint, reason in result.lints_off]
        text = clean("\n".join(lines), redactor)
        item.add_report_section("call", "simkit lints turned off", text)


def _result(item: Ran) -> Result:
    """Return the result of an item that has run, without secrets."""
    assert item.result is not None
    return item.result


# The runs of a session of pytest in `.simkit/`, as of `simkit replay`.
#
# Of a session with at most `SMALL` scenarios all traces are kept, of a larger one those of the
# scenarios that fail. They travel in pytest's own reports, so that pytest-xdist sends them on.
# Explored stories of features, and conversations of `sim`, are counted alone.


SMALL: Final = 50
FINDINGS_MAX: Final = 4
"""The findings of a scenario that a message names; pytest cuts it at 500 characters."""


def text_of_run(entry: RunEntry, has_failed: bool, trace: bytes) -> str:
    """Return a scenario's entry and its trace, which holds no secrets, as a report carries them."""
    encoded_trace = b64encode(zlib.compress(trace, 1)).decode() if trace else ""
    return msgspec.json.encode((entry, has_failed, encoded_trace)).decode()


class KeptSession:
    """Writes the runs of a session as they come."""

    def __init__(self) -> None:
        self._ledger = Ledger()
        self._entries: dict[str, RunEntry] = {}
        self._failed: dict[str, bool] = {}
        self._others = 0
        self._problem = ""

    def take(self, text: str) -> None:
        """Take what a report carried; of several runs of a scenario the last one counts."""
        if not text:
            self._others += 1
            return
        entry, has_failed, encoded_trace = msgspec.json.decode(
            text, type=tuple[RunEntry, bool, str]
        )
        self._entries[entry.id], self._failed[entry.id] = entry, has_failed
        if encoded_trace and not self._problem:
            try:
                self._ledger.keep(entry.id, zlib.decompress(b64decode(encoded_trace)))
            except OSError as problem:
                self._problem = failure_text(problem)

    def close(self) -> None:
        """Write the list of the run; say why it cannot be kept."""
        try:
            if self._entries and not self._problem:
                failing = [identity for identity, is_failing in self._failed.items() if is_failing]
                self._ledger.close([*self._entries.values()], failing, self._others)
            elif not self._entries:
                self._ledger.note_unkept(self._others)
        except OSError as problem:
            self._problem = failure_text(problem)
        self._ledger.end()
        if self._problem:
            text = clean(f"simkit: the traces of this run are not kept: {self._problem}")
            print(text, file=sys.stderr)
