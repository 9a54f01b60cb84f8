"""Journal: the events of a run in its store, and how another process continues from them.

A store holds the events that determine the state, the log and the summaries of every session.
Restoring reads them again, through the same view that checks use.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from simkit.core.errors import StoreInvalid
from simkit.core.files import DAMAGE
from simkit.core.messages import Message
from simkit.runtime.conversation import Numbers, Path, in_blocks
from simkit.trace import events as e
from simkit.trace.recorder import EventRecorder, Moment, Position, Sink
from simkit.trace.reducers import DECLARED_RESET, is_reset
from simkit.trace.store import event_decoder
from simkit.trace.views import View

# NORMAL does not wait for the disk at each commit: written data then belongs to the operating
# system, and a killed process cannot lose it.
_SCHEMA: Final = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
CREATE TABLE IF NOT EXISTS journal (place INTEGER PRIMARY KEY, body BLOB);
CREATE TABLE IF NOT EXISTS checkpoints (number INTEGER PRIMARY KEY, body BLOB);
"""


class Checkpoint(msgspec.Struct, frozen=True, gc=False):
    """A point up to which everything is saved."""

    id: str
    """``k1``, ``k2``, … counted over the whole run."""
    session: str
    turn: int
    agent: str
    """The agent whose run had ended; empty at the end of a turn."""
    place: int
    """The number of journal entries that it covers."""
    counters: Mapping[str, int]
    """The virtual time, and the counters of ids."""


_CHECKPOINT: Final = msgspec.json.Decoder(Checkpoint)


class Store:
    """A store in one file, for one writing process at a time."""

    def __init__(self, path: str | pathlib.Path = ":memory:") -> None:
        """Open the store, or create one; raise StoreInvalid if the file is no store."""
        # Imported late, which takes 8 ms: most runs have no store.
        import sqlite3

        self._error = sqlite3.Error
        self._name = str(path)
        try:
            self._connection = sqlite3.connect(path, isolation_level=None)
            self._connection.executescript(_SCHEMA)
            rows = self._connection.execute("SELECT body FROM checkpoints ORDER BY number")
            self._checkpoints = [_CHECKPOINT.decode(body) for (body,) in rows]
        except (self._error, *DAMAGE) as problem:
            raise StoreInvalid(f"{self._name}: the store cannot be opened: {problem}.") from problem

    def commit(self, entries: Sequence[bytes], checkpoint: Checkpoint) -> None:
        """Append entries and the checkpoint that covers them, all or nothing."""
        end = self._checkpoints[-1].place if self._checkpoints else 0
        if checkpoint.place != end + len(entries):
            raise StoreInvalid(
                f"{self._name}: checkpoint {checkpoint.id!r} covers {checkpoint.place} entries, "
                f"but with it the journal has {end + len(entries)}. Was another process writing to "
                "it? Nothing was added."
            )
        number, body = len(self._checkpoints) + 1, msgspec.json.encode(checkpoint)
        connection = self._connection
        try:
            connection.execute("BEGIN IMMEDIATE")
            with connection:
                # Places are unique, so that another writer's entry collides with ours.
                connection.executemany(
                    "INSERT INTO journal VALUES (?, ?)", enumerate(entries, end + 1)
                )
                connection.execute("INSERT INTO checkpoints VALUES (?, ?)", (number, body))
        except self._error as problem:
            raise StoreInvalid(
                f"{self._name}: checkpoint {checkpoint.id!r} cannot be saved: {problem}. What was "
                "saved before it stands."
            ) from problem
        self._checkpoints.append(_CHECKPOINT.decode(body))

    def journal(self) -> Iterator[bytes]:
        """Yield every committed entry, in order; raise StoreInvalid if it cannot be read."""
        try:
            rows = self._connection.execute("SELECT body FROM journal ORDER BY place").fetchall()
        except self._error as problem:
            raise StoreInvalid(f"{self._name}: the store cannot be read: {problem}.") from problem
        for (body,) in rows:
            yield body

    def checkpoints(self) -> Sequence[Checkpoint]:
        """Return every checkpoint, oldest first."""
        return tuple(self._checkpoints)

    def close(self) -> None:
        """Close the file; it is then the whole store, with no log beside it."""
        self._connection.close()


# Journal: the events of a run in its store, and how another process continues from them


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
    count = 0
    at = -1
    for count, event in enumerate(entries, 1):
        if before_turn and isinstance(event, e.TurnStarted) and event.turn >= before_turn:
            count, at = count - 1, event.at
            break
        if count == 1 and not isinstance(event, e.RunStarted):
            raise StoreInvalid("the store's first entry is no RunStarted: it is no run's journal")
        view.apply(event)
        _note(event, sessions, view)
    counters: dict[str, int] = {}
    for checkpoint in store.checkpoints():
        if checkpoint.place <= count:
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
