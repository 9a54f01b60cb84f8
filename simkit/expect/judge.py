"""The judge: a scenario's claims and all lints, held against one trace."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from simkit.expect.claims import Writer, short
from simkit.expect.contexts import check_contexts
from simkit.expect.findings import Finding, Hit
from simkit.expect.lint_claims import as_finding, check_lint_claims, sorted_hits
from simkit.expect.lints import all_lints, run_lints
from simkit.expect.runs import (
    check_agents,
    check_ends,
    check_events,
    check_handoffs,
    check_model_calls,
    check_reply,
    check_runs,
    check_state,
    check_tool_calls,
)
from simkit.expect.scope import Path, Scope, scope_of_run, scope_of_turn
from simkit.expect.vacuous import vacuous_claims
from simkit.scenario.claims import Expect
from simkit.scenario.model import Scenario
from simkit.source import Document
from simkit.trace import Trace
from simkit.views import View

Find = Callable[[str], Callable[..., Any]]
"""Finds a user's function by its name ``module:function``."""

CHECKS: tuple[Callable[[Scope, Writer], Iterator[Finding]], ...] = (
    check_agents, check_reply, check_runs, check_handoffs, check_tool_calls, check_model_calls,
    check_state, check_events, check_ends,
)  # fmt: skip


class Judgement(msgspec.Struct, frozen=True):
    """What the judge says of one run."""

    findings: tuple[Finding, ...]
    """What fails the scenario."""
    warnings: tuple[Finding, ...]
    """What is printed, but fails nothing."""
    noted: tuple[Finding, ...]
    """What lints saw and the scenario claims, or allows beside a claim."""
    lints_off: tuple[tuple[str, str], ...]
    """Lints that the scenario turns off, each with its reason."""

    @property
    def passed(self) -> bool:
        """Whether every claim and lint held."""
        return not self.findings

    @property
    def exit_code(self) -> int:
        """0 all held, 1 findings, 2 the scenario itself is at fault."""
        if any(finding.breaks for finding in self.findings):
            return 2
        return 1 if self.findings else 0


def judge(scenario: Scenario, document: Document, trace: Trace, find: Find) -> Judgement:
    """Returns what does not hold; reads only the trace."""
    writer = Writer(document)
    view, hits = run_lints(trace.events, all_lints())
    scopes = _scopes(scenario, view)
    hits.extend(_vacuous(scenario, trace, view, writer))
    findings: list[Finding] = []
    for scope in scopes:
        for check in CHECKS:
            findings += check(scope, writer)
        findings += check_contexts(scope, writer, view.pipeline.observes)
        findings += _satisfied(scope, writer, view, find)
    findings += check_lint_claims(scopes, hits, writer)
    findings += _unclaimed_errors(scenario, view, hits, writer)
    sorted_ = sorted_hits(hits, scopes, tuple(scenario.lints), writer)
    findings += [as_finding(hit, writer) for hit in sorted_.failing]
    return Judgement(
        tuple(sorted(findings, key=_in_order)),
        tuple(as_finding(hit, writer) for hit in sorted_.warnings),
        tuple(as_finding(hit, writer) for hit in sorted_.noted),
        tuple(scenario.lints.items()),
    )


def _in_order(finding: Finding) -> tuple[int, int]:
    """By turn; what speaks of the whole run comes last."""
    return (finding.turn or 1_000_000_000, 0 if finding.id == "claim" else 1)


def _scopes(scenario: Scenario, view: View) -> list[Scope]:
    scopes = [
        scope_of_turn(view.turns[place], place, turn.expect, view)
        for place, turn in enumerate(scenario.turns)
        if place < len(view.turns) and turn.expect.model_fields_set
    ]
    if scenario.expect.model_fields_set:
        scopes.append(scope_of_run(scenario.expect, view))
    return scopes


def _vacuous(scenario: Scenario, trace: Trace, view: View, writer: Writer) -> Iterator[Hit]:
    claims: list[tuple[Path, int, Expect]] = [
        (("turns", place, "expect"), place + 1, turn.expect)
        for place, turn in enumerate(scenario.turns)
    ]
    claims.append((("expect",), 0, scenario.expect))
    return vacuous_claims(claims, trace, view, writer)


def _unclaimed_errors(
    scenario: Scenario, view: View, hits: Sequence[Hit], writer: Writer
) -> Iterator[Finding]:
    """An error that nobody claims; a lint that tells of the same fact says it better."""
    told = {(hit.id, hit.turn) for hit in hits}
    for place, turn in enumerate(view.turns):
        error = turn.error
        if error is None or scenario.turns[place].expect.has("error"):
            continue
        if scenario.expect.has("error") and place == len(view.turns) - 1:
            continue
        twin = {"ReplyMissing": "RUN-01", "LimitExceeded": "FLW-01"}.get(error.type, "")
        if (twin, turn.number) in told:
            continue
        left = len(scenario.turns) - len(view.turns)
        lines = [f"turns after it did not run: {left}"] if left else []
        yield writer.finding(
            ("turns", place), f"turn {turn.number} ended with error {error.type}: {error.message}",
            turn=turn.number, context=lines,
            fix=f"If it is meant, claim it: `error: {{type: {error.type}}}`.",
        )  # fmt: skip


def _satisfied(scope: Scope, writer: Writer, view: View, find: Find) -> Iterator[Finding]:
    """The user's own predicates: true, or a message that says what is wrong."""
    names = scope.expect.satisfies or ()
    for name in (names,) if isinstance(names, str) else names:
        try:
            answer = find(name)(view)
        except Exception as problem:
            answer = f"raised {type(problem).__name__}: {short(str(problem))}"
        if answer is not True:
            says = answer if isinstance(answer, str) else f"returned {answer!r}, not True"
            yield writer.finding(
                (*scope.path, "satisfies"), f"`{name}` does not hold: {says}", turn=scope.turn
            )
