"""Records calls of tools, and handoffs, which models may ask for by such calls."""

from __future__ import annotations

from collections.abc import Iterator

from simkit.adapters.activations import Run, ToolRequest
from simkit.adapters.handoff_calls import told_by
from simkit.adapters.recorder_base import RecorderBase
from simkit.core.messages import JsonValue, ToolCall
from simkit.runtime.clock import VirtualClock
from simkit.runtime.context.tokens import Counter
from simkit.spec.pipeline.model import Limits
from simkit.trace import events as e
from simkit.trace.recorder import Position, Sink
from simkit.trace.store import canonical


class ToolRecorder(RecorderBase):
    """Records what agents ask for beside text: tools, and other agents."""

    def __init__(self, sink: Sink, clock: VirtualClock, count: Counter, limits: Limits) -> None:
        super().__init__(sink, clock, count, limits)
        self.requested: list[e.HandoffRequested] = []
        """This turn's handoffs that were not made yet."""
        self._handoffs = 0
        """The number of this turn's handoffs that were made."""

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
