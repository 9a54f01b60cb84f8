"""Invariants checked on every run, without a claim: one family a file, one pass over the trace.

Each event is added to the view, and then passed to the lints that asked for its kind.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final

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
from simkit.checks.lints.runner import Lint, LintRunner
from simkit.checks.lints.screening import Screen

__all__ = ["Lint", "LintRunner", "all_lints"]

_LINTS: Final[Sequence[Callable[..., Lint]]] = (
    run.ScriptMismatch,
    run.Uncontrolled,
    run.Unplayed,
    run.Drifted,
    run.Unread,
    run.LostError,
    sequence.OrphanResult,
    sequence.OrphanCall,
    context.WrongInstructions,
    facts.RequiredFactMissing,
    facts.PrivateFactLeaked,
    duplicates.DuplicateMessage,
    context.OverBudget,
    relevance.IrrelevantShare,
    sequence.IllegalSequence,
    sequence.SystemNotFirst,
    context.CurrentMessageTwice,
    filters.FilteredComesBack,
    results.ResultsSwapped,
    handoffs.PayloadInvalid,
    delivery.RequestLost,
    handoffs.WrongTarget,
    handoffs.DanglingHandoff,
    handoffs.SeveralHandoffs,
    delivery.DataInQuery,
    handoffs.Unregistered,
    delivery.ContextIgnored,
    state.LostUpdate,
    state.ImpureReducer,
    state.Shrinking,
    state.DoubleCount,
    state.InPlaceChange,
    state.TwiceAnswered,
    flow.LimitPassed,
    flow.UndeclaredEdge,
    tools.RepeatedCall,
    flow.PingPong,
    flow.CallAfterEnd,
    flow.AskedAgain,
    tools.OpenWork,
    flow.AmbiguousRoute,
    tools.ArgumentLost,
    clients.RetriedInVain,
    clients.RetriedTooEarly,
    clients.CutReplyTaken,
    clients.RetryStorm,
)
_SCREENED: Final = (duplicates.DuplicateMessage, context.CurrentMessageTwice, state.DoubleCount)
"""The lints that share one screen with those of `_PAIRING`."""
_PAIRING: Final = (
    sequence.OrphanResult,
    sequence.OrphanCall,
    sequence.IllegalSequence,
    sequence.SystemNotFirst,
)
"""The lints that share one walk through all contexts."""


def all_lints(
    screen: Screen | None = None, *, chosen: Collection[type] | None = None
) -> Iterator[Lint]:
    """Yield a new instance of every lint; each keeps its state over one trace.

    ``screen`` leaves out the contexts that are too plain for some of them. ``chosen``: those of
    these types alone.
    """
    screen = screen or Screen()
    pairing = Pairing(screen)
    for lint in _LINTS:
        if chosen is not None and lint not in chosen:
            continue
        if lint in _PAIRING:
            yield lint(pairing)
        else:
            yield lint(screen) if lint in _SCREENED else lint()
