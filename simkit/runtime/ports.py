"""The doors: everything outside the kernel that it needs, passed in and typed here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

import msgspec

from simkit.core.messages import Answer, JsonValue, Message
from simkit.trace.events import ErrorFacts, UnusedLines, UnusedResults
from simkit.trace.recorder import Sink


class ModelRequest(msgspec.Struct, frozen=True, gc=False):
    """What a model is asked: who asks, and the context."""

    agent: str
    turn: int
    run: str
    call: str
    tools: tuple[str, ...]
    output: JsonValue
    """The JSON Schema that the answer must satisfy, or None."""
    messages: Callable[[], Sequence[Message]]
    """The context's messages; made only when asked for."""
    sections: Callable[[], Mapping[str, Sequence[Message]]]
    """The same by section."""
    read: Callable[[str], JsonValue]
    """How a text becomes the value that ``output`` speaks of; raises OutputInvalid."""
    args: Mapping[str, JsonValue] = {}
    """JSON Schemas of the offered tools' arguments, where the request itself says them."""
    handoffs: tuple[str, ...] = ()
    """The agents to which it may pass control."""
    session: str = ""


class Model(Protocol):
    """Who answers a model call: a script, a cassette, a live provider."""

    def answer(self, request: ModelRequest) -> Answer:
        """Return the reply; raise ReplyMissing, CassetteMissed or ScriptBroken if there is none
        to give, and ModelError for one that nothing can be made of."""


class TurnModel(Model, Protocol):
    """A model that answers turn by turn, and knows what it was not asked for."""

    def begin_turn(self, place: int) -> None:
        """Take what belongs to the turn at this place (from 0)."""

    def begin_group(self, agents: Sequence[str]) -> None:
        """Is told which agents now run in parallel; raises ScriptBroken if that is ambiguous."""

    def unused(self) -> tuple[UnusedLines, ...]:
        """Return the turn's answers that nobody asked for."""


class ToolReply(msgspec.Struct, frozen=True, gc=False):
    """What a tool came back with."""

    result: JsonValue = None
    error: str | None = None
    latency_ms: int = 0
    at: tuple[str | int, ...] | None = None
    """For one of several results that answer one call each: its place in the scenario, empty where
    a file that scenarios share says it. None for a result that answers every call."""


class Tools(Protocol):
    """Who answers tool calls."""

    def begin_turn(self, place: int) -> None:
        """Take what belongs to the turn at this place (from 0)."""

    def scripts(self, tool: str) -> bool:
        """Report whether the turn has an answer of its own for a tool."""

    def call(self, agent: str, tool: str, args: JsonValue) -> ToolReply:
        """Return the tool's reply; raise ToolMissing if nobody answers."""

    def unused(self) -> tuple[UnusedResults, ...]:
        """Return the turn's own answers that no call had."""


class Schedule(Protocol):
    """The order in which ready work runs."""

    name: str

    def pick(self, ready: int) -> int:
        """Return which of ``ready`` tasks runs next, counted from 0 in order of readiness."""


class Checkpoint(msgspec.Struct, frozen=True, gc=False):
    """A moment up to which everything is saved."""

    id: str
    """``k1``, ``k2``, … counted over the whole run."""
    session: str
    turn: int
    agent: str
    """The agent that had finished; empty at the end of a turn."""
    place: int
    """How many entries of the journal it covers."""
    counters: Mapping[str, int]
    """The virtual time, and the counters that ids are made from."""


class Store(Protocol):
    """Keeps what outlives a process: one journal of events, only ever added to."""

    def commit(self, entries: Sequence[bytes], checkpoint: Checkpoint) -> None:
        """Add entries and the checkpoint that covers them, all or nothing."""

    def journal(self) -> Iterator[bytes]:
        """Yield every committed entry, in order; raise StoreInvalid if it is damaged."""

    def checkpoints(self) -> Sequence[Checkpoint]:
        """Return every checkpoint, oldest first."""

    def close(self) -> None:
        """Let go of what it holds open."""


class UserTurn(msgspec.Struct, frozen=True):
    """What one turn begins with."""

    text: str
    value: JsonValue = None
    """The message as a value, where it is more than text; or the answer to an interrupt."""
    resumes: bool = False
    """Whether the turn answers an interrupt."""
    session: str = "s1"
    project: str = "p1"
    not_before: int = 0
    """The virtual time before which it does not begin, in milliseconds."""
    turns_before: int | None = None
    """How many turns came before it, where not all of them were taken in this run."""


class Driver(Protocol):
    """Runs a pipeline turn by turn, and emits events."""

    name: str

    def start(self, sink: Sink) -> None:
        """Begin a run, or go on with one that another process has begun."""

    def take(self, turn: UserTurn) -> ErrorFacts | None:
        """Run one turn to its end; return the error with which it ended, if it did.

        Raises LimitExceeded where the run may have no further turn, and ScriptBroken where its
        script cannot be served; it then takes no other.
        """

    def finish(self, error: ErrorFacts | None = None) -> None:
        """End the run, with the error if one ended it."""

    def close(self) -> None:
        """Let go of all that it holds, and report nothing more; also of a run that goes on."""
