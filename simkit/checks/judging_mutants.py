"""Judging trace mutants: whether a claim, or a lint, notices a changed fact.

Claims are judged from the turn of the change on. A lint looks again only if something that it reads
has changed: its events, or what it asked the view of the run as it was. If the lints that look
again find what they found before, all is as before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, cast

from msgspec.structs import replace

from simkit.checks.claims import Writer
from simkit.checks.endings import Endings, check_endings
from simkit.checks.findings import CLAIM, Finding, Hit
from simkit.checks.judge import Find, check_satisfies, checked, scopes_of
from simkit.checks.lint_claims import HitsByTurn, check_lint_claims, sorted_hits
from simkit.checks.lints import Watch, all_lints
from simkit.checks.lints.watching import Lint, Look, ToolMessage, Watched, readers_of
from simkit.checks.mutants import Changes, Events
from simkit.checks.observing import doubtful_claims
from simkit.core.messages import or_nothing
from simkit.language.matching import compile_matcher
from simkit.language.yaml import Document
from simkit.spec.scenario.claims import Expect
from simkit.spec.scenario.model import Scenario
from simkit.trace import events as e
from simkit.trace.store import Trace
from simkit.trace.views import RunView, View

IMPOSSIBLE: Final = (LookupError, TypeError, ValueError, AttributeError, AssertionError)
"""Raised where views or checks read a mutant that no run could have left."""


class _QuietWriter(Writer):
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
    for place, event in changes.items():
        mutated_events[place] = event
    return mutated_events


def claims_hold(
    scenario: Scenario, document: Document, view: View, find: Find, first: int = 0
) -> bool:
    """Return whether the claims on turn ``first`` (an index) and on all later ones hold."""
    writer = _QuietWriter(document, view.pipeline.is_code)
    places = range(first, len(view.turns))
    doubtful = doubtful_claims(view.pipeline)
    for scope in scopes_of(scenario, view, places):
        if any(True for _ in checked(scope, writer, doubtful)):
            return False
        if any(True for _ in check_satisfies(scope, writer, view, find)):
            return False
    return True


# Lints


_FIXED: Final = ("pipeline", "started")
"""The attributes of a view that no mutant changes."""
_ALL: Final = frozenset(e.AnyEvent.__args__)
_OF_STATES: Final = _ALL - {
    *(e.ContextBuilt, e.ModelReplied, e.ModelFailed, e.ToolCalled, e.ToolReturned, e.ToolFailed),
    *(e.HandoffRequested, e.HandoffRejected, e.HandoffMade),
}
_PARTS: Final[Mapping[str, frozenset[type]]] = {
    "messages": frozenset((e.MessageAdded,)),
    "tokens": frozenset((e.MessageAdded,)),
    "requests": frozenset((e.MessageAdded,)),
    # A payload may refer to messages.
    "handoffs": frozenset((e.HandoffRequested, e.HandoffRejected, e.HandoffMade, e.MessageAdded)),
    **dict.fromkeys(("states", "resolved", "update_of", "values_of", "channels_of"), _OF_STATES),
}
"""Attribute of a view to the kinds of events of which it is made; any other is made of all."""


class _NotedView:
    """A view that notes which of its attributes a lint asks for."""

    def __init__(self, view: View, needs: set[type]) -> None:
        self._view, self._needs = view, needs

    def __getattr__(self, name: str) -> Any:
        if name == "runs":
            return _NotedRuns(self._view.runs, self._needs)
        if name not in _FIXED:
            self._needs.update(_PARTS.get(name, _ALL))
        return getattr(self._view, name)


class _NotedRuns:
    """Runs of agents, of which a lint may ask only for their states."""

    def __init__(self, runs: Mapping[str, RunView], needs: set[type]) -> None:
        self._runs, self._needs = runs, needs

    def get(self, name: str) -> Any:
        self._needs.add(e.AgentStarted)
        run = self._runs.get(name)
        return None if run is None else _NotedRun(run, self._needs)

    def __contains__(self, name: str) -> bool:
        self._needs.add(e.AgentStarted)
        return name in self._runs

    def __getitem__(self, name: str) -> Any:
        self._needs.update(_ALL)
        return self._runs[name]

    def __getattr__(self, name: str) -> Any:
        self._needs.update(_ALL)
        return getattr(self._runs, name)


class _NotedRun:
    """A run of an agent that notes what a lint asks for."""

    def __init__(self, run: RunView, needs: set[type]) -> None:
        self._run, self._needs = run, needs

    def __getattr__(self, name: str) -> Any:
        self._needs.update(_OF_STATES if name in ("agent", "received") else _ALL)
        return getattr(self._run, name)


class _NotedWait:
    """A container that a lint waits for: while there is something in it, the lint reads events."""

    def __init__(self, container: Any, needs: set[type], kind: type) -> None:
        self._container, self._needs, self._kind = container, needs, kind

    def __bool__(self) -> bool:
        if self._container:
            self._needs.add(self._kind)
        return bool(self._container)


class _NotingWatch(Watch):
    """Lints during a run, with the events that each needed, and its hits."""

    proves = False

    def __init__(self, lints: Iterable[Lint]) -> None:
        lints = tuple(lints)
        super().__init__(lints)
        self.needs: dict[type, set[type]] = {}
        """Lint, or reader of lints, to the kinds of events of which it has read something."""
        self.hits_of: dict[type, list[Hit]] = {type(lint): [] for lint in lints}
        self._readers = {
            type(lint): [type(reader) for reader in readers_of(lint)] for lint in lints
        }

    def _methods_for(self, kind: type) -> Sequence[Watched]:
        return [self._noting(kind, *watched) for watched in super()._methods_for(kind)]

    def _noting(self, kind: type, waits: Any, fields: Any, unset: Any, look: Look) -> Watched:
        """Return a method that notes what its lint needs, and what it finds."""
        owner = type(look.__self__)  # type: ignore[attr-defined]
        needs = self.needs.setdefault(owner, set())
        view, hits = _NotedView(self.view, needs), self.hits_of.setdefault(owner, [])
        read_kind = e.MessageAdded if kind is ToolMessage else kind

        def noting_look(event: e.AnyEvent, _: View) -> Iterable[Hit]:
            new = list(look(event, cast(View, view)))
            hits.extend(replace(hit, event=self.view.hi - 1) for hit in new)
            return new

        return _NotedWait(waits, needs, read_kind), fields, unset, noting_look

    def reading(self, kinds: Collection[type]) -> frozenset[type]:
        """Return the lints that have read something of events of some kinds."""
        return frozenset(
            lint
            for lint, readers in self._readers.items()
            if any(not self.needs.get(each, set()).isdisjoint(kinds) for each in (lint, *readers))
        )


class LintJudge:
    """Judges by lints the mutants of one run, which has passed."""

    def __init__(self, scenario: Scenario, document: Document, events: Events) -> None:
        self._scenario, self._document, self._events = scenario, document, events
        self._chosen: dict[frozenset[type], frozenset[type]] = {}
        self._watch = _NotingWatch(all_lints())
        self._watch.see(_trace_of(events))
        self._holds = self._sorted(self._watch.view, self._watch.hits, events)

    def holds(self, events: Events, changes: Changes) -> bool:
        """Return whether no lint, and no ending of a turn, fails the scenario of a mutant."""
        kinds = frozenset(
            type(event)
            for place, changed in changes.items()
            for event in (self._events[place], changed)
        )
        chosen = self.lints_reading(kinds)
        watch = Watch(all_lints(chosen=chosen))
        if chosen:
            watch.see(_trace_of(events))
        before = [hit for lint in chosen for hit in self._watch.hits_of[lint]]
        if _counted(watch.hits) == _counted(before):
            return self._holds
        others = [
            hit for lint, hits in self._watch.hits_of.items() for hit in hits if lint not in chosen
        ]
        return self._sorted(watch.view, [*others, *watch.hits], events)

    def lints_reading(self, kinds: frozenset[type]) -> frozenset[type]:
        """Return the lints that have read something of events of some kinds."""
        if kinds not in self._chosen:
            self._chosen[kinds] = self._watch.reading(kinds)
        return self._chosen[kinds]

    def _sorted(self, view: View, hits: Sequence[Hit], events: Events) -> bool:
        """Return whether hits, and the endings of turns, fail nothing."""
        scenario, writer = self._scenario, _QuietWriter(self._document, view.pipeline.is_code)
        scopes = scopes_of(scenario, view, range(len(view.turns)))
        by_turn = HitsByTurn(hits, scopes)
        sorted_ = sorted_hits(by_turn, scenario.lints, writer)
        claimed = check_lint_claims(scopes, by_turn, writer)
        return not sorted_.failing and not any(
            True for _ in (*claimed, *check_endings(scenario, Endings(events), sorted_, writer))
        )


def _trace_of(events: Events) -> Trace:
    trace = Trace()
    trace.events.extend(events)
    return trace


def _counted(hits: Iterable[Hit]) -> list[str]:
    """Return hits as texts that can be compared in any order."""
    return sorted(map(repr, hits))


def expectation_holds(
    expect: Expect, turn: int, scenario: Scenario, document: Document, view: View
) -> bool:
    """Return whether claims hold on a turn, given by its number; they are not in the file."""
    turns = list(scenario.turns)
    turns[turn - 1] = turns[turn - 1].model_copy(update={"expect": expect})
    alone = scenario.model_copy(update={"turns": tuple(turns), "expect": Expect()})
    writer = _QuietWriter(document, view.pipeline.is_code)
    (scope,) = scopes_of(alone, view, (turn - 1,))
    return not any(True for _ in checked(scope, writer, doubtful_claims(view.pipeline)))
