"""The event of the trace that a failing claim concerns: the page and its timeline pin it there.

Each function returns the index of an event in the trace; None if no single event is concerned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from simkit.checks.scope import Scope
from simkit.language.matching import Mismatch, compile_matcher
from simkit.trace import events as e
from simkit.trace.views import RunView

Fits = Callable[[Any], bool]
_SHARED: Final = ("project", "global")
"""Scopes of channels that sessions share."""


def event_at(
    scope: Scope, kind: type, fits: Fits | None = None, *, last: bool = False
) -> int | None:
    """Return the index of the first event of a kind in a scope, or of the last one."""
    events = scope.view.events
    span = range(*scope.span.indices(len(events)))
    for index in reversed(span) if last else span:
        event = events[index]
        if type(event) is kind and (fits is None or fits(event)):
            return index
    return None


def element_of(matcher: Any, values: Sequence[Any], misses: Sequence[Mismatch]) -> int | None:
    """Return the index of the element of a list that a mismatch concerns.

    It is the differing one; of a wanted element that is nowhere, the nearest one; of a denial, the
    first one that is denied. None if the list has no such element.
    """
    if not misses or not values:
        return None
    miss = misses[0]
    if miss.path and isinstance(miss.path[0], int):
        return miss.path[0] if miss.path[0] < len(values) else None
    part = matcher
    for step in miss.at:
        try:
            part = part[step]
        except (LookupError, TypeError):
            return None
    if miss.at and miss.at[-1] == "$not":
        return _first_denied(part, values)
    if not miss.at or not isinstance(miss.at[-1], int):
        return None
    element = compile_matcher(part)
    return min(range(len(values)), key=lambda index: element.distance(values[index]))


def _first_denied(denied: Any, values: Sequence[Any]) -> int | None:
    """Return the index of the first value that matches the operand of a ``$not``."""
    elements = [compile_matcher(element) for element in _elements(denied)]
    for index, value in enumerate(values):
        if any(element.holds(value) for element in elements):
            return index
    return None


def _elements(matcher: Any) -> Iterator[Any]:
    """Yield the matchers of single elements in a matcher of a list."""
    if isinstance(matcher, Mapping):
        for operand in matcher.values():
            yield from _elements(operand)
    elif isinstance(matcher, (list, tuple)):
        yield from matcher


def write_of(scope: Scope, channel: str) -> int | None:
    """Return the last write of a channel in a scope; of a whole run, in its last session."""
    facts = scope.pipeline.channels.get(channel)
    turns = scope.view.turns
    session = "" if scope.turn or not turns else turns[-1].session
    is_shared = facts is not None and facts.scope in _SHARED

    def fits(event: e.StateUpdated) -> bool:
        is_here = is_shared or not session or event.session == session
        return channel in event.update and not event.state and is_here

    return event_at(scope, e.StateUpdated, fits, last=True)


def end_of(scope: Scope) -> int | None:
    """Return the event with the error that ended a turn, or the run."""
    index = event_at(scope, e.TurnFinished, lambda event: event.error is not None, last=True)
    return event_at(scope, e.RunFinished, last=True) if index is None else index


def run_of(scope: Scope, run: RunView, moment: str, channels: Sequence[str] = ()) -> int | None:
    """Return the event of a run at a moment, `ClaimKind.happens_at`.

    ``channels`` are the differing ones of an update.
    """

    def is_its(event: e.Event) -> bool:
        return event.run == run.id

    if moment == "start":
        first = event_at(scope, e.ContextBuilt, is_its)
        return event_at(scope, e.AgentStarted, is_its) if first is None else first
    if moment == "write":
        for channel in channels:
            index = event_at(
                scope,
                e.StateUpdated,
                lambda event: is_its(event) and channel in event.update,  # noqa: B023
                last=True,
            )
            if index is not None:
                return index
    index = event_at(scope, e.ContextBuilt, is_its, last=True)
    return event_at(scope, e.AgentFinished, is_its, last=True) if index is None else index
