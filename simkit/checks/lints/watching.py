"""The dispatch of events to lints: each method of a lint says which events it reads, and when."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from operator import attrgetter
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, TypeVar

from msgspec.structs import replace

from simkit.checks.findings import Hit
from simkit.checks.lints.ruled_out import RULED_OUT, UNSET, Asking, Plain
from simkit.checks.lints.ruled_out import ToolMessage as ToolMessage
from simkit.checks.lints.silence import Silence
from simkit.trace import events as e
from simkit.trace.store import Trace
from simkit.trace.views import View
from simkit.trace.views.view import HANDLERS


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
    alone: bool


def reads(
    *kinds: type, waits: str = "", has: tuple[str, ...] = (), alone: bool = False
) -> Callable[[_LookT], _LookT]:
    """Declare the kinds of event that a method of a lint reads.

    ``waits`` names a container of the lint: the method is only called while there is something in
    it. It must stay the same object. ``has`` names fields: the method only reads events in which
    one of them is set. ``alone``: it decides by the event and the pipeline alone, and notes
    nothing; then it is called also while a proof holds that the other lints find nothing.
    """

    def mark(look: _LookT) -> _LookT:
        look.__dict__["reading"] = _Reading(kinds, waits, has, look.__name__, alone)
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
    alone: bool


@lru_cache(maxsize=2048)
def _listed(lints: tuple[type, ...], kind: type) -> Sequence[_Listed]:
    """Return the methods of these lints that read events of a kind."""
    event = e.MessageAdded if kind is ToolMessage else kind
    listed = []
    for index, lint in enumerate(lints):
        for kinds, waits, has, name, alone in readings_of(lint):
            container = attrgetter(waits) if waits else None
            for each in kinds:
                if each is kind or each is event:
                    fields, unset = _fields_of(each, has) if has else (None, None)
                    listed.append(_Listed(index, container, fields, unset, name, alone))
    return listed


@lru_cache
def _plain_by(lints: tuple[type, ...], idle: frozenset[int]) -> Plain | None:
    """Return what is asked about events; None if a lint must read plain events.

    ``idle`` has the indices of lints that find nothing in the pipeline.
    """
    thought_of = {name.partition(".")[0] for known in RULED_OUT.values() for name in known}
    plain: dict[type, Asking] = {}
    for kind, known in RULED_OUT.items():
        names = dict.fromkeys(UNSET.get(kind, ()))
        fields_alone = []
        for index, lint in enumerate(lints):
            for kinds, waits, has, name, alone in () if index in idle else readings_of(lint):
                if kind not in kinds or f"{lint.__name__}.{name}" in known:
                    continue
                if waits and lint.__name__ not in thought_of:
                    continue
                if alone:
                    fields_alone.append(has)
                elif not has or waits:
                    return None
                else:
                    names.update(dict.fromkeys(has))
        plain[kind] = Asking(tuple(names), tuple(fields_alone))
    tool_message = plain.pop(ToolMessage)
    return None if tool_message.unset else plain


class PlainEvents:
    """A memory of what is asked about events of a pipeline.

    All watches that share it have the same lints.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[e.PipelineFacts, Plain | None]] = {}
        """The id of a pipeline's metadata, which runs of one pipeline share, and is kept here."""

    def of(self, pipeline: e.PipelineFacts, find: Callable[[], Plain | None]) -> Plain | None:
        """Return what is known of a pipeline, or what ``find`` returns."""
        known = self._known.get(id(pipeline))
        if known is None:
            if len(self._known) >= _PIPELINES_MAX:
                # Runs in threads share it: a new one is put in its place, since no other thread may
                # see it change while it looks for an entry to delete.
                self._known = {}
            known = self._known[id(pipeline)] = pipeline, find()
        return known[1]


_PIPELINES_MAX: Final = 16


class Watch:
    """Lints during a run: each event is checked once.

    As long as a proof holds that no lint finds anything (`simkit.checks.lints.silence`), none is
    asked.
    """

    proves = True
    """Whether it tries the proof: not where somebody must know what the lints read."""

    def __init__(
        self,
        lints: Iterable[Lint],
        view: View | None = None,
        plain: PlainEvents | None = None,
    ) -> None:
        """``lints`` are taken when one is asked: while the proof holds, none needs to be made.

        A ``view`` of a kind of its own reads each event as it comes.
        """
        self.view, self.hits = View() if view is None else view, list[Hit]()
        self._given = lints
        self._plain = PlainEvents() if plain is None else plain
        self._watching: dict[type, Sequence[Watched]] = {}
        """Kind of event to the methods that read it, as far as there were such events."""
        self._alone: dict[type, Sequence[Watched]] = {}
        """Kind of event to those of them that decide by it alone."""
        self._all: tuple[Any, ...] = ()
        """The readers and the lints."""
        self._kinds: tuple[type, ...] = ()
        """The kinds of these."""
        self._idle: frozenset[int] = frozenset()
        """The indices of those that find nothing in this pipeline."""
        self._pipeline: e.PipelineFacts | None = None
        """The pipeline for which lints were chosen."""
        self._silence: Silence | None = None
        """The proof, as long as it holds."""

    def see(self, trace: Trace) -> None:
        """Check the events since the last call."""
        view = self.view
        fresh = view.events[view.hi :] = trace.events[view.hi :]
        may_prove = self.proves and not view.hi and type(view) is View
        if may_prove and fresh and type(fresh[0]) is e.RunStarted:
            view.begin(fresh[0])
            plain = self._plain.of(view.pipeline, self._plain_events)
            self._silence = None if plain is None else Silence(plain)
        if self._silence is not None:
            if self._silence.goes_on(fresh):
                if self._silence.alone:
                    self._ask_alone(fresh, self._silence.alone)
                self._pass_on(fresh)
                return
            self._silence = None
            self.hits.clear()
            if view.hi:
                # The lints read all events, and a view that does not know those to come.
                self.view = view = View()
                fresh = view.events[:] = trace.events[:]
        self._ask(fresh)

    @property
    def plain_turns(self) -> int | None:
        """The number of turns, if the proof holds and all have ended: none with an error."""
        return self._silence.turns if self._silence is not None else None

    def _plain_events(self) -> Plain | None:
        self._begin(self.view.pipeline)
        return _plain_by(self._kinds, self._idle)

    def _pass_on(self, fresh: Sequence[e.AnyEvent]) -> None:
        """Let the view read events, if somebody has asked it: claims of an earlier judgement."""
        view = self.view
        if not view.is_awake:
            view.hi = len(view.events)
            return
        for event in fresh:
            view.hi += 1
            view.read(event)

    def _ask_alone(self, fresh: Sequence[e.AnyEvent], chosen: Sequence[e.AnyEvent]) -> None:
        """Let lints that decide by an event alone read the chosen ones of the new events."""
        view = self.view
        if not self._all:
            self._begin(view.pipeline)
        place = -1
        for event in chosen:
            place = fresh.index(event, place + 1)  # An equal event is among the chosen, too.
            for _, fields, unset, look in self._alone_for(type(event)):
                if fields is None or fields(event) != unset:
                    for hit in look(event, view):
                        self.hits.append(replace(hit, event=view.hi + place))

    @cached_property
    def _lints(self) -> tuple[Lint, ...]:
        return tuple(self._given)

    def _ask(self, fresh: Sequence[e.AnyEvent]) -> None:
        """Let the lints read events."""
        view, hits, watching = self.view, self.hits, self._watching
        is_usual = type(view) is View
        if not self._all and fresh and type(fresh[0]) is not e.RunStarted:
            self._begin(view.pipeline)
        for event in fresh:
            view.hi += 1
            kind: type = type(event)
            if is_usual and view.is_awake:  # As `View.read` does it.
                add = HANDLERS[kind]
                if add is not None:
                    add(view, event)
            elif view.is_awake:
                view.read(event)
            if type(event) is e.MessageAdded:
                if event.message.calls or event.message.call_id:
                    kind = ToolMessage
            elif type(event) is e.RunStarted:
                view.begin(event)
                if event.pipeline is not self._pipeline:  # Else the proof has chosen them already.
                    self._begin(event.pipeline)
            if kind not in watching:
                watching[kind] = self._methods_for(kind)
            for waits, fields, unset, look in watching[kind]:
                # Nearly every check finds nothing, which is not worth a call.
                if waits and (fields is None or fields(event) != unset):
                    hits_found = look(event, view)
                    if hits_found:
                        for hit in hits_found:
                            hits.append(replace(hit, event=view.hi - 1))

    def _begin(self, pipeline: e.PipelineFacts) -> None:
        """Choose the lints that may find something in a pipeline."""
        self._pipeline = pipeline
        readers: dict[Any, None] = {}
        for lint in self._lints:
            if hasattr(lint, "reader"):
                readers.update(dict.fromkeys(readers_of(lint)))
        self._all = (*readers, *self._lints)
        self._kinds = tuple(map(type, self._all))
        self._idle = frozenset(
            index
            for index, lint in enumerate(self._all)
            if hasattr(lint, "concerns") and not lint.concerns(pipeline)
        )
        self._watching.clear()
        self._alone.clear()

    def _methods_for(self, kind: type) -> Sequence[Watched]:
        """Return the methods of the chosen lints that read a kind of event."""
        listed = _listed(self._kinds, kind)
        return [self._watched(each) for each in listed if each.lint not in self._idle]

    def _watched(self, listed: _Listed) -> Watched:
        lint = self._all[listed.lint]
        container = True if listed.container is None else listed.container(lint)
        return container, listed.fields, listed.unset, getattr(lint, listed.name)

    def _alone_for(self, kind: type) -> Sequence[Watched]:
        """Return those of them that decide by an event alone."""
        if kind not in self._alone:
            self._alone[kind] = [
                self._watched(each)
                for each in _listed(self._kinds, kind)
                if each.alone and each.lint not in self._idle
            ]
        return self._alone[kind]


def readers_of(lint: object) -> Iterator[object]:
    """Yield the reader of a lint, after the readers of that."""
    reader = getattr(lint, "reader", None)
    if reader is not None:
        yield from readers_of(reader)
        yield reader
