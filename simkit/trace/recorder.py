"""The recorder: the runtime and all adapters record events here.

It has one method for each event of `simkit.trace.events`. A method takes the position and, by
keyword, the event's fields; it reads the time itself:

    recorder.record_model_call(Position("s1", 1, "triage", "r1"), call="c1")

Values must be plain data (`simkit.trace.store.canonical`).
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, Concatenate, Final, ParamSpec, Protocol, TypeVar

import msgspec

from simkit.trace import events as e
from simkit.trace.changes import LastValues

FactsT = ParamSpec("FactsT")
EventT = TypeVar("EventT", bound=e.Event)


class Sink(Protocol):
    """A receiver of events, in the order in which they happen."""

    def emit(self, event: e.AnyEvent) -> None:
        """Take one event."""


class Clock(Protocol):
    """A source of the virtual time."""

    @property
    def now(self) -> int:
        """Return the milliseconds since the scenario's start."""

    def begin_turn(self) -> None:
        """Begin a turn, in which no model and no tool has answered."""

    def tick(self) -> None:
        """Note that a model or a tool has answered: two answers are never at the same time."""


class Position(msgspec.Struct, frozen=True, gc=False):
    """The position of an event; fields that do not apply are empty."""

    session: str = ""
    turn: int = 0
    agent: str = ""
    run: str = ""


class Moment(msgspec.Struct, frozen=True, gc=False):
    """A clock that stands, for an event at another event's time."""

    now: int

    def begin_turn(self) -> None:
        """Stand."""

    def tick(self) -> None:
        """Stand."""


WHOLE_RUN: Final = Position()
"""The position of events that belong to no session."""


def _method_for(
    kind: Callable[Concatenate[int, str, int, str, str, FactsT], EventT],
    then: Callable[[Clock], None] | None = None,
) -> Callable[Concatenate[EventRecorder, Position, FactsT], EventT]:
    """Return the method that records events of a kind; its keywords are the kind's own fields.

    ``then`` is called with the clock after each of them.
    """

    def record(
        self: EventRecorder, at: Position, /, *args: FactsT.args, **facts: FactsT.kwargs
    ) -> EventT:
        now = self.clock.now
        event = kind(now, at.session, at.turn, at.agent, at.run, *args, **facts)
        self.emit(event)
        if then is not None:
            then(self.clock)
        return event

    record.__doc__ = kind.__doc__
    return record


def _tick(clock: Clock) -> None:
    clock.tick()


class EventRecorder:
    """Records one run, each fact as one event, with the clock's time."""

    __slots__ = ("clock", "emit", "last_values")

    def __init__(self, sink: Sink, clock: Clock) -> None:
        self.emit: Callable[[Any], None] = sink.emit
        """Takes an event: the sink's method."""
        self.clock = clock
        self.last_values = LastValues()
        """The values of channels from which the next ones come."""

    record_session_start = _method_for(e.SessionStarted)
    record_turn_start = _method_for(e.TurnStarted, lambda clock: clock.begin_turn())
    record_message = _method_for(e.MessageAdded)
    record_route = _method_for(e.RouteChosen)
    record_agent_start = _method_for(e.AgentStarted)
    record_tool_definition = _method_for(e.ToolDefined)
    record_context = _method_for(e.ContextBuilt)
    record_model_call = _method_for(e.ModelCalled)
    record_reply = _method_for(e.ModelReplied, _tick)
    record_parsed_reply = _method_for(e.ReplyParsed)
    record_model_failure = _method_for(e.ModelFailed, _tick)
    record_retry = _method_for(e.ModelRetried)
    record_tool_call = _method_for(e.ToolCalled)
    record_tool_result = _method_for(e.ToolReturned, _tick)
    record_tool_failure = _method_for(e.ToolFailed, _tick)
    record_edit = _method_for(e.CallEdited)
    record_handoff_request = _method_for(e.HandoffRequested)
    record_inner_state = _method_for(e.StateOpened)
    record_state_update = _method_for(e.StateUpdated)
    record_summary = _method_for(e.HistorySummarised)
    record_store_read = _method_for(e.StoreRead)
    record_store_write = _method_for(e.StoreWritten)
    record_guardrail = _method_for(e.GuardrailTripped)
    record_question = _method_for(e.TurnInterrupted)
    record_answer = _method_for(e.TurnResumed)
    record_checkpoint = _method_for(e.CheckpointSaved)
    record_restore = _method_for(e.CheckpointRestored)
    record_agent_end = _method_for(e.AgentFinished)
    record_turn_end = _method_for(e.TurnFinished)
    record_fault = _method_for(e.FaultInjected)
    record_limit = _method_for(e.LimitReached)
    record_log_entry = _method_for(e.LogRecorded)
    record_lost_error = _method_for(e.ErrorLost)
    record_carried_text = _method_for(e.TextCarriedOver)
    record_unread_request = _method_for(e.RequestUnread)
    record_uncontrolled_effect = _method_for(e.UncontrolledEffect)
    record_request = _method_for(e.RequestSent)
    record_response = _method_for(e.ResponseReceived)
    record_judge_answer = _method_for(e.JudgeAnswered)
    record_run_end = _method_for(e.RunFinished)
    _record_rejection = _method_for(e.HandoffRejected)
    _record_handoff = _method_for(e.HandoffMade)

    def record_run_start(self, at: Position, **facts: Any) -> e.RunStarted:
        """Record the start of the run.

        It is at 0, although importing a pipeline may have moved the clock.
        """
        event = e.RunStarted(0, at.session, at.turn, at.agent, at.run, **facts)
        self.emit(event)
        return event

    def record_rejection(self, at: Position, request: e.HandoffRequested, *, reason: str) -> None:
        """Record that a requested handoff is rejected."""
        self._record_rejection(at, **_handoff_facts(request), reason=reason)

    def record_handoff(self, at: Position, request: e.HandoffRequested, *, depth: int) -> None:
        """Record that a requested handoff is made."""
        self._record_handoff(at, **_handoff_facts(request), depth=depth)


_SHARED: Final = e.HandoffEvent.__struct_fields__[len(e.Event.__struct_fields__) :]


_shared_of: Final = attrgetter(*_SHARED)


def _handoff_facts(request: e.HandoffRequested) -> dict[str, Any]:
    """Return the fields that all events of one handoff share."""
    return dict(zip(_SHARED, _shared_of(request), strict=True))
