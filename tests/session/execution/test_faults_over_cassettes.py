"""Faults that are laid over recorded traffic, and recordings that nobody asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from simkit.checks.judge import Outcome
from simkit.session.execution.recorded import Recording
from simkit.session.simulate import record, simulate
from simkit.trace.events import FaultInjected, ModelReplied, ModelRetried
from tests.recording import APP, SCENARIO, Provider, echo, prepared, write
from tests.recording import server as server

PATIENT = (
    APP
    + """

def run_patiently(text):
    try:
        return run(text)
    except OSError:
        return run(text)


def run_resignedly(text):
    try:
        return run(text)
    except OSError:
        return "closed"
"""
)
FAULTS = "faults: [{agent: clerk, error: overloaded}]\nturns:"
CLOSED = SCENARIO.replace('"boss: clerk: hello"', "closed")


@pytest.fixture
def folder(cwd: Path, monkeypatch: pytest.MonkeyPatch, server: Provider) -> Path:
    """A folder with the cassette of a run of two interactions."""
    monkeypatch.setenv("PROVIDER", server.url)
    monkeypatch.setenv("KEY", "sk-test-0123456789abcdef")
    server.answer = echo
    record(prepared(write(cwd)), Recording("all", "2026-01-05T09:00:00Z"))
    return cwd


def replayed(folder: Path, run: str, scenario: str) -> Outcome:
    return simulate(prepared(write(folder, scenario.replace("desk:run", f"desk:{run}"), PATIENT)))


def test_the_attempt_after_a_fault_gets_what_was_recorded(folder: Path) -> None:
    outcome = replayed(folder, "run_patiently", SCENARIO.replace("turns:", FAULTS))

    kinds = (FaultInjected, ModelRetried, ModelReplied)
    names = [type(event).__name__ for event in outcome.trace.events if isinstance(event, kinds)]
    assert names == ["FaultInjected", "ModelRetried", "ModelReplied", "ModelReplied"]
    assert outcome.judgement.findings == ()


def test_what_a_fault_leaves_unplayed_is_no_finding(folder: Path) -> None:
    outcome = replayed(folder, "run_resignedly", CLOSED.replace("turns:", FAULTS))

    assert outcome.judgement.findings == ()


def test_what_is_left_unplayed_without_one_fails_a_scenario_that_otherwise_passes(
    folder: Path, server: Provider
) -> None:
    lazy = PATIENT.replace('return ask("boss", first)', "return first")
    scenario = SCENARIO.replace("boss: clerk: hello", "clerk: hello")
    file = write(folder, scenario, lazy)

    (finding,) = simulate(prepared(file)).judgement.findings

    assert (finding.id, finding.severity) == ("RUN-04", "E")
    assert finding.where == f"{file}:6:11"
    assert finding.what == (
        "1 recorded interaction of the cassette answered nothing:\n"
        f"interactions[1]: POST {server.url}/v1/chat/completions, agent 'boss' in turn 1"
    )
