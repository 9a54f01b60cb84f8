"""Execution of handoffs: request, contract, and transfer to the target or back."""

from __future__ import annotations

from typing import Any

import msgspec

from simkit.core.errors import HandoffInvalid
from simkit.core.messages import HANDOFF_PREFIX, Handoff, ToolCall, Usage
from simkit.runtime.activation import Activation
from simkit.runtime.handoffs import Request, reason_against, requested
from simkit.runtime.scheduler import Steps, TimedOut, within
from simkit.runtime.turn import Start, Turn
from simkit.trace.events import HandoffMade, HandoffRequested
from simkit.trace.store import canonical

_encode = msgspec.json.Encoder().encode


class TurnStopped(Exception):
    """A contract's ``stop`` ended the turn, without an error."""


def hand_off(
    source: Activation, reply: Handoff, usage: Usage | None = None, kind: str = "handoff"
) -> Steps | None:
    """Pass control if the contract allows it; otherwise the run gets the reason.

    Return the steps of a delegate that has to wait. ``kind`` is empty if no model asked for it.
    """
    turn, numbers, name = source.turn, source.turn.numbers, source.agent.name
    turn.handoffs += 1
    if turn.handoffs > turn.handoffs_max:
        turn.limit("handoffs_per_turn", turn.handoffs)
    numbers.handoffs += 1
    numbers.calls += 1
    request = requested(turn.compiled, f"h{numbers.handoffs}", name, reply, source.spec.depth + 1)
    arguments: dict[str, Any] = {"type": request.type}
    if request.query is not None:
        arguments["query"] = request.query
    if request.recorded_payload is not None:
        arguments["payload"] = request.recorded_payload
    handoff_call = ToolCall(f"call{numbers.calls}", f"{HANDOFF_PREFIX}{reply.to}", arguments)
    source.say(reply.text, (handoff_call,), kind=kind, usage=usage)
    event = record_request(source, request, handoff_call.id)
    reason = ""
    if not source.agent.hands_over:
        reason = f"{name!r} says `handoffs: []`: its model passes control to nobody"
    reason = reason or reason_against(turn.compiled, request)
    if reason:
        turn.recorder.record_rejection(source.position(), event, reason=reason)
        _reject(source, request, handoff_call, reason)
        return None
    make(source, request, event)
    if request.mode == "delegate":
        return _delegate(source, request, handoff_call)
    source.hear(f"Transferred to {request.target}.", handoff_call)
    source.onward = request
    source.is_over = True
    return None


def _reject(source: Activation, request: Request, call: ToolCall, reason: str) -> None:
    policy = request.contract.on_invalid if request.contract is not None else "reject"
    source.hear(f"Handoff to {request.target} rejected: {reason}", call)
    if policy == "stop":
        raise TurnStopped(reason)
    if policy == "retry":
        pair = request.target, request.type
        if pair in source.retried:
            raise HandoffInvalid(
                f"the handoff from {request.source!r} to {request.target!r} "
                f"was refused again: {reason}"
            )
        source.retried |= {pair}


def _delegate(source: Activation, request: Request, call: ToolCall) -> Steps | None:
    turn = source.turn
    start = Start(request.target, request, request.depth, source.branch, goal=source.spec.goal)
    last = turn.chain(turn, start)
    if isinstance(last, Activation):
        _hear_back(source, call, last.output)
        return None
    return _delegated_later(source, request, call, last)


def _delegated_later(source: Activation, request: Request, call: ToolCall, steps: Steps) -> Steps:
    timeout = request.contract.timeout_ms if request.contract is not None else None
    if timeout is None:
        last = yield from steps
    else:
        try:
            last = yield from bounded(source.turn, steps, timeout)
        except TimedOut:
            source.hear(f"Handoff to {request.target} timed out after {timeout} ms", call)
            return
    _hear_back(source, call, last.output)


def _hear_back(source: Activation, call: ToolCall, output: Any) -> None:
    text = output if isinstance(output, str) else _encode(canonical(output)).decode()
    source.hear(text, call, None if text is output else output)


def make(source: Activation, request: Request, event: HandoffRequested) -> None:
    """Emit that a handoff is made, and apply its contract's writes, before its target starts.

    The writes are the source's update: its model asked for the handoff.
    """
    turn, name = source.turn, source.agent.name
    recorder = turn.recorder
    recorder.emit(
        HandoffMade(
            recorder.clock.now,
            turn.session,
            turn.number,
            name,
            source.id,
            handoff=event.handoff,
            from_agent=event.from_agent,
            to_agent=event.to_agent,
            type=event.type,
            mode=event.mode,
            query=event.query,
            payload=event.payload,
            depth=request.depth,
        )
    )
    writes = turn.compiled.writes_of(request.contract) if request.contract is not None else None
    if writes is None:
        return
    update = writes.resolve({**source.root_now(), "handoff": request.facts()})
    turn.write(update, "handoff", name, source.id, source.branch, request.id)


def record_request(source: Activation, request: Request, call_id: str = "") -> HandoffRequested:
    """Record that a run asks for a handoff; return the event, which its outcome refers to."""
    turn, recorder = source.turn, source.turn.recorder
    event = HandoffRequested(
        recorder.clock.now,
        turn.session,
        turn.number,
        source.agent.name,
        source.id,
        handoff=request.id,
        from_agent=request.source,
        to_agent=request.target,
        type=request.type,
        mode=request.mode,
        query=request.query,
        payload=request.recorded_payload,
        call_id=call_id,
    )
    recorder.emit(event)
    return event


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
