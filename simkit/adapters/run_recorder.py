"""Records runs of agents: their starts, which make handoffs, and their ends."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from msgspec.structs import replace

from simkit.adapters.activations import CallFacts, Run
from simkit.adapters.tool_recorder import ToolRecorder
from simkit.core.messages import JsonValue, value_said
from simkit.runtime.clock import VirtualClock
from simkit.runtime.context.tokens import Counter
from simkit.spec.pipeline.model import Limits
from simkit.trace.recorder import Position, Sink
from simkit.trace.store import canonical


class RunRecorder(ToolRecorder):
    """Records which agent works, on what, and how that ends."""

    def __init__(self, sink: Sink, clock: VirtualClock, count: Counter, limits: Limits) -> None:
        super().__init__(sink, clock, count, limits)
        self.waits_for = ""
        """The run whose question the user answers next."""
        self._agent_runs = 0
        """The number of this turn's runs that count for the limit."""

    def begin_run(
        self, agent: str, input: JsonValue = None, *, group: str = "", branch: str = "",
        outer: str = "", parent: str = "", channels: tuple[str, ...] | None = None,
        call_id: str = "", is_node: bool = False, state: str = "", received: JsonValue = None,
        task: JsonValue = None, after: tuple[str, ...] = (), goal: str = "",
    ) -> Run:  # fmt: skip
        """Start an agent run; a requested handoff to the agent is now made.

        Its input is the handoff's payload, else ``input``; a ``task`` takes precedence. A run of a
        parallel ``group`` opens a branch; any other is in ``branch``. ``channels`` are those that
        it can read, if not all. ``call_id`` is the tool call that it executes: several of one
        message form a group too. A graph's node (``is_node``) counts for the limit of runs once it
        has called a model. ``state`` names the graph's state that it uses, ``received`` is input
        that no channel holds; ``after`` are the runs that led to it, ``goal`` is the goal that it
        works for.
        """
        allowed = self.limits.agent_runs_per_turn
        if allowed is not None and self._agent_runs >= allowed:
            self.limit("agent_runs_per_turn", self._agent_runs + 1)
        self._agent_runs += not is_node
        self.numbers.runs += 1
        run = Run(f"r{self.numbers.runs}", agent, is_node=is_node)
        if received is not None:
            received = self._plain(received)
        run.call_facts = CallFacts(state, received, channels)
        if agent not in self.handoff_tools.agents:
            self._know(agent)
        order = None
        for request in self.requested:
            if request.to_agent == agent:
                order = request
                break
        handoff = source = ""
        if order is not None:
            self.requested.remove(order)
            self._handoffs += 1
            handoff, source = order.handoff, order.from_agent
            if parent and parent == order.run:
                order = replace(order, mode="delegate")
            payload = order.payload if order.payload is not None else order.query
            input = payload if payload is not None else input
            self.events.record_handoff(self._at_request(order), order, depth=self._handoffs)
        self.runs.append(run)
        input = input if task is None else task
        self.events.record_agent_start(
            Position(self.session, self.turn, agent, run.id),
            input=None if input is None else self._plain(input),
            handoff=handoff, handoff_from=source, group=group, channels=channels, after=after,
            branch=run.id if group else branch, outer=outer, parent=parent,
            call_id=call_id, state=state, received=run.call_facts.received, goal=goal,
        )  # fmt: skip
        return run

    def _know(self, agent: str) -> None:
        """Record that an agent exists; an earlier tool call may turn out to be a handoff."""
        tools = self.handoff_tools
        version = tools.version
        tools.know((agent,))
        if tools.version == version:
            return
        waiting = [
            request
            for request in self._session.requests.values()
            if request.run in self.runs and not request.is_told and not request.call.is_handoff
        ]
        if waiting and tools.target_of(waiting[-1].call.name) == agent:
            request = waiting[-1]
            self._session.turn_out(request, agent)
            self._hand_over_by(request.call, agent, request.run)

    def begin_marked(self, agent: str, around: Run | None) -> Run:
        """Begin an annotated run; it receives the input of the run ``around`` it."""
        call_facts = around.call_facts if around is not None else CallFacts()
        return self.begin_run(
            agent,
            channels=call_facts.channels,
            state=call_facts.state,
            received=call_facts.received,
        )

    def begin_group(self) -> str:
        """Return the id of a new parallel group."""
        self.numbers.groups += 1
        return f"g{self.numbers.groups}"

    def interrupted(self, run: Run, question: JsonValue) -> None:
        """Record an agent's question to the user; its run is over until there is an answer."""
        self.events.record_question(self.at(run), question=canonical(question))
        self.waits_for = self.waits_for or run.id
        self.end_run(run, "interrupted")

    def end_run(
        self, run: Run, status: str = "done", output: JsonValue = None, *, is_null: bool = False
    ) -> None:
        """Record the end of a run. Without ``output``, its output is its last message.

        ``is_null``: the output is known to be null.
        """
        if run.is_over:
            return
        run.is_over = True
        final = run.final
        if output is None and final is not None and not is_null:
            value = value_said(final)
            output = final.content if value is None else value
        self.events.record_agent_end(
            Position(self.session, self.turn, run.agent, run.id),
            status=status,
            output=self._plain(output),
            message=final.number if final is not None else 0,
        )

    @contextmanager
    def end_on_error(self, run: Run) -> Iterator[None]:
        """End a run as failed, or as cancelled, if the code inside raises; the exception passes.

        Example::

            with recorder.end_on_error(run):
                result = agent.run(task)
            recorder.end_run(run, output=result)
        """
        try:
            yield
        except BaseException as problem:
            with self.lock:
                self.end_run(run, status_after(problem))
            raise

    def open_run(self, agent: str) -> Run | None:
        """Return the agent's last open run of this turn; None if there is none."""
        return next((r for r in reversed(self.runs) if r.agent == agent and not r.is_over), None)


STOPS: Final = (CancelledError, GeneratorExit)
"""Exceptions that stop a running agent: a task is cancelled, or a stream is closed early."""


def status_after(problem: BaseException | None, *stops: type[BaseException]) -> str:
    """Return the status of a run that an exception ended.

    ``stops`` are a framework's own exceptions that stop an agent.
    """
    if problem is None:
        return "done"
    return "cancelled" if isinstance(problem, (*STOPS, *stops)) else "failed"
