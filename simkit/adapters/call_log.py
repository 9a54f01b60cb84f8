"""What is told of the tool calls and handoffs that models ask for, and of what becomes of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from simkit.adapters.activations import Run, ToolRequest
from simkit.adapters.event_writer import EventWriter
from simkit.adapters.handoff_calls import told_by
from simkit.adapters.handoff_tools import HandoffTools
from simkit.adapters.sessions import Session
from simkit.core.messages import JsonValue, ToolCall
from simkit.runtime.clock import VirtualClock
from simkit.runtime.context.tokens import Counter
from simkit.runtime.ports import Sink
from simkit.spec.pipeline.model import Limits
from simkit.trace import events as e
from simkit.trace.store import canonical


class CallLog(EventWriter):
    """Writes down who called which tool, and who passes control to whom."""

    def __init__(self, sink: Sink, clock: VirtualClock, count: Counter, limits: Limits) -> None:
        super().__init__(sink, clock, count, limits)
        self.runs: list[Run] = []
        """This turn's."""
        self.requested: list[e.HandoffRequested] = []
        """This turn's handoffs that were not made yet."""
        self.handoff_tools = HandoffTools()
        self._session = Session()
        self._handoffs = 0

    @property
    def initial_state(self) -> Mapping[str, JsonValue]:
        """What the session began with."""
        return self._session.initial_state

    @property
    def project(self) -> str:
        """The session's project."""
        return self._session.project

    # Ids

    def call_id(self, foreign: str) -> str:
        """Return our id for a tool call's foreign one; a new one at its first sight."""
        ids = self._session.ids
        if foreign not in ids:
            ids[foreign] = self.new_call_id()
        return ids[foreign]

    def new_call_id(self) -> str:
        """Return an id for a tool call."""
        self.numbers.calls += 1
        return self._session.served(f"call{self.numbers.calls}", "")

    def served_id(self, ours: str, prefix: str) -> str:
        """Return the id under which models are served a call, as their provider writes it."""
        return self._session.served(ours, prefix)

    def told_as(self, value: Any) -> JsonValue:
        """Return a value as it stands in events: there, a call has our id wherever it is named."""
        names = self._session.as_served
        return _renamed(canonical(value), names) if names else canonical(value)

    # Tools

    def call_request(self, foreign: str) -> ToolRequest | None:
        """Return the tool call that a model asked for under a foreign id."""
        return self._session.requests.get(self._session.ids.get(foreign, ""))

    def was_asked_for(self, tool: str) -> bool:
        """Return whether a model has asked for a tool in this turn."""
        requests = self._session.requests.values()
        return any(request.call.name == tool and request.run in self.runs for request in requests)

    def pending(self, tool: str) -> Iterator[ToolRequest]:
        """Yield the calls of a tool that were asked for and not carried out, oldest first."""
        for request in self._session.requests.values():
            if request.call.name == tool and not request.is_told:
                yield request

    def tool_called(self, request: ToolRequest, args: JsonValue = None) -> None:
        """A tool is carried out; with ``args`` where that was seen, else as the model asked."""
        request.is_told = True
        call = request.call
        self.sink.emit(
            e.ToolCalled(
                *self.at(request.agent, request.run),
                call_id=call.id,
                tool=call.name,
                args=call.args if args is None else args,
            )
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
        where = self.at(request.agent, request.run)
        call = request.call
        if error:
            self.sink.emit(e.ToolFailed(*where, call_id=call.id, tool=call.name, error=error))
        else:
            self.sink.emit(
                e.ToolReturned(*where, call_id=call.id, tool=call.name, result=canonical(result))
            )

    def called_by_code(self, tool: str, args: JsonValue, run: Run | None) -> ToolRequest:
        """Return a call that no model asked for: the pipeline's own code made it."""
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
        """Control is to pass to another agent; it has when that agent goes to work.

        ``is_taken`` says that a function of the application is given the payload.
        """
        self.numbers.handoffs += 1
        event = e.HandoffRequested(
            *self.at(source, run),
            handoff=f"h{self.numbers.handoffs}",
            from_agent=source,
            to_agent=to,
            type=type or "handoff",
            mode="transfer",
            query=query,
            payload=canonical(payload),
            call_id=call_id,
            is_taken=is_taken,
        )
        self.limit("handoffs_per_turn", self._handoffs + len(self.requested) + 1)
        self.sink.emit(event)
        self.requested.append(event)

    def refused(self, request: e.HandoffRequested, reason: str) -> None:
        """A handoff that was asked for is not made."""
        self.requested.remove(request)
        self.sink.emit(
            e.HandoffRejected(
                *self.at()[:3],
                request.agent,
                request.run,
                handoff=request.handoff,
                from_agent=request.from_agent,
                to_agent=request.to_agent,
                type=request.type,
                mode=request.mode,
                query=request.query,
                payload=request.payload,
                reason=reason,
            )
        )

    def _hand_over_by(self, call: ToolCall, to: str, run: Run) -> None:
        """Report the handoff that a model asks for by a call."""
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
    """Return a value in which texts that are one of the names are what it stands for."""
    if isinstance(value, str):
        return names.get(value, value)
    if isinstance(value, dict):
        return {key: _renamed(item, names) for key, item in value.items()}
    return [_renamed(item, names) for item in value] if isinstance(value, list) else value
