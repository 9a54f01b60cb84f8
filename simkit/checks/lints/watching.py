"""The dispatch of events to lints: each method of a lint says which events it reads, and when."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, TypeVar

from simkit.checks.findings import Hit
from simkit.trace import events as e
from simkit.trace.store import Trace
from simkit.trace.views import View


class Lint(Protocol):
    """One invariant. A look costs what is new with the event, not the length of the trace.

    Its methods with `reads` get the events of the kinds that they name, and no others, and yield
    hits. The view contains the event already. A lint may have a method ``concerns``, which says
    whether it can find anything in a pipeline, and a ``reader``, whose methods come before those of
    all lints.
    """

    id: str


class ToolMessage:
    """The kind of a `MessageAdded` with tool calls, or with the result of one."""


Look: TypeAlias = Callable[[Any, View], Iterable[Hit]]
_LookT = TypeVar("_LookT", bound=Callable[..., Iterable[Hit]])


class _Reading(NamedTuple):
    """One method of a lint, and the events that it reads."""

    kinds: tuple[type, ...]
    waits: str
    name: str


def reads(*kinds: type, waits: str = "") -> Callable[[_LookT], _LookT]:
    """Declare the kinds of event that a method of a lint reads.

    ``waits`` names a container of the lint, or of the view (``view.handoffs``): the method is only
    called while there is something in it. It must stay the same object.
    """

    def mark(look: _LookT) -> _LookT:
        look.__dict__["reading"] = _Reading(kinds, waits, look.__name__)
        return look

    return mark


_READINGS: Final[dict[type, Sequence[_Reading]]] = {}


def readings_of(lint: type) -> Sequence[_Reading]:
    """Return the methods of a lint that read events, in the order in which it defines them."""
    if lint in _READINGS:
        return _READINGS[lint]
    methods = {
        name: method for base in reversed(lint.__mro__) for name, method in vars(base).items()
    }
    _READINGS[lint] = [method.reading for method in methods.values() if hasattr(method, "reading")]
    return _READINGS[lint]


_EVENTS: Final[Sequence[type]] = (*e.AnyEvent.__args__, ToolMessage)


class Watch:
    """Lints during a run: each event is checked once."""

    def __init__(self, lints: Iterable[Lint], view: View | None = None) -> None:
        self.view, self.hits = View() if view is None else view, list[Hit]()
        self._lints = tuple(lints)
        self._pipeline: e.PipelineFacts | None = None
        self._watching: Mapping[type, Sequence[tuple[Any, Look]]] = {}
        """Kind of event to the methods that read it, each with the container that it waits for."""

    def see(self, trace: Trace) -> None:
        """Check the events since the last call."""
        view, hits = self.view, self.hits
        for event in trace.events[len(view.events) :]:
            view.apply(event)
            if view.pipeline is not self._pipeline:
                self._begin(view.pipeline)
            kind: type = type(event)
            if type(event) is e.MessageAdded and (event.message.calls or event.message.call_id):
                kind = ToolMessage
            for waits, look in self._watching[kind]:
                # Nearly every check finds nothing, which is not worth a call.
                if waits and (hits_found := look(event, view)):
                    hits.extend(hits_found)

    def _begin(self, pipeline: e.PipelineFacts) -> None:
        """Choose the lints that may find something in a pipeline."""
        self._pipeline = pipeline
        watching: dict[type, list[tuple[Any, Look]]] = {kind: [] for kind in _EVENTS}
        readers = dict.fromkeys(getattr(lint, "reader", None) for lint in self._lints)
        for lint in (*filter(None, readers), *self._lints):
            concerns = getattr(lint, "concerns", None)
            if concerns is not None and not concerns(pipeline):
                continue
            for kinds, waits, name in readings_of(type(lint)):
                entry = (_container(waits, lint, self.view), getattr(lint, name))
                for kind in kinds:
                    watching[kind].append(entry)
                    if kind is e.MessageAdded:
                        watching[ToolMessage].append(entry)
        self._watching = watching


def _container(waits: str, lint: object, view: View) -> Any:
    if not waits:
        return True
    if waits.startswith("view."):
        return getattr(view, waits.removeprefix("view."))
    return attrgetter(waits)(lint)
