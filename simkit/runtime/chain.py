"""Chains: from one agent to the next, by handoff, in parallel, or along a declared edge."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from simkit.core.errors import HandoffTimeout, InputInvalid
from simkit.core.messages import Handoff
from simkit.runtime.activation import (
    Activation,
    check_refusal,
    make_handoff,
    record_request,
    run_within,
)
from simkit.runtime.compiled import Request, reason_against, requested
from simkit.runtime.running import run_agent
from simkit.runtime.scheduler import Steps, TimedOut, WaitForAll
from simkit.runtime.turn import Start, Turn
from simkit.trace.events import HandoffRequested


def chain(turn: Turn, start: Start, started: Activation | None = None) -> Steps:
    """Run an agent and those it passes control to; return the last run.

    ``started`` is the first run if it was announced already, with its parallel group.
    """
    agents = turn.compiled.agents
    while True:
        run, started = started, None
        if run is None:
            run = Activation(turn, start, agents[start.agent], start.branch)
            run.start()
        handoff = run.spec.handoff
        timeout = _timeout_of(handoff) if handoff is not None else None
        if handoff is None or timeout is None:
            yield from run_agent(run)
        else:
            yield from _run_in_time(run, handoff, timeout)
        if run.onward is None:
            turn.reply = run.output
            return run
        onward = run.onward
        start = Start(onward.target, onward, onward.depth, run.branch, goal=run.spec.goal)


def _run_in_time(run: Activation, handoff: Request, timeout_ms: int) -> Steps:
    """Run an announced agent within the time that the handoff to it allows."""
    try:
        yield from run_within(run.turn, run_agent(run), timeout_ms)
    except TimedOut:
        raise HandoffTimeout(
            f"agent {run.agent.name!r} took longer than the {timeout_ms} ms that the handoff "
            f"from {handoff.source!r} allows"
        ) from None


def _timeout_of(handoff: Request) -> int | None:
    """Return the time limit of a target, unless its source keeps it, as for a delegate."""
    if handoff.contract is None or handoff.mode == "delegate":
        return None
    return handoff.contract.timeout_ms


def in_parallel(
    turn: Turn, starts: Sequence[Start], go_on: Callable[[int, Activation], Steps]
) -> Steps:
    """Run agents in parallel: each sees the state at the beginning of the group.

    ``go_on`` gets the index of a start and its announced run, and runs it.
    """
    turn.model.begin_group([start.agent for start in starts])
    turn.numbers.groups += 1
    group = f"g{turn.numbers.groups}"
    started: list[Activation] = []
    try:
        for start in starts:
            agent = turn.compiled.agents[start.agent]
            activation = Activation(turn, start, agent, start.branch, group)
            activation.start()
            started.append(activation)
        yield WaitForAll([go_on(index, start_) for index, start_ in enumerate(started)])
    except BaseException:
        # Closing does not emit events for those that had not begun yet.
        for activation in started:
            activation.cancel()
        raise


class Way:
    """One transition from an ended agent to the next; a contract may cover it."""

    def __init__(self, turn: Turn, name: str, source: Activation, start: Start) -> None:
        """``name`` is the ended node or step; ``source`` may be the agent it handed off to."""
        self._turn, self._name, self._source, self._start = turn, name, source, start
        self._request = self._request_made()
        """The handoff for the transition, if the pair has a contract; else None."""
        self._event: HandoffRequested | None = None
        self.reason = reason_against(turn.compiled, self._request) if self._request else ""
        """Why the contract refuses it; empty if it does not."""

    def _request_made(self) -> Request | None:
        compiled, source, target = self._turn.compiled, self._source, self._start.agent
        contracts = compiled.contracts_for(self._name, target)
        if not contracts:
            return None
        request = Handoff(target, contracts[0].type, None, source.output)
        return requested(compiled, "", self._name, request, source.spec.depth + 1)

    def tell(self) -> None:
        """Emit the request, and the rejection if the contract refuses it."""
        if self._request is None:
            return
        turn, source = self._turn, self._source
        self._request = replace(self._request, id=turn.count_handoff())
        self._event = event = record_request(source, self._request)
        if self.reason:
            turn.recorder.record_rejection(source.position(), event, reason=self.reason)

    def start_of_target(self) -> Start:
        """Return the next agent's start, with the handoff if there is one."""
        request, start = self._request, self._start
        ready = self._turn.compiled.agents[start.agent]
        if start.input is None and ready.reads_input:
            raise InputInvalid(
                f"agent {start.agent!r} reads its input, but the output of "
                f"{self._name!r}, which ran before it, is null"
            )
        if request is None or self._event is None:
            return start
        make_handoff(self._source, request, self._event)
        return replace(start, handoff=request, depth=request.depth)

    def problem_text(self) -> str:
        """Return the text about a refusal for the source."""
        return f"Handoff to {self._start.agent} rejected: {self.reason}"

    def refuse(self, has_retried: bool, problem_text: str) -> Steps:
        """Apply the contract's `on_invalid`: run the source again with the reason, or end."""
        request = self._request
        assert request is not None
        check_refusal(request, self.reason, has_retried)
        source = self._source
        again = replace(source.spec, branch=source.branch, problem_text=problem_text)
        return (yield from chain(self._turn, again))


def passed_on(
    turn: Turn, name: str, source: Activation, onward: Callable[[Activation], list[Start]]
) -> Steps:
    """Return the targets of a node or step that has ended, once no contract refuses them.

    ``onward`` finds them; it is called again after the source had to run again. If a contract
    refuses one of several transitions, none is made, and no events are emitted for the others.
    """
    has_retried = False
    while True:
        ways = [Way(turn, name, source, start) for start in onward(source)]
        refused = [way for way in ways if way.reason]
        for way in refused or ways:
            way.tell()
        if not refused:
            return [way.start_of_target() for way in ways]
        problems = "\n".join(way.problem_text() for way in refused)
        source = yield from refused[0].refuse(has_retried, problems)
        has_retried = True
