"""The position of what is recorded; state, tools and handoffs."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import Any

from simkit.adapters.recorder.handoffs import HandoffTools, told_by
from simkit.adapters.recorder.sessions import Run, Session, ToolRequest
from simkit.core.errors import LimitExceeded
from simkit.core.messages import JsonValue, ToolCall
from simkit.runtime.context.tokens import Counter
from simkit.runtime.conversation import Numbers
from simkit.runtime.scheduler import VirtualClock
from simkit.spec.pipeline.model import Limits
from simkit.trace import changes
from simkit.trace import events as e
from simkit.trace.recorder import EventRecorder, Position, Sink
from simkit.trace.store import canonical


class RecorderBase:
    """Records state, tools and handoffs at the current session, turn and run."""

    def __init__(self, sink: Sink, clock: VirtualClock, count: Counter, limits: Limits) -> None:
        self.events, self.clock, self.count = EventRecorder(sink, clock), clock, count
        self.limits, self.numbers = limits, Numbers()
        self.lock = threading.RLock()
        """Held while an event is emitted: pipelines may use any thread."""
        self.session = ""
        """The session of the current turn."""
        self.turn = 0
        self.runs: list[Run] = []
        """The runs of the current turn."""
        self.handoff_tools = HandoffTools()
        self._session, self._sessions = Session(), dict[str, Session]()
        self.requested: list[e.HandoffRequested] = []
        """This turn's handoffs that were not made yet."""
        self._handoffs = 0
        """The number of this turn's handoffs that were made."""
        self._partial_channels: dict[str, frozenset[str]] = {}
        """State to its channels of which an update is only what joins their value."""
        self._checkpoints: dict[str, str] = {}
        """Session to its last checkpoint."""

    @property
    def initial_state(self) -> Mapping[str, JsonValue]:
        """Return the session's initial state."""
        return self._session.initial_state

    @property
    def project(self) -> str:
        """The session's project."""
        return self._session.project

    def at(self, run: Run | None = None, agent: str | None = None) -> Position:
        """Return the current position. The agent is the run's, unless one is named."""
        if agent is None:
            agent = run.agent if run is not None else ""
        return Position(self.session, self.turn, agent, run.id if run is not None else "")

    def limit(self, name: str, used: int) -> None:
        """Raise LimitExceeded, after its event, when a limit is passed."""
        allowed = getattr(self.limits, name)
        if allowed is not None and used > allowed:
            self.events.record_limit(self.at(), limit=name, allowed=allowed)
            raise LimitExceeded(name, allowed)

    def _plain(self, value: Any) -> JsonValue:
        """Return a value with foreign call ids replaced by simkit's."""
        names = self._session.as_served
        if not names and (type(value) is str or value is None):
            return value
        return _renamed(canonical(value), names) if names else canonical(value)

    # State

    def wrote(
        self,
        update: Mapping[str, Any],
        agent: str = "",
        run: Run | None = None,
        *,
        values: Mapping[str, Any] | None = None,
        cause: str = "writes",
        group: str = "",
        branch: str = "",
        state: str = "",
    ) -> None:
        """Emit a write of channels.

        ``values`` are the new values of channels without a built-in reducer.
        """
        partial_channels = self._partial_channels
        new_update, new_values = self.events.last_values.shorten_all(
            self.session, state, update, values,
            partial_channels.get(state, ()),
            self._plain if self._session.as_served else canonical,
        )  # fmt: skip
        self.events.record_state_update(
            Position(self.session, self.turn, agent, run.id if run is not None else ""),
            update=new_update,
            values=new_values,
            cause=cause,
            group=group,
            branch=branch,
            state=state,
        )

    def learn_channels(self, channels: Mapping[str, e.ChannelFacts]) -> None:
        """Learn the channels of sessions before the first is written."""
        self._partial_channels[""] = changes.partial_channels(channels)

    def state_opened(
        self, channels: Mapping[str, e.ChannelFacts], around: str, shares: tuple[str, ...]
    ) -> str:
        """Emit that an inner graph begins; return the name of its state."""
        self.numbers.states += 1
        name = f"x{self.numbers.states}"
        self._partial_channels[name] = changes.partial_channels(channels)
        self.events.record_inner_state(
            self.at(), state=name, channels=channels, around=around, shares=shares
        )
        return name

    def saved(self, run: Run | None = None) -> None:
        """Emit that a session's state was saved, after ``run`` if that caused it."""
        self.numbers.checkpoints += 1
        checkpoint = self._checkpoints[self.session] = f"k{self.numbers.checkpoints}"
        self.events.record_checkpoint(self.at(run), checkpoint=checkpoint)

    def restored(self) -> None:
        """Emit that the session's last saved state was restored."""
        checkpoint = self._checkpoints.get(self.session, "")
        self.events.record_restore(self.at(), checkpoint=checkpoint)

    def read(self, channel: str, scope: str, agent: str = "", run: Run | None = None) -> None:
        """Emit that a long-lived channel was read from its store."""
        self.events.record_store_read(self.at(run, agent), channel=channel, scope=scope)

    def stored(self, channel: str, scope: str, agent: str = "", run: Run | None = None) -> None:
        """A long-lived channel was written to its store."""
        self.events.record_store_write(self.at(run, agent), channel=channel, scope=scope)

    # Tools

    def call_id(self, foreign: str) -> str:
        """Return simkit's id for a foreign tool call id; a new one on first use."""
        ids = self._session.ids
        if foreign not in ids:
            ids[foreign] = self.new_call_id()
        return ids[foreign]

    def new_call_id(self) -> str:
        """Return an id for a tool call."""
        self.numbers.calls += 1
        return self._session.served(f"call{self.numbers.calls}", "")

    def served_id(self, ours: str, prefix: str) -> str:
        """Return the id of a call in served responses, in the provider's format."""
        return self._session.served(ours, prefix)

    def call_request(self, foreign: str) -> ToolRequest | None:
        """Return the tool call that a model asked for under a foreign id; None if there is none."""
        return self._session.requests.get(self._session.ids.get(foreign, ""))

    def was_asked_for(self, tool: str) -> bool:
        """Return whether a model has asked for a tool in this turn."""
        requests = self._session.requests.values()
        return any(request.call.name == tool and request.run in self.runs for request in requests)

    def pending(self, tool: str) -> Iterator[ToolRequest]:
        """Yield the calls of a tool that were requested and not executed, oldest first."""
        for request in self._session.requests.values():
            if request.call.name == tool and not request.is_told:
                yield request

    def tool_called(self, request: ToolRequest, args: JsonValue = None) -> None:
        """Emit that a tool is executed, with ``args`` if known, else the requested ones."""
        request.is_told = True
        call = request.call
        self.events.record_tool_call(
            self.at(request.run, request.agent),
            call_id=call.id,
            tool=call.name,
            args=call.args if args is None else args,
        )

    def tool_answered(
        self, request: ToolRequest, result: JsonValue = None, error: str = ""
    ) -> None:
        """A tool came back."""
        if request.is_answered:
            return
        if not request.is_told:
            self.tool_called(request)
        request.is_answered = True
        at, call = self.at(request.run, request.agent), request.call
        if error:
            self.events.record_tool_failure(at, call_id=call.id, tool=call.name, error=error)
        else:
            self.events.record_tool_result(
                at, call_id=call.id, tool=call.name, result=canonical(result)
            )

    def called_by_code(self, tool: str, args: JsonValue, run: Run | None) -> ToolRequest:
        """Return a call that the pipeline's own code made, without a model."""
        call = ToolCall(self.new_call_id(), tool, canonical(args))
        return ToolRequest(call, run.agent if run is not None else "", run or Run("", ""))

    # Handoffs

    def hand_over(
        self,
        source: str,
        to: str,
        payload: JsonValue = None,
        *,
        type: str | None = None,
        query: str | None = None,
        run: Run | None = None,
        call_id: str = "",
        is_taken: bool = False,
    ) -> None:
        """Emit a handoff request; the handoff is made when the target starts.

        ``is_taken``: a function of the application gets the payload.
        """
        self.numbers.handoffs += 1
        payload = canonical(payload)
        self.limit("handoffs_per_turn", self._handoffs + len(self.requested) + 1)
        request = self.events.record_handoff_request(
            self.at(run, source),
            handoff=f"h{self.numbers.handoffs}",
            from_agent=source,
            to_agent=to,
            type=type or "handoff",
            mode="transfer",
            query=query,
            payload=payload,
            call_id=call_id,
            is_taken=is_taken,
        )
        self.requested.append(request)

    def pending_handoffs(self, run: Run) -> list[e.HandoffRequested]:
        """Return the handoffs that a run has asked for and that are neither made nor rejected."""
        return [request for request in self.requested if request.run == run.id]

    def refused(self, request: e.HandoffRequested, reason: str) -> None:
        """Emit that a requested handoff is not made."""
        self.requested.remove(request)
        self.events.record_rejection(self._at_request(request), request, reason=reason)

    def _at_request(self, request: e.HandoffRequested) -> Position:
        return Position(self.session, self.turn, request.agent, request.run)

    def _hand_over_by(self, call: ToolCall, to: str, run: Run) -> None:
        """Emit the handoff that a model asks for by a call."""
        payload = told_by(self.handoff_tools.passed_by(call.name, call.args))
        self.hand_over(
            run.agent,
            to,
            payload.payload,
            type=payload.type,
            query=payload.query,
            run=run,
            call_id=call.id,
            is_taken=self.handoff_tools.is_taken(call.name),
        )


def _renamed(value: JsonValue, names: Mapping[str, str]) -> JsonValue:
    """Return a value with texts that equal one of the names replaced."""
    if isinstance(value, str):
        return names.get(value, value)
    if isinstance(value, dict):
        return {key: _renamed(item, names) for key, item in value.items()}
    return [_renamed(item, names) for item in value] if isinstance(value, list) else value
