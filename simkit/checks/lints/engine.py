"""One pass over a trace: each event joins the view, then the lints that ask for its kind look."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, Protocol, TypeAlias

from simkit.checks.findings import Hit
from simkit.trace.events import AnyEvent
from simkit.trace.views import View


class Lint(Protocol):
    """One invariant. ``look`` costs what is new with the event, not what the trace holds.

    It is typed for the kinds of event that the lint names, and is given no other.
    """

    id: str
    kinds: tuple[type, ...]
    """The kinds of event that it looks at."""

    def look(self, event: Any, view: View) -> Iterable[Hit]:
        """Yield what does not hold, given the event, which the view has taken in already."""


Look: TypeAlias = Callable[[Any, View], Iterable[Hit]]


@lru_cache
def _places(kinds: tuple[tuple[type, ...], ...]) -> dict[type, list[int]]:
    """Return for each kind of event the places of the lints that look at it."""
    places: dict[type, list[int]] = {}
    for place, watched in enumerate(kinds):
        for kind in watched:
            places.setdefault(kind, []).append(place)
    return places


class Watch:
    """Lints at work: each event that happens is looked at once."""

    def __init__(self, lints: Iterable[Lint]) -> None:
        self.view, self.hits = View(), list[Hit]()
        lint_list = tuple(lints)
        self._watching = {
            kind: tuple([lint_list[place].look for place in places])
            for kind, places in _places(tuple([lint.kinds for lint in lint_list])).items()
        }

    def see(self, events: Iterable[AnyEvent]) -> None:
        """Look at what has happened since."""
        view, watching = self.view, self._watching
        for event in events:
            view.apply(event)
            for look in watching.get(type(event), ()):
                # Nearly every look finds nothing, which is not worth a call.
                if hits_found := look(event, view):
                    self.hits.extend(hits_found)


def run_lints(events: Sequence[AnyEvent], lints: Iterable[Lint]) -> tuple[View, list[Hit]]:
    """Return the view of the whole trace, and what the lints saw."""
    watch = Watch(lints)
    watch.see(events)
    return watch.view, watch.hits
