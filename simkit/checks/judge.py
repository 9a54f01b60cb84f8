"""Judge: check a scenario's claims and all lints on one trace, or whether they notice a mutant."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from traceback import extract_tb
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from simkit.checks import turn_claims, unclaimed
from simkit.checks.claims import FindingBuilder, check_called, not_observable, unobservable
from simkit.checks.contexts import check_contexts
from simkit.checks.findings import Finding, FindingList, Hit, Scope, scope_of_run, scope_of_turn
from simkit.checks.following import at_failing_calls, with_causes
from simkit.checks.lints import LintRunner
from simkit.checks.lints.facts import Facts
from simkit.checks.origins import Places
from simkit.checks.runs import check_agents, check_runs
from simkit.checks.vacuous import vacuous_claims
from simkit.core.errors import PatternTooSlow, SimkitError, SourceError
from simkit.core.gc_pause import collected_meanwhile
from simkit.core.redact import Redactor
from simkit.core.text import short, short_end
from simkit.language.matching.misses import line
from simkit.language.yaml import Document
from simkit.spec.pipeline.models import reasons
from simkit.spec.scenario.claims import Expect
from simkit.spec.scenario.model import Scenario
from simkit.trace import events as e
from simkit.trace.store import Trace, redacted
from simkit.trace.views import View, view_of

MESSAGE_MAX: Final = 500
"""Characters of a predicate's message or exception in a finding."""

Find = Callable[[str], Callable[..., Any]]
"""Finds a user's function by its name ``module:function``."""


def check_satisfies(
    scope: Scope, builder: FindingBuilder, view: View, find: Find
) -> Iterator[Finding]:
    """Yield the predicates that fail, raise, or cannot be found."""
    names = scope.expect.satisfies or ()
    is_one = isinstance(names, str)
    for index, name in enumerate((names,) if isinstance(names, str) else names):
        path = (*scope.path, "satisfies") if is_one else (*scope.path, "satisfies", index)
        try:
            predicate = find(name)
        except SimkitError as problem:
            yield builder.finding(path, str(problem), turn=scope.turn, breaks=True)
            continue
        try:
            with collected_meanwhile:
                answer = predicate(view)
        except (Exception, SystemExit) as problem:
            raised = f"it raised {type(problem).__name__}: {short(str(problem), MESSAGE_MAX)}"
            yield builder.finding(
                path,
                f"`{name}` does not hold: {raised}",
                turn=scope.turn,
                context=[_place_of(problem)],
            )
            continue
        if answer is not True:
            yield builder.finding(
                path, f"`{name}` does not hold: {_answer_text(answer)}", turn=scope.turn
            )


def _answer_text(answer: Any) -> str:
    if isinstance(answer, str):
        return short_end(answer, MESSAGE_MAX)
    returned = "nothing" if answer is None else line(answer)
    return f"it returned {returned}; a predicate returns true, or a text that says what is wrong"


def _place_of(problem: BaseException) -> str:
    """Return the place in user code that raised."""
    frame = extract_tb(problem.__traceback__)[-1]
    return f"raised at {Path(frame.filename).name}:{frame.lineno} in {frame.name}"


# Judge: check a scenario's claims and all lints on one trace


CHECKS: Final[Mapping[str, Callable[[Scope, FindingBuilder], Iterator[Finding]]]] = {
    "error": turn_claims.check_error,
    "interrupt": turn_claims.check_interrupt,
    "agents": check_agents,
    "reply": turn_claims.check_reply,
    "handoffs": turn_claims.check_handoffs,
    "runs": check_runs,
    "context": check_contexts,
    "tool_calls": turn_claims.check_tool_calls,
    "model_calls": turn_claims.check_model_calls,
    "state": turn_claims.check_state,
    "logs": turn_claims.check_logs,
    "events": turn_claims.check_events,
    "judge": turn_claims.check_judge,
}
"""Claim to its check; those that explain others come first."""


class Judgement(msgspec.Struct, frozen=True):
    """The result of checking one run."""

    findings: tuple[Finding, ...]
    """Findings that fail the scenario."""
    warnings: tuple[Finding, ...]
    """Findings that are printed and fail nothing."""
    noted: tuple[Finding, ...]
    """Hits of lints that the scenario claims, or allows beside a claim."""
    lints_off: tuple[tuple[str, str], ...]
    """Lints that the scenario turns off, each with its reason."""
    passed_over: tuple[Finding, ...] = ()
    """Claims that were skipped, because what they need is declared as unseen."""

    def __post_init__(self) -> None:
        for name in ("findings", "warnings", "noted", "passed_over"):
            msgspec.structs.force_setattr(self, name, FindingList(getattr(self, name)))

    @property
    def passed(self) -> bool:
        """Return whether every claim and lint held."""
        return not self.findings

    @property
    def exit_code(self) -> int:
        """Return 0 if all held, 1 for findings, 2 if the scenario itself is wrong."""
        if any(finding.breaks for finding in self.findings):
            return 2
        return 1 if self.findings else 0


class Outcome(msgspec.Struct, frozen=True):
    """The result of a scenario: its trace, its judgement and its view.

    See `simulate`.
    """

    trace: Trace
    judgement: Judgement
    view: View
    """The trace as claims and reports read it: turns, runs, calls, contexts, handoffs, state."""

    @property
    def passed(self) -> bool:
        """Whether every claim and lint held."""
        return self.judgement.passed

    def redacted(self, redactor: Redactor) -> Outcome:
        """Return the outcome with a trace that may leave the process, and the view of that."""
        trace = redacted(self.trace, redactor.lines)
        return (
            self if trace is self.trace else replace(self, trace=trace, view=view_of(trace.events))
        )


def judge(
    scenario: Scenario,
    document: Document,
    trace: Trace,
    find: Find,
    runner: LintRunner | None = None,
) -> Outcome:
    """Return the outcome of a trace; read nothing else.

    ``runner`` has fed the trace to the lints already.
    """
    try:
        if runner is None:
            runner = LintRunner()
            runner.feed(trace)
        judgement = judge_seen(scenario, document, runner.view, runner.facts, runner.hits, find)
        return Outcome(trace, judgement, runner.view)
    except PatternTooSlow as problem:
        path = document.path_of(problem.pattern)
        if path is None:
            raise
        raise SourceError(document.position(path), problem.what) from problem


def judge_seen(
    scenario: Scenario,
    document: Document,
    view: View,
    facts: Facts,
    hits: Sequence[Hit],
    find: Find,
    places: Collection[int] | None = None,
) -> Judgement:
    """Return the findings of a trace for which the lints have run already, with these facts.

    Raise SourceError for a name in a claim that no call of the run can have.

    ``places`` are the only turns, by index, whose claims and hits count; None means all.
    """
    builder = FindingBuilder(document, view.pipeline.is_code)
    endings = unclaimed.Endings(facts, view.events)
    if places is None:
        places = range(endings.turns)
    else:
        hits = [hit for hit in hits if not hit.turn or hit.turn - 1 in places]
    scopes = scopes_of(scenario, view, places)
    check_called(scenario, document, [(scope.path, scope.expect) for scope in scopes], view)
    claims = [(scope.path, scope.turn, scope.expect) for scope in scopes]
    claimed: list[Finding] = []
    for scope in scopes:
        claimed += checked(scope, builder)
        claimed += check_satisfies(scope, builder, view, find)
    unheld = [claim.path for claim in (*claimed, *builder.passed_over)]
    hits_ = [*hits, *vacuous_claims(claims, view, builder, unheld)]
    if len(places) == len(scenario.turns):
        hits_ += unclaimed.rules_without_calls(scenario, builder.document, view)
    by_turn = unclaimed.HitsByTurn(hits_, scopes)
    sorted_ = unclaimed.sorted_hits(by_turn, scenario.lints, builder)
    findings = _failing(sorted_.failing, scenario, endings, builder)
    findings += [*unclaimed.check_endings(scenario, endings, sorted_, builder), *claimed]
    findings += unclaimed.check_lint_claims(scopes, by_turn, builder)
    if len(places) == len(scenario.turns) == endings.turns:
        findings += unclaimed.check_waivers(scenario.lints, hits, builder)
    order = Places(view)
    failing = with_causes(findings, scopes, view, order)
    warnings, noted = (
        order.placed(unclaimed.as_finding(hit, builder) for hit in hits)
        for hits in (sorted_.warnings, sorted_.noted)
    )
    return Judgement(
        tuple(failing),
        tuple(at_failing_calls(warnings, failing)),
        tuple(noted),
        tuple(reasons(scenario.lints)),
        tuple(order.placed(builder.passed_over)),
    )


def _failing(
    hits: Sequence[Hit], scenario: Scenario, endings: unclaimed.Endings, builder: FindingBuilder
) -> list[Finding]:
    """Return failing hits as findings; what ended the run names the turns that did not run."""
    missing = [*filter(None, (unclaimed.turns_left(scenario, endings),))]
    return [
        unclaimed.as_finding(hit, builder, missing if unclaimed.ended_by(hit, endings) else ())
        for hit in hits
    ]


def strictly(judgement: Judgement) -> Judgement:
    """Return the judgement with warnings and skipped claims as findings."""
    more = [*judgement.passed_over, *judgement.warnings]
    failing = [replace(finding, severity="E") for finding in more]
    return replace(judgement, findings=(*judgement.findings, *failing), warnings=())


def scopes_of(scenario: Scenario, view: View, indices: Collection[int]) -> list[Scope]:
    """Return the claims on the turns at these indices, as far as they ran, and on the run."""
    turns = scenario.turns
    claimed = [(index, turns[index].expect) for index in indices if index < len(turns)]
    scopes = [
        scope_of_turn(view.turns[index], index, expect, view)
        for index, expect in claimed
        if expect.model_fields_set and index < len(view.turns)
    ]
    if scenario.expect.model_fields_set:
        scopes.append(scope_of_run(scenario.expect, view))
    return scopes


def checked(scope: Scope, builder: FindingBuilder) -> Iterator[Finding]:
    """Yield the findings of one scope's claims."""
    for name, check in CHECKS.items():
        if not scope.expect.has(name):
            continue
        need = unobservable(scope, name)
        if need:
            yield from not_observable(scope, builder, (*scope.path, name), name, need)
        else:
            yield from check(scope, builder)


def claims_hold(
    scenario: Scenario, document: Document, view: View, find: Find, first: int = 0
) -> bool:
    """Return whether the claims on turn ``first`` (an index) and on all later ones hold."""
    builder = FindingBuilder(document, view.pipeline.is_code)
    places = range(first, len(view.turns))
    return not any(
        True
        for scope in scopes_of(scenario, view, places)
        for _ in chain(checked(scope, builder), check_satisfies(scope, builder, view, find))
    )


def lints_hold(scenario: Scenario, document: Document, events: Sequence[e.AnyEvent]) -> bool:
    """Return whether no lint, and no ending of a turn, fails the scenario of a mutant."""
    trace = Trace()
    trace.events.extend(events)
    runner = LintRunner()
    runner.feed(trace)
    view = runner.view
    builder = FindingBuilder(document, view.pipeline.is_code)
    scopes = scopes_of(scenario, view, range(len(view.turns)))
    by_turn = unclaimed.HitsByTurn(runner.hits, scopes)
    sorted_ = unclaimed.sorted_hits(by_turn, scenario.lints, builder)
    claimed = unclaimed.check_lint_claims(scopes, by_turn, builder)
    ends = unclaimed.check_endings(
        scenario, unclaimed.Endings(runner.facts, events), sorted_, builder
    )
    return not sorted_.failing and not any(True for _ in chain(claimed, ends))


def expectation_holds(expect: Expect, turn: int, document: Document, view: View) -> bool:
    """Return whether claims hold on a turn, given by its number; they are not in the file."""
    (turn_view,) = view.turns[turn - 1 : turn]
    builder = FindingBuilder(document, view.pipeline.is_code)
    scope = scope_of_turn(turn_view, turn - 1, expect, view)
    return not any(True for _ in checked(scope, builder))


# Addresses of a scenario file in messages, for scenarios that are written otherwise


_ADDRESS: Final = re.compile(
    r"(?P<adds>one )?(?P<under>under )?"
    r"turns\[(?P<turn>\d+)\]\.(?P<kind>replies|tool_results|elicits)\.(?P<name>\w+)(?:\[(?P<place>\d+)\])?"
)


def readdressed(judgement: Judgement, place: Callable[[re.Match[str]], str]) -> Judgement:
    """Return a judgement whose findings name places of the scenario as ``place`` does."""
    put = partial(_ADDRESS.sub, place)

    def in_words(finding: Finding) -> Finding:
        texts = {name: put(getattr(finding, name)) for name in ("what", "fix", "follows")}
        return replace(finding, context=tuple(map(put, finding.context)), **texts)

    kinds = ("findings", "warnings", "passed_over")
    changed = {kind: tuple(map(in_words, getattr(judgement, kind))) for kind in kinds}
    return replace(judgement, **changed)
