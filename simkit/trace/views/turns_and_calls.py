"""Views of turns, agent runs, model calls, handoffs and tool calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, ClassVar, Final, TypeAlias

import msgspec

from simkit.core.messages import JsonValue, Message, Usage
from simkit.trace import events as e
from simkit.trace.views.contexts import ContextView
from simkit.trace.views.states import States

Fields: TypeAlias = Mapping[str, Callable[[Any], Any]]
"""Each key that claims may have to what reads its value from a view."""
LOG_FIELDS: Final = ("level", "logger", "message", "error", "agent")
"""The keys of log records in claims."""


class HandoffView:
    """One handoff request, and its outcome."""

    FIELDS: ClassVar[Fields] = {
        "from": attrgetter("event.from_agent"),
        "to": attrgetter("event.to_agent"),
        "type": attrgetter("event.type"),
        "mode": attrgetter("mode"),
        "query": attrgetter("event.query"),
        "payload": attrgetter("payload"),
        "outcome": attrgetter("outcome"),
        "reason": attrgetter("reason"),
    }

    def __init__(
        self, event: e.HandoffRequested, payload: Any, calls_before: int, messages_before: int
    ) -> None:
        """``payload`` is the event's payload with its references to messages resolved.

        ``calls_before`` is the number of model calls up to the request, ``messages_before`` the
        newest message's number.
        """
        self.payload = payload
        self.calls_before, self.messages_before = calls_before, messages_before
        self.id, self.event, self.turn = event.handoff, event, event.turn
        self.outcome, self.reason, self.depth = "requested", "", 0
        self.mode = event.mode
        """The mode as known so far: with code, only a made handoff shows whether it returns."""

    def fields(self) -> dict[str, Any]:
        """Return the fields for claims."""
        fields = {name: read(self) for name, read in self.FIELDS.items()}
        if not self.reason:
            del fields["reason"]
        return fields


class ToolView:
    """One tool call and its result."""

    FIELDS: ClassVar[Fields] = {
        "agent": attrgetter("agent"),
        "tool": attrgetter("tool"),
        "args": attrgetter("args"),
        "asked": attrgetter("request"),
        "edited_by": attrgetter("edited_by"),
        "result": attrgetter("result"),
        "error": attrgetter("error"),
        "server": attrgetter("server"),
        "call_id": attrgetter("call_id"),
        "called_at": attrgetter("at"),
        "returned_at": attrgetter("returned_at"),
    }

    def __init__(self, event: e.ToolCalled, request: JsonValue = None) -> None:
        self.agent, self.tool, self.args = event.agent, event.tool, event.args
        self.request = request
        """The arguments as the model wrote them; None for a call that no model asked for."""
        self.call_id, self.at = event.call_id, event.at
        self.result: JsonValue = None
        self.error: str | None = None
        self.returned_at: int | None = None
        self.edited_by: str | None = None
        """The editor of the call, if it was edited."""
        self.server: str | None = None
        """The scenario's server that answered, if one did."""

    def fields(self) -> dict[str, JsonValue]:
        """Return the fields for claims."""
        return {name: read(self) for name, read in self.FIELDS.items()}


def place_among(
    tools: Sequence[ToolView], call_id: str, asked_at: Mapping[str, tuple[int, int]]
) -> int:
    """Return the index of a call among a turn's calls.

    Calls of one message are in its order, whichever began first. ``asked_at`` has the message that
    asks for each call, and the call's index there.
    """
    message, position = asked_at.get(call_id, (-1, 0))
    for index, other in enumerate(tools):
        its_message, its_place = asked_at.get(other.call_id, (-2, 0))
        if its_message == message and its_place > position:
            return index
    return len(tools)


class CallView:
    """One model call: a context and a reply."""

    def __init__(self, event: e.ContextBuilt, context: ContextView, index: int) -> None:
        self.id, self.agent, self.run, self.turn = event.call, event.agent, event.run, event.turn
        self.index = index
        """Its index among the agent's calls in the turn."""
        self.context, self.at = context, event.at
        self.reply: Message | None = None
        self.usage: Usage | None = None
        """The tokens of the call; None if nobody counted them."""
        self.error: e.ModelFailed | None = None


class RunView:
    """One agent run."""

    def __init__(self, event: e.AgentStarted, input: Any, states: States) -> None:
        """``input`` is the event's input with its references to messages resolved."""
        self.id, self.agent, self.turn, self.at = event.run, event.agent, event.turn, event.at
        self.input, self.handoff, self.group = input, event.handoff, event.group
        self.handoff_from, self.call_id = event.handoff_from, event.call_id
        self._states = states
        self.goal = event.goal or None
        self.output: Any = None
        self.message: Message | None = None
        self.messages: list[Message] = []
        self.calls: list[CallView] = []
        self.status = "running"
        self.finished = False
        self.finished_at = 0
        """The number of events up to its end, which orders runs by when they finished."""

    @property
    def received(self) -> Any:
        """Return the state that it saw when it began, with the rest of its input."""
        self._states.read()
        return self._states.received[self.id]

    @property
    def update(self) -> dict[str, Any]:
        """Return all that it wrote."""
        self._states.read()
        return self._states.updates.get(self.id, {})


class TurnView:
    """One user message, and all that happened until the pipeline waited again."""

    def __init__(
        self, event: e.TurnStarted, lo: int, message: Message | None, states: States
    ) -> None:
        self.number, self.session, self.at = event.turn, event.session, event.at
        self.message, self.lo, self.hi = message, lo, lo
        self.runs: list[RunView] = []
        self.calls: list[CallView] = []
        self.calls_by_agent: dict[str, list[CallView]] = {}
        self.handoffs: list[HandoffView] = []
        self.tools: list[ToolView] = []
        self.routes: list[e.RouteChosen] = []
        self.limits: list[e.LimitReached] = []
        self.unused: tuple[e.UnusedLines, ...] = ()
        self.reply: Any = None
        self.error: e.ErrorFacts | None = None
        self.interrupt: Any = None
        """The question that the user answers next; None if there is none."""
        self.resumes: TurnView | None = None
        """The turn whose question the user answered; None if there is none."""
        self._states = states
        self.finished = False

    @property
    def updates(self) -> Sequence[e.StateUpdated]:
        """Return the updates of channels, in order."""
        self._states.read()
        return self._states.turn_updates[self.lo]

    @property
    def state_before(self) -> Mapping[str, Any]:
        """Return the session's values before the turn."""
        self._states.read()
        return self._states.before[self.lo]

    @property
    def state(self) -> Mapping[str, Any]:
        """Return the session's values at the end of the turn; empty while it runs."""
        self._states.read()
        return self._states.after.get(self.lo, {})


def run_ids(agent: str, runs: Iterable[RunView], calls: Iterable[CallView]) -> list[str]:
    """Return the ids of an agent's runs in the order in which claims count them.

    ``runs`` are those of any agent that began in the scope; ``calls`` are the agent's. A run that
    waited for the user began earlier, and comes first. A run without model calls counts, too.
    """
    starts = [run.id for run in runs if run.agent == agent]
    return [*dict.fromkeys(call.run for call in calls if call.run not in starts), *starts]


def log_fields(event: e.LogRecorded) -> dict[str, Any]:
    """Return a log record's fields for claims; a missing agent or error is absent."""
    fields = {name: getattr(event, name) for name in LOG_FIELDS}
    return {name: value for name, value in fields.items() if value or name == "message"}


def event_fields(event: e.AnyEvent) -> dict[str, Any]:
    """Return an event's fields for claims by name; empty ids and names are absent."""
    fields: dict[str, Any] = {"kind": e.kind_of(event)}
    for name in event.__struct_fields__:
        value = getattr(event, name)
        if isinstance(value, str) and not value:
            continue
        if not isinstance(value, Message):
            value = msgspec.to_builtins(value)
        fields[name] = value
    return fields
