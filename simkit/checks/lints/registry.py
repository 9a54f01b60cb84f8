"""The registration of lints, and their pass over a trace: which functions read which event."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from msgspec.structs import replace

from simkit.checks.findings import Hit
from simkit.checks.lints.facts import Facts
from simkit.spec.lint_catalogue import LINTS
from simkit.trace.store import Trace
from simkit.trace.views import View

LintFunction: TypeAlias = Callable[[Any, Facts], Iterable[Hit] | None]
"""Reads one event and yields what is wrong; the facts contain the event already."""
_LintFunctionT = TypeVar("_LintFunctionT", bound=LintFunction)


class Readers(NamedTuple):
    """The functions that read events of one kind, by what they wait for."""

    always: Sequence[LintFunction]
    by_field: Sequence[tuple[Callable[[Facts], Any], Sequence[LintFunction]]]
    """Getters of fields of the facts, each with the functions that wait for the field."""
    by_notes: Mapping[type, Sequence[LintFunction]]

    def due(self, facts: Facts) -> Sequence[LintFunction]:
        """Return those that are worth a call."""
        due = self.always
        for field, functions in self.by_field:
            if field(facts):
                due = [*due, *functions]
        if not facts.notes.keys().isdisjoint(self.by_notes):
            for notes in self.by_notes:
                if facts.notes.get(notes):
                    due = [*due, *self.by_notes[notes]]
        return due


class RegisteredFunction(NamedTuple):
    """One function of a lint."""

    id: str
    kinds: tuple[type, ...]
    when: str | type | None
    function: LintFunction


REGISTERED: Final[list[RegisteredFunction]] = []
_NO_FACTS: Final = Facts(View())
_ORDER: Final[Mapping[str, int]] = {identity: place for place, identity in enumerate(LINTS)}


def lint(
    identity: str, *kinds: type, when: str | type | None = None
) -> Callable[[_LintFunctionT], _LintFunctionT]:
    """Register a function that reads the events of these kinds for a lint of the catalogue.

    With ``when`` it is called only where that is true: the name of an attribute of `Facts`, or the
    class of the lint's own notes (`Facts.notes_of`). A lint that reads several kinds in different
    ways has several functions.
    """
    if identity not in LINTS:
        raise LookupError(f"{identity} is not in simkit/spec/lints.yaml: add it")
    if isinstance(when, str) and not hasattr(_NO_FACTS, when):
        raise LookupError(f"{identity} waits for {when!r}, which is no attribute of Facts")

    def register(function: _LintFunctionT) -> _LintFunctionT:
        REGISTERED.append(RegisteredFunction(identity, kinds, when, function))
        return function

    return register


@lru_cache(maxsize=512)
def readers_of(kind: type, chosen: Collection[str] | None) -> Readers:
    """Return the functions of the chosen lints that read a kind of event; None chooses all."""
    groups: dict[str | type | None, list[LintFunction]] = {}
    for each in REGISTERED:
        if kind in each.kinds and (chosen is None or each.id in chosen):
            groups.setdefault(each.when, []).append(each.function)
    always = groups.pop(None, [])
    fields = [(attrgetter(when), group) for when, group in groups.items() if type(when) is str]
    return Readers(
        always, fields, {when: group for when, group in groups.items() if isinstance(when, type)}
    )


class LintRunner:
    """Lints during a run: each event is read once.

    The view sleeps until a lint asks it for more than the pipeline.
    """

    def __init__(self, view: View | None = None, chosen: Collection[str] | None = None) -> None:
        """``chosen`` are the ids of the lints that read; None means all.

        A ``view`` of a kind of its own reads each event as it comes.
        """
        self.view, self.hits = View() if view is None else view, list[Hit]()
        self.facts = Facts(self.view)
        self._chosen = None if chosen is None else frozenset(chosen)

    def feed(self, trace: Trace) -> None:
        """Let the lints read the events since the last call."""
        view, facts = self.view, self.facts
        for index, event in enumerate(trace.events[view.hi :], view.hi):
            view.apply(event)
            facts.add(event)
            hits: list[Hit] = []
            for function in readers_of(type(event), self._chosen).due(facts):
                hits += function(event, facts) or ()
            if hits:
                hits.sort(key=lambda hit: _ORDER[hit.id])
                self.hits += [replace(hit, event=index) for hit in hits]
