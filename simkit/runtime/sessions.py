"""The sessions of a run in one process: their state, logs, counters and time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from simkit.core.errors import ScriptBroken, WriteInvalid
from simkit.core.messages import JsonValue, Message
from simkit.runtime.chain import chain
from simkit.runtime.compiled import CompiledPipeline
from simkit.runtime.conversation import Conversation, Numbers, Summary
from simkit.runtime.flows import Flow
from simkit.runtime.journal import Recovered, Saved
from simkit.runtime.models.faults import FaultPlan
from simkit.runtime.ports import Schedule, Tools, TurnModel
from simkit.runtime.scheduler import VirtualClock
from simkit.runtime.state import State
from simkit.runtime.turn import Turn
from simkit.spec.pipeline.model import Limits
from simkit.trace.recorder import EventRecorder, Position, Sink


class Gifts:
    """Given state: every session begins with it; longer-lived channels get it once."""

    def __init__(
        self,
        initial_state: Mapping[str, JsonValue],
        scope_of: Callable[[str], str],
        project: str | None = None,
    ) -> None:
        """``project`` is the project that gets given project channels.

        None means the first session's.
        """
        self._initial_state, self._scope_of, self._project = initial_state, scope_of, project
        self._owners: set[str] = set()

    def had(self, project: str) -> None:
        """Record that a session of a project has got its part already."""
        self._owners |= {"", project}

    def for_session(self, project: str) -> dict[str, JsonValue]:
        """Return the given values of a new session in a project."""
        if self._project is None:
            self._project = project
        values = {}
        for name, value in self._initial_state.items():
            owner = {"global": "", "project": project}.get(self._scope_of(name))
            is_others = bool(owner) and owner != self._project
            if owner is None or not (owner in self._owners or is_others):
                values[name] = value
        self.had(project)
        return values


class Doors(msgspec.Struct, frozen=True):
    """A pipeline, and everything outside the kernel that its turns use."""

    compiled: CompiledPipeline
    flow: Flow
    initial_state: Mapping[str, Any]
    """The channel values before the first turn."""
    model: TurnModel
    tools: Tools
    plan: FaultPlan
    """The moments at which turns end before their reply."""
    limits: Limits
    schedule: Schedule


class Sessions:
    """All sessions that have begun, new or restored from a store."""

    def __init__(
        self,
        doors: Doors,
        sink: Sink,
        clock: VirtualClock,
        numbers: Numbers,
        given_project: str | None = None,
    ) -> None:
        """``given_project`` is the project that gets given project channels.

        None means the first one.
        """
        self.doors, self.clock, self.numbers = doors, clock, numbers
        self.recorder = EventRecorder(sink, clock)
        compiled = doors.compiled
        self.state = State(compiled.channels, compiled.pipeline.conversation, compiled.schemas)
        self.conversations: dict[str, Conversation] = {}
        self.saved: dict[str, Saved] = {}
        channels = compiled.pipeline.channels
        self._gifts = Gifts(
            doors.initial_state,
            lambda name: channels[name].scope if name in channels else "session",
            given_project,
        )

    def restore(self, saved: Recovered) -> None:
        """Use a store's content; each session is restored on first use."""
        self.count_on(saved)
        self.saved = dict(saved.sessions)
        for name, session in saved.sessions.items():
            values = dict(saved.view.states[name])
            self.state.restore(name, session.project, values, session.committed)
            self._gifts.had(session.project)

    def count_on(self, saved: Recovered) -> None:
        """Continue the counters and the time of a store."""
        self.numbers.restore(saved.counters)
        self.numbers.sizes.update(
            (f"m{number}", (number, tokens)) for number, tokens in saved.view.tokens.items()
        )
        self.clock.advance_to(saved.at)

    def conversation(self, name: str, project: str) -> Conversation:
        """Return a session; begin or restore it on first use."""
        conversation_ = self.conversations.get(name)
        if conversation_ is not None:
            return conversation_
        if name in self.saved:
            return self._restored(name)
        conversation = self._conversation_of(name, project, self.state.begin(name, project))
        self.recorder.record_session_start(Position(name), project=project)
        values = {name: {"$set": value} for name, value in self._gifts.for_session(project).items()}
        if values:
            try:
                self.turn(0, conversation).write(values, "given")
            except WriteInvalid as problem:
                raise ScriptBroken(str(problem), ("given", "state")) from problem
        return conversation

    def turn(self, number: int, conversation: Conversation) -> Turn:
        """Return a new turn of a session."""
        doors = self.doors
        return Turn(
            number,
            conversation,
            doors.compiled,
            self.state,
            self.recorder,
            self.clock,
            doors.model,
            doors.tools,
            doors.plan,
            doors.schedule,
            doors.limits,
            chain,
            conversation.name,
            self.numbers,
        )

    def say_defaults(self, conversation: Conversation) -> None:
        """Log the default values of channels that histories read, so that they are messages too."""
        unsaid = {
            name: {"$set": value}
            for name, value in sorted(conversation.values.items())
            if name in self.state.message_channels and value and not isinstance(value[0], Message)
        }
        if unsaid:
            self.turn(0, conversation).write(unsaid, "given")

    def follow(self, clock: VirtualClock) -> None:
        """Switch to another clock, which shows the same or a later time."""
        self.clock = self.recorder.clock = clock

    def _conversation_of(self, name: str, project: str, values: dict[str, Any]) -> Conversation:
        conversation = self.conversations[name] = Conversation(
            name, project, values, self.numbers, self.recorder, self.doors.compiled.count
        )
        return conversation

    def _restored(self, name: str) -> Conversation:
        """Return a session restored from its store."""
        saved = self.saved[name]
        conversation = self._conversation_of(name, saved.project, self.state.values(name))
        conversation.log.extend(saved.log)
        conversation.branch_logs.paths.update(saved.paths)
        conversation.is_restored = True
        for stream, summary in saved.summaries.items():
            conversation.summaries[stream] = Summary(*summary)
        return conversation
