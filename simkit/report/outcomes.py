"""Outcomes: the judgement of a run as a result."""

from __future__ import annotations

from collections import Counter
from typing import Any

from simkit.checks.findings import Finding
from simkit.checks.judge import Judgement
from simkit.report.results import OutcomeName, Result
from simkit.spec.scenario.files import Prepared
from simkit.spec.scenario.items import ScenarioCase
from simkit.trace import events as e
from simkit.trace.store import Trace


def result_of(prepared: Prepared, trace: Trace, judgement: Judgement, seed: int | None) -> Result:
    """Return the result of a scenario; an expected failure inverts it.

    ``seed`` is the caller's in place of the scenario's own.
    """
    scenario, findings = prepared.scenario, judgement.findings
    name: OutcomeName = "held" if judgement.passed else "failed"
    reason = ""
    if judgement.exit_code == 2:
        name = "broken"
    elif scenario.xfail is not None and not judgement.passed:
        name, findings, reason = "xfailed", (), scenario.xfail.reason
    elif scenario.xfail is not None and scenario.xfail.strict:
        name = "failed"
        findings = (_unexpectedly_held(prepared, scenario.xfail.reason),)
    events = trace.events
    kinds = Counter(map(type, events))
    return not_run(
        prepared.item, name, seed=scenario.seed if seed is None else seed, digest=trace.digest(),
        pipeline=prepared.pipeline.pipeline, findings=findings, warnings=judgement.warnings,
        noted=judgement.noted, lints_off=judgement.lints_off, reason=reason,
        passed_over=judgement.passed_over,
        turns=kinds[e.TurnStarted], model_calls=kinds[e.ModelCalled],
        tokens=tokens_of(trace),
        virtual_ms=events[-1].at if events else 0,
    )  # fmt: skip


def not_run(item: ScenarioCase, outcome: OutcomeName, **facts: Any) -> Result:
    """Return the result of a scenario that did not run, with the given facts."""
    return Result(item.id, item.file, item.line, item.name, outcome, **facts)


def tokens_of(trace: Trace) -> int:
    """Return the number of tokens of all contexts together."""
    built: dict[str, int] = {}
    total = 0
    for event in trace.events:
        if type(event) is e.ContextBuilt:
            built[event.call] = event.tokens
        elif type(event) is e.ModelCalled:
            total += built.get(event.call, 0)
    return total


def _unexpectedly_held(prepared: Prepared, reason: str) -> Finding:
    return Finding(
        "claim",
        "E",
        f"the scenario held, but is expected to fail: {reason}",
        prepared.document.position(("xfail",)),
        ("xfail",),
        fix="Remove `xfail`, or write `strict: false` under it.",
    )
