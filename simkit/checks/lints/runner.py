"""One pass of a trace through all lints: each event goes to those that read its kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, TypeVar

from msgspec.structs import replace

from simkit.checks.findings import Hit
from simkit.trace import events as e
from simkit.trace.store import Trace
from simkit.trace.views import View


class ToolMessage:
    """The kind of a `MessageAdded` with tool calls, or with the result of one."""


class Lint(Protocol):
    """One invariant. A look costs what is new with the event, not the length of the trace.

    Its methods with `reads` get the events of the kinds that they name, and no others, and yield
    hits. The view contains the event already. The view sleeps until a lint asks it for more than
    the pipeline, so a method first tries to decide by the event, and by what it has noted. A lint
    may have a method ``concerns``, which says whether it can find anything in a pipeline, and a
    ``reader``, whose methods come before those of all lints.
    """

    id: str


Look: TypeAlias = Callable[[Any, View], Iterable[Hit]]
_LookT = TypeVar("_LookT", bound=Callable[..., Iterable[Hit]])


class _Reading(NamedTuple):
    """One method of a lint, and the events that it reads."""

    kinds: tuple[type, ...]
    waits: str
    has: tuple[str, ...]
    name: str


def reads(*kinds: type, waits: str = "", has: tuple[str, ...] = ()) -> Callable[[_LookT], _LookT]:
    """Declare the kinds of event that a method of a lint reads.

    ``waits`` names a container of the lint: the method is only called while there is something in
    it. It must stay the same object. ``has`` names fields: the method only reads events in which
    one of them is set.
    """

    def mark(look: _LookT) -> _LookT:
        look.__dict__["reading"] = _Reading(kinds, waits, has, look.__name__)
        return look

    return mark


_READINGS: Final[dict[type, Sequence[_Reading]]] = {}


_FIELDS: Final[dict[tuple[type, tuple[str, ...]], tuple[Callable[[Any], Any], Any]]] = {}


def _fields_of(kind: type, names: tuple[str, ...]) -> tuple[Callable[[Any], Any], Any]:
    """Return the function that reads fields of an event, and what it returns where none is set."""
    if (kind, names) not in _FIELDS:
        fields = attrgetter(*names)
        _FIELDS[kind, names] = fields, fields(kind(at=0))
    return _FIELDS[kind, names]


def readings_of(lint: type) -> Sequence[_Reading]:
    """Return the methods of a lint that read events, in the order in which it defines them."""
    if lint in _READINGS:
        return _READINGS[lint]
    methods = {
        name: method for base in reversed(lint.__mro__) for name, method in vars(base).items()
    }
    _READINGS[lint] = [method.reading for method in methods.values() if hasattr(method, "reading")]
    return _READINGS[lint]


Watched: TypeAlias = tuple[Any, Callable[[Any], Any] | None, Any, Look]
"""A method, with the container that it waits for, and the fields that it needs, with their values
in an event that does not set them."""


class _Listed(NamedTuple):
    """One method among all lints: whose it is, and what it needs."""

    lint: int
    """The index of the lint."""
    container: Callable[[Any], Any] | None
    fields: Callable[[Any], Any] | None
    unset: Any
    name: str


@lru_cache(maxsize=2048)
def _listed(lints: tuple[type, ...], kind: type) -> Sequence[_Listed]:
    """Return the methods of these lints that read events of a kind."""
    event = e.MessageAdded if kind is ToolMessage else kind
    listed = []
    for index, lint in enumerate(lints):
        for kinds, waits, has, name in readings_of(lint):
            container = attrgetter(waits) if waits else None
            for each in kinds:
                if each is kind or each is event:
                    fields, unset = _fields_of(each, has) if has else (None, None)
                    listed.append(_Listed(index, container, fields, unset, name))
    return listed


class LintRunner:
    """Lints during a run: each event is read once."""

    def __init__(self, lints: Iterable[Lint], view: View | None = None) -> None:
        """A ``view`` of a kind of its own reads each event as it comes."""
        self.view, self.hits = View() if view is None else view, list[Hit]()
        self._lints = tuple(lints)
        self._methods: dict[type, Sequence[Watched]] = {}
        """Kind of event to the methods that read it, as far as there were such events."""
        self._readers: tuple[Any, ...] = ()
        """The readers of lints, and the lints."""
        self._idle: frozenset[int] = frozenset()
        """The indices of those that find nothing in this pipeline."""

    def feed(self, trace: Trace) -> None:
        """Let the lints read the events since the last call."""
        view, hits = self.view, self.hits
        fresh = view.events[view.hi :] = trace.events[view.hi :]
        if not self._readers:
            self._begin(view.pipeline)
        for event in fresh:
            view.hi += 1
            kind: type = type(event)
            if view.is_awake:
                view.read(event)
            if type(event) is e.MessageAdded:
                if event.message.calls or event.message.call_id:
                    kind = ToolMessage
            elif type(event) is e.RunStarted:
                view.begin(event)
                self._begin(event.pipeline)
            if kind not in self._methods:
                self._methods[kind] = self._methods_for(kind)
            for waits, fields, unset, look in self._methods[kind]:
                if waits and (fields is None or fields(event) != unset):
                    for hit in look(event, view):
                        hits.append(replace(hit, event=view.hi - 1))

    def _begin(self, pipeline: e.PipelineFacts) -> None:
        """Choose the lints that may find something in a pipeline."""
        readers: dict[Any, None] = {}
        for lint in self._lints:
            readers.update(dict.fromkeys(readers_of(lint)))
        self._readers = (*readers, *self._lints)
        self._idle = frozenset(
            index
            for index, lint in enumerate(self._readers)
            if hasattr(lint, "concerns") and not lint.concerns(pipeline)
        )
        self._methods.clear()

    def _methods_for(self, kind: type) -> Sequence[Watched]:
        """Return the methods of the chosen lints that read a kind of event."""
        listed = _listed(tuple(map(type, self._readers)), kind)
        return [self._watched(each) for each in listed if each.lint not in self._idle]

    def _watched(self, listed: _Listed) -> Watched:
        lint = self._readers[listed.lint]
        container = True if listed.container is None else listed.container(lint)
        return container, listed.fields, listed.unset, getattr(lint, listed.name)


def readers_of(lint: object) -> Iterator[object]:
    """Yield the reader of a lint, after the readers of that."""
    reader = getattr(lint, "reader", None)
    if reader is not None:
        yield from readers_of(reader)
        yield reader
