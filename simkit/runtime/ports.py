"""Ports: the interfaces of everything that the kernel needs from outside."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec

from simkit.core.messages import Answer, JsonValue, Message
from simkit.trace.events import ErrorFacts, UnusedLines, UnusedResults
from simkit.trace.recorder import Sink


class ModelRequest(msgspec.Struct, frozen=True, gc=False):
    """One model call: the agent, and the context."""

    agent: str
    turn: int
    run: str
    call: str
    tools: tuple[str, ...]
    output: JsonValue
    """The JSON Schema for the answer, or None."""
    messages: Callable[[], Sequence[Message]]
    """Returns the context's messages; they are made on demand."""
    sections: Callable[[], Mapping[str, Sequence[Message]]]
    """The same by section."""
    read: Callable[[str], JsonValue]
    """Parses a text into the value for ``output``; raises OutputInvalid."""
    args: Mapping[str, JsonValue] = {}
    """JSON Schemas of the offered tools' arguments, if the request itself has them."""
    handoffs: tuple[str, ...] = ()
    """The agents to which it may pass control."""
    session: str = ""
    choice: str = "auto"
    """``auto``, ``none``, ``required``, or the one tool that must be called."""
    is_one_call: bool = False
    """Whether it permits at most one call in an answer."""
    allowed: tuple[str, ...] | None = None
    """The only tools that may be called, of those offered; None if it names no list."""
    can_think: bool = False
    """Whether the model that is asked shows its thinking."""


class Model(Protocol):
    """The part that answers model calls: a script, a cassette, a live provider."""

    def answer(self, request: ModelRequest) -> Answer:
        """Return the reply; raise ReplyMissing, CassetteMissed or ScriptBroken if there is none.

        Raise ModelError for an unusable one.
        """


class TurnModel(Model, Protocol):
    """A model that answers turn by turn, and knows its unused answers."""

    def begin_turn(self, index: int) -> None:
        """Begin the turn at this index."""

    def begin_group(self, agents: Sequence[str]) -> None:
        """Announce the agents that now run in parallel; raise ScriptBroken if that is ambiguous."""

    def unused(self) -> tuple[UnusedLines, ...]:
        """Return the turn's unused answers."""


class ToolReply(msgspec.Struct, frozen=True, gc=False):
    """The result of a tool call."""

    result: JsonValue = None
    error: str | None = None
    latency_ms: int = 0
    at: tuple[str | int, ...] | None = None
    """For one of several results that answer one call each: its path in the scenario, empty if
    it is in a shared file. None for a result that answers every call."""
    path: tuple[str | int, ...] = ()
    """The path of the result in the scenario; empty if it is in a shared file."""
    is_unchecked: bool = True
    """Whether it may break the schema of the tool's results, as that of a function may."""


class Tools(Protocol):
    """The part that answers tool calls."""

    def begin_turn(self, index: int) -> None:
        """Begin the turn at this index."""

    def has_result_for(self, tool: str) -> bool:
        """Return whether the turn has an answer of its own for a tool."""

    def call(self, agent: str, tool: str, args: JsonValue) -> ToolReply:
        """Return the tool's reply; raise ToolMissing if there is none."""

    def unused(self) -> tuple[UnusedResults, ...]:
        """Return the turn's own unused answers."""


class WaitingCall(NamedTuple):
    """A call of a model, or of a tool, that waits for its answer."""

    agent: str
    """The agent that asks its model, or the tool with `()`."""
    flow: Hashable
    """The run, task or thread that made it, and does nothing else meanwhile."""


class Schedule(Protocol):
    """The order in which calls that wait at the same time are answered."""

    answers_at_once: bool
    """Whether calls of the turn need not wait: they are answered as they are made."""

    @property
    def orders_tools(self) -> bool:
        """Whether calls of tools wait, too, if those of models do."""

    def begin_turn(self, index: int) -> None:
        """Begin the turn at this index."""

    def pick(self, waiting: Sequence[WaitingCall]) -> int:
        """Return the index of the call that is answered next; they are in the order they were made.

        Raise ScriptMisfit if none of them is the one that should be.
        """

    def joins(self) -> bool:
        """Return whether a further call is answered together with the one that was picked last.

        Only code asks: it goes on from both answers before anything of it has come to rest.
        """

    def end_turn(self) -> None:
        """End the turn; raise ScriptMisfit if calls did not take place that should have."""


class UserTurn(msgspec.Struct, frozen=True):
    """The beginning of one turn."""

    text: str
    value: JsonValue = None
    """The message as a value, if it is more than text; or the answer to an interrupt."""
    resumes: bool = False
    """Whether the turn answers an interrupt."""
    session: str = "s1"
    project: str = "p1"
    not_before: int = 0
    """The earliest virtual time of the turn in milliseconds."""
    turns_before: int | None = None
    """The number of earlier turns, if not all of them were taken in this run; else None."""
    paused_ms: int = 0
    """The virtual time up to its begin that the scenario let pass, which no limit counts."""

    @property
    def message(self) -> JsonValue:
        """The message as the scenario gives it: a value, or its text."""
        return self.text if self.value is None else self.value


class Driver(Protocol):
    """Runs a pipeline turn by turn, and emits events."""

    name: str

    def start(self, sink: Sink) -> None:
        """Begin a run, or continue one that another process began."""

    def take(self, turn: UserTurn) -> ErrorFacts | None:
        """Run one turn to its end; return the error that ended it, or None.

        Raise LimitExceeded if the run may have no further turn, and ScriptBroken if its script
        cannot be used; no turn may follow.
        """

    def finish(self, error: ErrorFacts | None = None) -> None:
        """End the run, with the error if one ended it."""

    def close(self) -> None:
        """Release everything, also of a run that continues elsewhere; emit nothing more."""
