"""One pass over a trace: each event joins the view, then the lints that ask for its kind look."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from simkit.events import AnyEvent
from simkit.expect.findings import Hit
from simkit.views import View


class Lint(Protocol):
    """One invariant. ``look`` costs what is new with the event, not what the trace holds.

    It is typed for the kinds of event that the lint names, and is given no other.
    """

    id: str
    kinds: tuple[type, ...]
    """The kinds of event that it looks at."""

    def look(self, event: Any, view: View) -> Iterable[Hit]:
        """Yields what does not hold, given the event, which the view has taken in already."""


def run_lints(events: Sequence[AnyEvent], lints: Iterable[Lint]) -> tuple[View, list[Hit]]:
    """Returns the view of the whole trace, and what the lints saw."""
    watching: dict[type, list[Lint]] = {}
    for lint in lints:
        for kind in lint.kinds:
            watching.setdefault(kind, []).append(lint)
    view = View()
    hits: list[Hit] = []
    for event in events:
        view.apply(event)
        for lint in watching.get(type(event), ()):
            hits.extend(lint.look(event, view))
    return view, hits
