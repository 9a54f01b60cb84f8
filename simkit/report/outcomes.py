"""Outcomes: the judgement of a run as a result."""

from __future__ import annotations

from itertools import compress
from typing import Any, Final

from simkit.checks.findings import Finding
from simkit.checks.judge import Outcome
from simkit.report.results import OutcomeName, Result
from simkit.spec.scenario.files import Prepared
from simkit.spec.scenario.items import ScenarioCase
from simkit.trace import events as e

_COUNTED: Final = frozenset((e.ContextBuilt, e.ModelCalled, e.TurnStarted))


def result_of(prepared: Prepared, outcome: Outcome, seed: int | None) -> Result:
    """Return the result of a scenario; an expected failure inverts it.

    ``seed`` is the caller's in place of the scenario's own.
    """
    scenario, judgement, view = prepared.scenario, outcome.judgement, outcome.view
    findings = judgement.findings
    name: OutcomeName = "held" if judgement.passed else "failed"
    reason = ""
    if judgement.exit_code == 2:
        name = "broken"
    elif scenario.xfail is not None and not judgement.passed:
        name, findings, reason = "xfailed", (), scenario.xfail.reason
    elif scenario.xfail is not None and scenario.xfail.strict:
        name = "failed"
        findings = (_unexpectedly_held(prepared, scenario.xfail.reason),)
    turns = calls = tokens = 0
    tokens_of: dict[str, int] = {}
    events = view.events
    for event in compress(events, map(_COUNTED.__contains__, map(type, events))):  # Few are.
        if type(event) is e.ContextBuilt:
            tokens_of[event.call] = event.tokens
        elif type(event) is e.ModelCalled:
            calls, tokens = calls + 1, tokens + tokens_of.get(event.call, 0)
        elif type(event) is e.TurnStarted:
            turns += 1
    return not_run(
        prepared.item, name, seed=scenario.seed if seed is None else seed,
        digest=outcome.trace.digest(),
        pipeline=prepared.pipeline.pipeline, findings=findings, warnings=judgement.warnings,
        noted=judgement.noted, lints_off=judgement.lints_off, reason=reason,
        passed_over=judgement.passed_over,
        turns=turns, model_calls=calls, tokens=tokens,
        virtual_ms=view.events[-1].at if view.events else 0,
    )  # fmt: skip


def not_run(item: ScenarioCase, outcome: OutcomeName, **facts: Any) -> Result:
    """Return the result of a scenario that did not run, with the given facts."""
    return Result(item.id, item.file, item.line, item.name, outcome, **facts)


def _unexpectedly_held(prepared: Prepared, reason: str) -> Finding:
    return Finding(
        "claim",
        "E",
        f"the scenario held, but is expected to fail: {reason}",
        prepared.document.position(("xfail",)),
        ("xfail",),
        fix="Remove `xfail`, or write `strict: false` under it.",
    )
