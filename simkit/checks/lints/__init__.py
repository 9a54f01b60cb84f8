"""Invariants checked on every run, without a claim: one family a file, one pass over the trace.

Each event is added to the view, and then passed to the lints that asked for its kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final, Protocol, TypeAlias

from simkit.checks.findings import Hit
from simkit.checks.lints import (
    clients,
    context,
    delivery,
    duplicates,
    facts,
    filters,
    flow,
    handoffs,
    relevance,
    results,
    run,
    sequence,
    state,
    tools,
)
from simkit.checks.lints.pairing import Pairing
from simkit.trace.store import Trace
from simkit.trace.views import View

_LINTS: Final[Sequence[Callable[..., Lint]]] = (
    run.ScriptMismatch, run.Uncontrolled, run.Unplayed, run.Drifted, run.Unread,
    sequence.OrphanResult, sequence.OrphanCall, context.WrongInstructions,
    facts.RequiredFactMissing, facts.PrivateFactLeaked, duplicates.DuplicateMessage,
    context.OverBudget, relevance.IrrelevantShare, sequence.IllegalSequence,
    sequence.SystemNotFirst, context.CurrentMessageTwice, filters.FilteredComesBack,
    results.ResultsSwapped, handoffs.PayloadInvalid, delivery.RequestLost, handoffs.WrongTarget,
    handoffs.DanglingHandoff, handoffs.SeveralHandoffs, delivery.DataInQuery,
    handoffs.Unregistered, delivery.ContextIgnored, state.LostUpdate, state.ImpureReducer,
    state.Shrinking, state.DoubleCount, state.InPlaceChange, state.TwiceAnswered,
    flow.LimitPassed, flow.UndeclaredEdge, tools.RepeatedCall, flow.PingPong, flow.CallAfterEnd,
    flow.AskedAgain, tools.OpenWork, flow.AmbiguousRoute, tools.ArgumentLost,
    clients.RetriedInVain, clients.RetriedTooEarly, clients.CutReplyTaken, clients.RetryStorm,
)  # fmt: skip
_PAIRING: Final = (
    sequence.OrphanResult,
    sequence.OrphanCall,
    sequence.IllegalSequence,
    sequence.SystemNotFirst,
)
"""The lints that share one walk through all contexts."""


def all_lints() -> Iterator[Lint]:
    """Yield a new instance of every lint; each keeps its state over one trace."""
    pairing = Pairing()
    for lint in _LINTS:
        yield lint(pairing) if lint in _PAIRING else lint()


class Lint(Protocol):
    """One invariant. ``look`` costs what is new with the event, not the length of the trace.

    Its parameter has the type of the events that the lint names; it gets no others.
    """

    id: str
    kinds: tuple[type, ...]
    """The kinds of event that it checks."""

    def look(self, event: Any, view: View) -> Iterable[Hit]:
        """Yield the hits for an event, which the view contains already."""


Look: TypeAlias = Callable[[Any, View], Iterable[Hit]]


@lru_cache
def _places(kinds: tuple[tuple[type, ...], ...]) -> dict[type, list[int]]:
    """Return, for each kind of event, the indices of its lints."""
    places: dict[type, list[int]] = {}
    for place, watched in enumerate(kinds):
        for kind in watched:
            places.setdefault(kind, []).append(place)
    return places


class Watch:
    """Lints during a run: each event is checked once."""

    def __init__(self, lints: Iterable[Lint], view: View | None = None) -> None:
        self.view, self.hits = View() if view is None else view, list[Hit]()
        lint_list = tuple(lints)
        self._watching = {
            kind: tuple([lint_list[place].look for place in places])
            for kind, places in _places(tuple([lint.kinds for lint in lint_list])).items()
        }

    def see(self, trace: Trace) -> None:
        """Check the events since the last call."""
        view, watching = self.view, self._watching
        for event in trace.events[len(view.events) :]:
            view.apply(event)
            for look in watching.get(type(event), ()):
                # Nearly every check finds nothing, which is not worth a call.
                if hits_found := look(event, view):
                    self.hits.extend(hits_found)
