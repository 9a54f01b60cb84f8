"""Execution of handoffs: request, contract, and transfer to the target or back."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from simkit.core.errors import HandoffInvalid
from simkit.core.messages import HANDOFF_PREFIX, Handoff, Message, ToolCall, Usage
from simkit.runtime.branch import Branch
from simkit.runtime.compiled import CompiledPipeline
from simkit.runtime.handoffs import Request, reason_against, requested
from simkit.runtime.scheduler import Steps, TimedOut, within
from simkit.runtime.turn import Start, Turn
from simkit.trace.events import HandoffRequested
from simkit.trace.recorder import Position
from simkit.trace.store import canonical

_encode = msgspec.json.Encoder().encode


class TurnStopped(Exception):
    """A contract's ``stop`` ended the turn, without an error."""


class Source(Protocol):
    """The run that passes control."""

    turn: Turn
    spec: Start
    id: str
    branch: Branch | None

    @property
    def name(self) -> str:
        """Return the name under which it runs."""

    def root_now(self) -> dict[str, Any]:
        """Return the values for references when the run passes control."""

    def position(self) -> Position:
        """Return the run's current position."""

    def say(self, text: str, calls: tuple[ToolCall, ...] = ()) -> Message:
        """Log a message of the run."""

    def hear(self, call: ToolCall, text: str, data: Any = None) -> None:
        """Log the answer to one of its calls."""

    def replied(self, call: str, message: Message, kind: str, usage: Usage | None) -> None:
        """Emit the model's reply."""


def _refusal(compiled: CompiledPipeline, request: Request) -> str:
    """Return an error if an agent may not pass control at all, whatever its contracts."""
    if compiled.agents[request.source].hands_over:
        return ""
    return f"{request.source!r} says `handoffs: []`: its model passes control to nobody"


class Passing:
    """The handoffs of one run."""

    __slots__ = ("_retried", "_source")

    def __init__(self, source: Source) -> None:
        self._source = source
        self._retried: set[tuple[str, str]] = set()
        """Target and type of handoffs that were refused once and may not be refused again."""

    def hand_off(self, reply: Handoff, call: str, usage: Usage | None = None) -> Steps:
        """Pass control if the contract allows it; otherwise the run gets the reason.

        Return the handoff that ends the run; None if the run continues.
        """
        source, turn = self._source, self._source.turn
        turn.handoffs += 1
        if turn.handoffs > turn.limits.handoffs_per_turn:
            turn.limit("handoffs_per_turn", turn.handoffs)
        turn.numbers.handoffs += 1
        turn.numbers.calls += 1
        request = requested(
            turn.compiled, f"h{turn.numbers.handoffs}", source.name, reply, source.spec.depth + 1
        )
        handoff_call = ToolCall(
            f"call{turn.numbers.calls}", f"{HANDOFF_PREFIX}{reply.to}", _arguments(request)
        )
        message = source.say(reply.text, (handoff_call,))
        if call:
            source.replied(call, message, "handoff", usage)
        event = record_request(source, request, handoff_call.id)
        reason = _refusal(turn.compiled, request) or reason_against(turn.compiled, request)
        if reason:
            turn.recorder.record_rejection(source.position(), event, reason=reason)
            self._rejected(request, handoff_call, reason)
            return None
        make(source, request, event)
        if request.mode == "delegate":
            yield from self._delegate(request, handoff_call)
            return None
        source.hear(handoff_call, f"Transferred to {request.target}.")
        return request

    def _rejected(self, request: Request, call: ToolCall, reason: str) -> None:
        policy = request.contract.on_invalid if request.contract is not None else "reject"
        self._source.hear(call, f"Handoff to {request.target} rejected: {reason}")
        if policy == "stop":
            raise TurnStopped(reason)
        if policy == "retry":
            if (request.target, request.type) in self._retried:
                raise HandoffInvalid(
                    f"the handoff from {request.source!r} to {request.target!r} "
                    f"was refused again: {reason}"
                )
            self._retried.add((request.target, request.type))

    def _delegate(self, request: Request, call: ToolCall) -> Steps:
        source = self._source
        start = Start(request.target, request, request.depth, source.branch, goal=source.spec.goal)
        steps = source.turn.chain(source.turn, start)
        timeout = request.contract.timeout_ms if request.contract is not None else None
        if timeout is None:
            last = yield from steps
        else:
            try:
                last = yield from bounded(source.turn, steps, timeout)
            except TimedOut:
                source.hear(call, f"Handoff to {request.target} timed out after {timeout} ms")
                return
        output = last.output
        text = output if isinstance(output, str) else _encode(canonical(output)).decode()
        source.hear(call, text, None if text is output else output)


def make(source: Source, request: Request, event: HandoffRequested) -> None:
    """Emit that a handoff is made, and apply its contract's writes, before its target starts.

    The writes are the source's update: its model asked for the handoff.
    """
    turn = source.turn
    turn.recorder.record_handoff(source.position(), event, depth=request.depth)
    writes = turn.compiled.writes_of(request.contract)
    if writes is None:
        return
    update = writes.resolve({**source.root_now(), "handoff": request.facts()})
    turn.write(update, "handoff", source.name, source.id, source.branch, request.id)


def record_request(source: Source, request: Request, call_id: str = "") -> HandoffRequested:
    """Record that a run asks for a handoff; return the event, which its outcome refers to."""
    return source.turn.recorder.record_handoff_request(
        source.position(),
        handoff=request.id,
        from_agent=request.source,
        to_agent=request.target,
        type=request.type,
        mode=request.mode,
        query=request.query,
        payload=request.recorded_payload,
        call_id=call_id,
    )


def bounded(turn: Turn, steps: Steps, timeout_ms: int) -> Steps:
    """Run a turn's work for a limited time; raise TimedOut after it."""

    def closes() -> None:
        turn.closing = "timed_out"

    try:
        result = yield from within(steps, turn.clock, timeout_ms, closes)
    except TimedOut:
        turn.closing = "cancelled"
        raise
    return result


def _arguments(request: Request) -> dict[str, Any]:
    payload = request.recorded_payload
    arguments = {"type": request.type, "query": request.query, "payload": payload}
    return {key: value for key, value in arguments.items() if value is not None}
