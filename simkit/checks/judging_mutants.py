"""Judging trace mutants: whether a claim, or a lint, notices a changed fact.

Claims are judged from the turn of the change on, lints on the whole trace.
"""

from __future__ import annotations

from itertools import chain
from typing import Final

from simkit.checks.claims import FindingBuilder
from simkit.checks.endings import Endings, check_endings
from simkit.checks.judge import Find, check_satisfies, checked, scopes_of
from simkit.checks.lint_claims import HitsByTurn, check_lint_claims, sorted_hits
from simkit.checks.lints import LintRunner
from simkit.checks.mutants import Changes, Events
from simkit.language.yaml import Document
from simkit.spec.scenario.claims import Expect
from simkit.spec.scenario.model import Scenario
from simkit.trace import events as e
from simkit.trace.store import Trace
from simkit.trace.views import View

IMPOSSIBLE: Final = (LookupError, TypeError, ValueError, AttributeError, AssertionError)
"""Raised where views or checks read a mutant that no run could have left."""


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
    builder = FindingBuilder(document, view.pipeline.is_code)
    places = range(first, len(view.turns))
    return not any(
        True
        for scope in scopes_of(scenario, view, places)
        for _ in chain(checked(scope, builder), check_satisfies(scope, builder, view, find))
    )


def lints_hold(scenario: Scenario, document: Document, events: Events) -> bool:
    """Return whether no lint, and no ending of a turn, fails the scenario of a mutant."""
    trace = Trace()
    trace.events.extend(events)
    runner = LintRunner()
    runner.feed(trace)
    view = runner.view
    builder = FindingBuilder(document, view.pipeline.is_code)
    scopes = scopes_of(scenario, view, range(len(view.turns)))
    by_turn = HitsByTurn(runner.hits, scopes)
    sorted_ = sorted_hits(by_turn, scenario.lints, builder)
    claimed = check_lint_claims(scopes, by_turn, builder)
    ends = check_endings(scenario, Endings(runner.facts, events), sorted_, builder)
    return not sorted_.failing and not any(True for _ in chain(claimed, ends))


def expectation_holds(
    expect: Expect, turn: int, scenario: Scenario, document: Document, view: View
) -> bool:
    """Return whether claims hold on a turn, given by its number; they are not in the file."""
    turns = list(scenario.turns)
    turns[turn - 1] = turns[turn - 1].model_copy(update={"expect": expect})
    alone = scenario.model_copy(update={"turns": tuple(turns), "expect": Expect()})
    builder = FindingBuilder(document, view.pipeline.is_code)
    (scope,) = scopes_of(alone, view, (turn - 1,))
    return not any(True for _ in checked(scope, builder))
