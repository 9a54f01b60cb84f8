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
from simkit.trace.events import HandoffRequested
from simkit.trace.store import canonical

_encode = msgspec.json.Encoder().encode


class TurnStopped(Exception):
    """A contract's ``stop`` ended the turn, without an error."""


def hand_off(
    source: Activation, reply: Handoff, usage: Usage | None = None, kind: str = "handoff"
) -> Steps:
    """Pass control if the contract allows it; otherwise the run gets the reason.

    ``kind`` is empty if no model asked for it.
    """
    turn, numbers, name = source.turn, source.turn.numbers, source.agent.name
    identity = turn.count_handoff()
    numbers.calls += 1
    request = requested(turn.compiled, identity, name, reply, source.spec.depth + 1)
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
        return
    make_handoff(source, request, event)
    if request.mode == "delegate":
        yield from _delegate(source, request, handoff_call)
        return
    source.hear(f"Transferred to {request.target}.", handoff_call)
    source.onward = request
    source.is_over = True


def _reject(source: Activation, request: Request, call: ToolCall, reason: str) -> None:
    source.hear(f"Handoff to {request.target} rejected: {reason}", call)
    pair = request.target, request.type
    check_refusal(request, reason, pair in source.retried)
    source.retried |= {pair}


def check_refusal(request: Request, reason: str, has_retried: bool) -> None:
    """Raise TurnStopped or HandoffInvalid if a contract's `on_invalid` ends a refused handoff.

    Otherwise its source may try again.
    """
    policy = request.contract.on_invalid if request.contract is not None else "reject"
    if policy == "stop":
        raise TurnStopped(reason)
    if policy == "retry" and has_retried:
        raise HandoffInvalid(
            f"the handoff from {request.source!r} to {request.target!r} was refused again: {reason}"
        )


def _delegate(source: Activation, request: Request, call: ToolCall) -> Steps:
    """Run the target, and give its output to the source."""
    turn = source.turn
    start = Start(request.target, request, request.depth, source.branch, goal=source.spec.goal)
    steps = turn.chain(turn, start)
    timeout = request.contract.timeout_ms if request.contract is not None else None
    try:
        last = yield from steps if timeout is None else run_within(turn, steps, timeout)
    except TimedOut:
        source.hear(f"Handoff to {request.target} timed out after {timeout} ms", call)
        return
    output = last.output
    text = output if isinstance(output, str) else _encode(canonical(output)).decode()
    source.hear(text, call, None if text is output else output)


def make_handoff(source: Activation, request: Request, event: HandoffRequested) -> None:
    """Emit that a handoff is made, and apply its contract's writes, before its target starts.

    The writes are the source's update: its model asked for the handoff.
    """
    turn = source.turn
    turn.recorder.record_handoff(source.position(), event, depth=request.depth)
    writes = turn.compiled.writes_of(request.contract)
    if writes is None:
        return
    update = writes.resolve({**source.root_now(), "handoff": request.facts()})
    turn.write(update, "handoff", source.agent.name, source.id, source.branch, request.id)


def record_request(source: Activation, request: Request, call_id: str = "") -> HandoffRequested:
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


def run_within(turn: Turn, steps: Steps, timeout_ms: int) -> Steps:
    """Run a turn's work for a limited time; raise TimedOut after it."""

    def closes() -> None:
        turn.closing = "timed_out"

    try:
        result = yield from within(steps, turn.clock, timeout_ms, closes)
    except TimedOut:
        turn.closing = "cancelled"
        raise
    return result
