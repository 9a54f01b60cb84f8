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
from simkit.trace import events as e
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


class _Registered(NamedTuple):
    """One function of a lint."""

    id: str
    kinds: tuple[type, ...]
    when: str | type | None
    function: LintFunction


_REGISTERED: Final[list[_Registered]] = []
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
        raise LookupError(f"{identity} is not in LINTS of simkit/spec/lint_catalogue.py: add it")
    if isinstance(when, str) and when not in Facts.__slots__:
        raise LookupError(f"{identity} waits for {when!r}, which is no attribute of Facts")

    def register(function: _LintFunctionT) -> _LintFunctionT:
        _REGISTERED.append(_Registered(identity, kinds, when, function))
        return function

    return register


def functions_of(identity: str) -> Sequence[LintFunction]:
    """Return the functions of a lint."""
    return [each.function for each in _REGISTERED if each.id == identity]


@lru_cache(maxsize=512)
def readers_of(kind: type, chosen: Collection[str] | None) -> Readers:
    """Return the functions of the chosen lints that read a kind of event; None chooses all."""
    groups: dict[str | type | None, list[LintFunction]] = {}
    for each in _REGISTERED:
        if kind in each.kinds and (chosen is None or each.id in chosen):
            groups.setdefault(each.when, []).append(each.function)
    always = groups.pop(None, [])
    fields = [(attrgetter(when), group) for when, group in groups.items() if type(when) is str]
    return Readers(
        always, fields, {when: group for when, group in groups.items() if isinstance(when, type)}
    )


def in_order(hits: Iterable[Hit]) -> Iterable[Hit]:
    """Return the hits of one event in the order of the catalogue."""
    return sorted(hits, key=lambda hit: _ORDER[hit.id])


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
        self._readers: dict[type, Readers] = {}

    def feed(self, trace: Trace) -> None:
        """Let the lints read the events since the last call."""
        view, facts, readers = self.view, self.facts, self._readers
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
