"""The facts of a run that lints share: each event is added once, before the lints read it.

Facts are small, and cost what is new with an event. They say which few events deserve a look: a
lint decides by them, and asks the view only where something may be wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from simkit.checks.findings import Hit
from simkit.core.messages import Message
from simkit.spec.lint_catalogue import LINTS
from simkit.trace import events as e
from simkit.trace.store import Trace
from simkit.trace.views import View
from simkit.trace.views.states import handlers_of

NotesT = TypeVar("NotesT")
NAMES_MAX: Final = 5
SHOWN_MAX: Final = 60
"""The number of characters of a text in a finding."""


def texts_of(message: Message) -> Iterator[str]:
    """Yield a message's content, and the arguments of its calls as JSON."""
    yield message.content
    for call in message.calls:
        yield msgspec.json.encode(call.args).decode()


def first_of(names: Sequence[str]) -> str:
    """Return the first of many names, as a finding shows them; its data has all of them."""
    more = ", …" if len(names) > NAMES_MAX else ""
    return f"{', '.join(names[:NAMES_MAX])}{more}"


class TurnNotes:
    """A base of notes that end with the turn: the next one begins without them."""


class Facts:
    """The facts of a run up to its newest event."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.notes: dict[Callable[[], Any], Any] = {}
        """The notes of single lints, by their classes."""
        self._reported: set[tuple[Hashable, ...]] = set()
        self._begin(view.pipeline)
        self.turns = 0
        """The number of turns that have begun."""
        self.ended_turns: set[int] = set()
        """Those of them that are over."""
        self.errors: dict[int, tuple[int, e.ErrorFacts]] = {}
        """Index of a turn to its number, and the error that ended it."""
        self.requests: list[e.HandoffRequested] = []
        """The turn's requests for handoffs, and those of the turn that it resumes."""
        self._open_requests: dict[str, list[e.HandoffRequested]] = {}
        """The requests of a session's last turn, if it ended with a question."""
        self.handed_over: set[str] = set()
        """The runs that a handoff started."""
        self.fault: e.FaultInjected | None = None
        """The last planned fault."""
        self._retries: dict[tuple[str, str], e.ModelRetried] = {}
        """Session and agent to the retry that the agent's next context makes."""
        self.retried: e.ModelRetried | None = None
        """The retry that the newest context makes."""
        self.writers: dict[int, str] = {}
        """Message to the run that wrote it."""
        self.tool_messages: dict[int, Message] = {}
        """The messages with calls or results, by number."""
        self.is_tool_message = False
        """Whether the newest message has calls, or is a result."""

    def add(self, event: e.AnyEvent) -> None:
        """Take the next event into account."""
        add = _HANDLERS[type(event)]
        if add is not None:
            add(self, event)

    def notes_of(self, kind: Callable[[], NotesT]) -> NotesT:
        """Return a lint's own notes on this run; their class makes them at the first call."""
        notes: NotesT | None = self.notes.get(kind)
        if notes is None:
            notes = self.notes[kind] = kind()
        return notes

    def is_new(self, *finding: Hashable) -> bool:
        """Return whether a finding is new, and note it: many are reported once."""
        if finding in self._reported:
            return False
        self._reported.add(finding)
        return True

    def _run_started(self, event: e.RunStarted) -> None:
        self._begin(event.pipeline)

    def _begin(self, pipeline: e.PipelineFacts) -> None:
        self.pipeline = pipeline
        agents = pipeline.agents.values()
        self.is_code = pipeline.is_code
        self.has_edges = not pipeline.is_open
        """Whether somebody declared where control may go."""
        self.has_requirements = any(agent.requires for agent in agents)
        self.has_sees = any(agent.sees is not None for agent in agents)
        """Whether anybody says which agents are relevant."""
        self.has_counters = any(channel.reducer == "add" for channel in pipeline.channels.values())
        self.sees_state = "state" in pipeline.observes
        """Whether the driver sees the state."""

    def _turn_started(self, event: e.TurnStarted) -> None:
        self.notes = {
            k: notes for k, notes in self.notes.items() if not isinstance(notes, TurnNotes)
        }
        self.turns += 1
        self.requests = [] if event.message else self._open_requests.pop(event.session, [])

    def _turn_finished(self, event: e.TurnFinished) -> None:
        self.ended_turns.add(self.turns)
        if event.waits_for and self.requests:
            self._open_requests[event.session] = self.requests
        if event.error is not None:
            self.errors[self.turns - 1] = event.turn, event.error

    def _agent_started(self, event: e.AgentStarted) -> None:
        if event.handoff:
            self.handed_over.add(event.run)

    def _handoff_requested(self, event: e.HandoffRequested) -> None:
        self.requests.append(event)

    def _fault_injected(self, event: e.FaultInjected) -> None:
        self.fault = event

    def _model_retried(self, event: e.ModelRetried) -> None:
        self._retries[event.session, event.agent] = event

    def _message_added(self, event: e.MessageAdded) -> None:
        message = event.message
        self.is_tool_message = bool(message.calls or message.call_id)
        if self.is_tool_message:
            self.tool_messages[message.number] = message
        self.writers[message.number] = event.run

    def _context_built(self, event: e.ContextBuilt) -> None:
        self.retried = self._retries.pop((event.session, event.agent), None)


_HANDLERS: Final = handlers_of(Facts)


# The registration of lints, and their pass over a trace: which functions read which event.


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
_ORDER: Final[Mapping[str, int]] = {identity: index for index, identity in enumerate(LINTS)}


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
    """Lints during a run: each event is read once."""

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
