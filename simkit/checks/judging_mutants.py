"""Judging trace mutants: whether a claim, or a lint, notices a changed fact.

Claims are judged from the turn of the change on, lints on the whole trace.
"""

from __future__ import annotations

from typing import Any, Final

from simkit.checks.claims import FindingBuilder
from simkit.checks.endings import Endings, check_endings
from simkit.checks.findings import CLAIM, Finding
from simkit.checks.judge import Find, check_satisfies, checked, scopes_of
from simkit.checks.lint_claims import HitsByTurn, check_lint_claims, sorted_hits
from simkit.checks.lints import LintRunner
from simkit.checks.trace_changes import Changes, Events
from simkit.core.messages import or_nothing
from simkit.language.matching import compile_matcher
from simkit.language.yaml import Document
from simkit.spec.scenario.claims import Expect
from simkit.spec.scenario.model import Scenario
from simkit.trace import events as e
from simkit.trace.store import Trace
from simkit.trace.views import View

IMPOSSIBLE: Final = (LookupError, TypeError, ValueError, AttributeError, AssertionError)
"""Raised where views or checks read a mutant that no run could have left."""


class _QuietBuilder(FindingBuilder):
    """Says only that something does not hold: texts and places of findings take the most time."""

    _NOTHING_HOLDS: Final = Finding(CLAIM, "E", "does not hold", "")

    def __init__(self, document: Document, is_code: bool = False) -> None:
        super().__init__(document, is_code)
        self.is_quiet = True

    def compare(self, matcher: Any, value: Any, *_: Any, **__: Any) -> list[Finding]:
        holds = compile_matcher(matcher).holds(or_nothing(value))
        return [] if holds else [self._NOTHING_HOLDS]

    def finding(self, *_: Any, **__: Any) -> Finding:
        return self._NOTHING_HOLDS


def mutated(events: Events, changes: Changes) -> list[e.AnyEvent]:
    """Return the events of a mutant."""
    mutated_events = list(events)
    for index, event in changes.items():
        mutated_events[index] = event
    return mutated_events


def claims_hold(
    scenario: Scenario, document: Document, view: View, find: Find, first: int = 0
) -> bool:
    """Return whether the claims on turn ``first`` (an index) and on all later ones hold."""
    builder = _QuietBuilder(document, view.pipeline.is_code)
    places = range(first, len(view.turns))
    for scope in scopes_of(scenario, view, places):
        if any(True for _ in checked(scope, builder)):
            return False
        if any(True for _ in check_satisfies(scope, builder, view, find)):
            return False
    return True


class LintJudge:
    """Judges by lints the mutants of one run."""

    def __init__(self, scenario: Scenario, document: Document) -> None:
        self._scenario, self._document = scenario, document

    def holds(self, events: Events) -> bool:
        """Return whether no lint, and no ending of a turn, fails the scenario of a mutant."""
        trace = Trace()
        trace.events.extend(events)
        runner = LintRunner()
        runner.feed(trace)
        view, scenario = runner.view, self._scenario
        builder = _QuietBuilder(self._document, view.pipeline.is_code)
        scopes = scopes_of(scenario, view, range(len(view.turns)))
        by_turn = HitsByTurn(runner.hits, scopes)
        sorted_ = sorted_hits(by_turn, scenario.lints, builder)
        claimed = check_lint_claims(scopes, by_turn, builder)
        endings = Endings(runner.facts, events)
        return not sorted_.failing and not any(
            True for _ in (*claimed, *check_endings(scenario, endings, sorted_, builder))
        )


def expectation_holds(
    expect: Expect, turn: int, scenario: Scenario, document: Document, view: View
) -> bool:
    """Return whether claims hold on a turn, given by its number; they are not in the file."""
    turns = list(scenario.turns)
    turns[turn - 1] = turns[turn - 1].model_copy(update={"expect": expect})
    alone = scenario.model_copy(update={"turns": tuple(turns), "expect": Expect()})
    builder = _QuietBuilder(document, view.pipeline.is_code)
    (scope,) = scopes_of(alone, view, (turn - 1,))
    return not any(True for _ in checked(scope, builder))
