"""One pass of a trace through all lints: each event goes to those that read its kind."""

from __future__ import annotations

from collections.abc import Collection

from msgspec.structs import replace

from simkit.checks.findings import Hit
from simkit.checks.lints.facts import Facts
from simkit.checks.lints.registry import Readers, in_order, readers_of
from simkit.trace import events as e
from simkit.trace.store import Trace
from simkit.trace.views import View


class LintRunner:
    """Lints during a run: each event is read once.

    The view sleeps until a lint asks it for more than the pipeline.
    """

    def __init__(self, view: View | None = None, chosen: Collection[str] | None = None) -> None:
        """``chosen`` are the ids of the lints that read; None means all.

        A ``view`` of a kind of its own reads each event as it comes.
        """
        self.view, self.hits = View() if view is None else view, list[Hit]()
        self._facts = Facts(self.view)
        self._chosen = None if chosen is None else frozenset(chosen)
        self._readers: dict[type, Readers] = {}

    def feed(self, trace: Trace) -> None:
        """Let the lints read the events since the last call."""
        view, facts, readers = self.view, self._facts, self._readers
        fresh = view.events[view.hi :] = trace.events[view.hi :]
        for event in fresh:
            view.hi += 1
            if view.is_awake:
                view.read(event)
            elif type(event) is e.RunStarted:
                view.begin(event)
            facts.add(event)
            kind = type(event)
            if kind not in readers:
                readers[kind] = readers_of(kind, self._chosen)
            hits: list[Hit] = []
            for function in readers[kind].due(facts):
                hits_of_lint = function(event, facts)
                if hits_of_lint:
                    hits += hits_of_lint
            if hits:
                self.hits += [replace(hit, event=view.hi - 1) for hit in in_order(hits)]
