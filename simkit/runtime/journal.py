"""Journal: the events of a run in its store, and how another process continues from them.

A store holds the events that determine the state, the log and the summaries of every session.
Restoring reads them again, through the same view that checks use.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from simkit.core.errors import StoreInvalid
from simkit.core.files import DAMAGE
from simkit.core.messages import Message
from simkit.runtime.branch import Path, in_blocks
from simkit.runtime.conversation import Numbers
from simkit.runtime.stores import Checkpoint, Store
from simkit.trace import events as e
from simkit.trace.recorder import EventRecorder, Moment, Position, Sink
from simkit.trace.reducers import DECLARED_RESET, is_reset
from simkit.trace.store import event_decoder
from simkit.trace.views import View

RESTORED_EVENTS: Final = (
    e.RunStarted, e.SessionStarted, e.TurnStarted, e.TurnResumed, e.AgentStarted, e.MessageAdded,
    e.StateUpdated, e.HistorySummarised, e.TurnInterrupted, e.TurnFinished,
)  # fmt: skip
"""The events from which a session is restored."""

_encode = msgspec.json.Encoder().encode


class Journal:
    """A sink that passes events on, and saves a checkpoint after every agent run and every turn."""

    def __init__(self, sink: Sink, store: Store, numbers: Numbers) -> None:
        self._sink, self._store, self._numbers = sink, store, numbers
        self._pending: list[bytes] = []
        self._place = sum(checkpoint.place for checkpoint in store.checkpoints()[-1:])

    def emit(self, event: e.AnyEvent) -> None:
        """Pass on one event."""
        self._sink.emit(event)
        if isinstance(event, RESTORED_EVENTS):
            self._pending.append(_encode(event))
        if isinstance(event, (e.AgentFinished, e.TurnFinished)):
            self._save(event)

    def _save(self, event: e.AgentFinished | e.TurnFinished) -> None:
        self._numbers.checkpoints += 1
        identity = f"k{self._numbers.checkpoints}"
        self._place += len(self._pending)
        counters = {**self._numbers.counters(), "at": event.at}
        self._store.commit(
            self._pending,
            Checkpoint(identity, event.session, event.turn, event.agent, self._place, counters),
        )
        self._pending = []
        position = Position(event.session, event.turn, event.agent, event.run)
        recorder = EventRecorder(self._sink, Moment(event.at))
        recorder.record_checkpoint(position, checkpoint=identity)


class Saved:
    """One session in a store."""

    def __init__(self, project: str) -> None:
        self.project = project
        self.log: list[Message] = []
        self.paths: dict[str, Path] = {}
        """The parallel branches of the messages since the user's last one."""
        self._settled = 0
        self._opened: dict[str, Path] = {}
        self._runs: dict[str, Path] = {}
        self.committed: set[str] = set()
        self.summaries: dict[str, tuple[Message, int, frozenset[int]]] = {}
        self.checkpoint = ""
        self.asks = False
        """Whether its last turn waits for the user."""
        self.first_turn = 0
        """The turn of the user's last message, in which waiting runs began."""
        self.answers: list[tuple[int, Any]] = []
        """The user's answers since then, with their turns."""

    def begin(self, turn: int) -> None:
        """Begin a turn with a user message: earlier messages are settled, branch by branch."""
        self.log[self._settled :] = in_blocks(self.log[self._settled :], self.paths)
        self._settled, self.paths, self._opened, self._runs = len(self.log), {}, {}, {}
        self.first_turn, self.answers = turn, []

    def start(self, event: e.AgentStarted) -> None:
        """Record the parallel branch of a run."""
        if event.group:
            opener = (event.group, int(event.run.removeprefix("r")))
            self._opened[event.run] = (*self._opened.get(event.outer, ()), opener)
        if event.branch:
            self._runs[event.run] = self._opened.get(event.branch, ())

    def hear(self, message: Message, run: str) -> None:
        """Add a message, with the branch of its run."""
        self.log.append(message)
        path = self._runs.get(run)
        if path:
            self.paths[message.id] = path


class Recovered:
    """The content of a store: every session, and the position of the run."""

    def __init__(self, sessions: dict[str, Saved], view: View, counters: dict[str, int]) -> None:
        self.sessions, self.view, self.counters = sessions, view, counters
        self.at = counters.get("at", 0)


def recovered(store: Store, before_turn: int = 0) -> Recovered:
    """Read a store; ``before_turn`` leaves out that turn and everything after it.

    Raise StoreInvalid if the store is damaged, or is no journal of a run.
    """
    view, sessions = View(), dict[str, Saved]()
    entries = _events(store.journal())
    place = 0
    at = -1
    for place, event in enumerate(entries, 1):
        if before_turn and isinstance(event, e.TurnStarted) and event.turn >= before_turn:
            place, at = place - 1, event.at
            break
        if place == 1 and not isinstance(event, e.RunStarted):
            raise StoreInvalid("the store's first entry is no RunStarted: it is no run's journal")
        view.apply(event)
        _note(event, sessions, view)
    counters: dict[str, int] = {}
    for checkpoint in store.checkpoints():
        if checkpoint.place <= place:
            counters = dict(checkpoint.counters)
            if checkpoint.session in sessions:
                sessions[checkpoint.session].checkpoint = checkpoint.id
    counters["messages"] = max([counters.get("messages", 0), *view.messages])
    if at >= 0:
        counters["at"] = at
    return Recovered(sessions, view, counters)


def _events(entries: Iterable[bytes]) -> Iterator[e.AnyEvent]:
    for number, entry in enumerate(entries, 1):
        try:
            yield event_decoder().decode(entry)
        except DAMAGE as problem:
            raise StoreInvalid(f"entry {number} of the store is no event: {problem}") from None


def _note(event: e.AnyEvent, sessions: dict[str, Saved], view: View) -> None:
    """Record what the view does not keep by session."""
    if isinstance(event, e.SessionStarted):
        sessions[event.session] = Saved(event.project)
        return
    saved = sessions.get(event.session)
    if saved is None:
        return
    match event:
        case e.MessageAdded():
            saved.hear(event.message, event.run)
        case e.AgentStarted():
            saved.start(event)
        case e.TurnStarted() if event.message:
            saved.begin(event.turn)
        case e.TurnResumed():
            saved.answers.append((event.turn, event.value))
        case e.TurnFinished():
            saved.asks = bool(event.waits_for)
        case e.HistorySummarised():
            section = event.stream.rpartition("/")[2]
            message = Message("system", event.text, agent=event.agent, section=section)
            saved.summaries[event.stream] = (message, event.covers, frozenset(event.missed))
        case e.StateUpdated():
            messages: Any = view.update_of(event).get(view.pipeline.conversation)
            messages = messages[DECLARED_RESET] if is_reset(messages) else messages
            saved.committed.update(message.id for message in messages or ())
        case _:
            pass
