"""From one agent to the next: whoever passes control by transfer or replace is followed."""

from __future__ import annotations

from simkit.errors import HandoffTimeout
from simkit.runtime.activation import Activation, bounded
from simkit.runtime.handoffs import Request
from simkit.runtime.scheduler import Steps, TimedOut
from simkit.runtime.turn import Fork, Turn


def chain(
    turn: Turn,
    agent: str,
    handoff: Request | None,
    depth: int,
    started: Activation | None = None,
    fork: Fork | None = None,
) -> Steps:
    """Runs an agent, and those it passes control to, and returns the last activation.

    ``started`` is the first activation where it was announced already, with its parallel group;
    ``fork`` is the branch that all of them are in.
    """
    while True:
        activation = started or Activation(turn, agent, handoff, depth, fork=fork)
        if started is None:
            activation.start()
        fork, started = activation.fork, None
        timeout = _timeout_of(handoff)
        if timeout is None:
            yield from activation.steps()
        else:
            try:
                yield from bounded(turn, activation.steps(), timeout)
            except TimedOut:
                raise HandoffTimeout(
                    f"agent {agent!r} took longer than the {timeout} ms that the handoff "
                    f"from {handoff.source if handoff else ''!r} allows"
                ) from None
        if activation.onward is None:
            turn.reply = activation.output
            return activation
        handoff = activation.onward
        agent, depth = handoff.target, handoff.depth


def _timeout_of(handoff: Request | None) -> int | None:
    """A delegate's time is kept by its source, which is told; others' end the turn."""
    if handoff is None or handoff.contract is None or handoff.mode == "delegate":
        return None
    return handoff.contract.timeout_ms
