"""Calls of ``Runner.run`` as agent runs: starts, ends, handoffs; and the names of agents."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import agents
import msgspec
from agents import Agent, Handoff
from agents.exceptions import (
    InputGuardrailTripwireTriggered,
    OutputGuardrailTripwireTriggered,
    ToolInputGuardrailTripwireTriggered,
    ToolOutputGuardrailTripwireTriggered,
)

from simkit.adapters import api
from simkit.adapters.openai_agents import compat


class Names:
    """The names of one scenario's agents.

    Agents with one name that can hand off to each other get numbers. Others with one name are one
    agent: code may make its agents again for every message.
    """

    def __init__(self, ruled: Mapping[str, str]) -> None:
        """``ruled`` are the handoff tools in the scenario's rules."""
        self._ruled = ruled
        self._names: dict[int, tuple[Any, str]] = {}
        """Names by identity; the agent is kept, so that no other object gets its id."""

    def meet(self, first: Any) -> None:
        """Name an agent, and all that it can hand off to."""
        if id(first) in self._names:
            return
        names: dict[str, int] = {}
        for agent in reachable(first):
            number = names[agent.name] = names.get(agent.name, 0) + 1
            name = agent.name if number == 1 else f"{agent.name} ({number})"
            self._names.setdefault(id(agent), (agent, name))
            for tool, target in _handoffs_of(agent):
                if tool in self._ruled and target is not None:
                    self._names[id(target)] = target, self._ruled[tool]

    def of(self, agent: Any) -> str:
        """Return an agent's name."""
        entry = self._names.get(id(agent))
        return entry[1] if entry is not None else agent.name

    def handoffs_of(self, agent: Any) -> dict[str, str]:
        """Return an agent's handoff tools, with their target agents."""
        return {
            tool: self.of(target) if target is not None else handoff.agent_name
            for handoff, (tool, target) in zip(agent.handoffs, _handoffs_of(agent), strict=True)
        }


def _handoffs_of(agent: Any) -> list[tuple[str, Any]]:
    """Return an agent's handoff tools, each with its target, if known."""
    return [
        (
            handoff.tool_name
            if isinstance(handoff, Handoff)
            else Handoff.default_tool_name(handoff),
            target_of(handoff),
        )
        for handoff in agent.handoffs
    ]


def taken_by(agent: Any) -> list[str]:
    """Return the tools whose arguments go to a function: ``on_handoff``, or the caller's own."""
    return [
        handoff.tool_name
        for handoff in agent.handoffs
        if isinstance(handoff, Handoff) and handoff.input_json_schema.get("properties")
    ]


def target_of(handoff: Any) -> Any:
    """Return the agent of a handoff; None if only the caller's function knows it."""
    if isinstance(handoff, Agent):
        return handoff
    reference = getattr(handoff, compat.AGENT_REF, None)
    return reference() if reference is not None else None


def reachable(agent: Any) -> Iterator[Any]:
    """Yield an agent and those that it can hand off to, each once, nearest first."""
    agents, visited = [agent], {id(agent)}
    for reached in agents:
        yield reached
        for target in map(target_of, reached.handoffs):
            if target is not None and id(target) not in visited:
                visited.add(id(target))
                agents.append(target)


IGNORED: Final = "Multiple handoffs detected, ignoring this one."
"""The SDK's answer to every handoff call of a message except the first."""
CONTEXT: Final = "context"
"""The channel of a context object without fields."""


Filtered: TypeAlias = tuple[Sequence[api.Message], Sequence[api.Message], str]
"""A history before and after a filter, and the filter's name."""


@dataclass(slots=True, eq=False)
class AgentRun:
    """One call of ``Runner.run``; ``run`` is the run of its current agent."""

    parent: AgentRun | None
    input: api.JsonValue
    context: Any
    run: api.Run | None = None
    open_tools: dict[int, api.ToolRequest] = field(default_factory=dict)
    """Running tools that are no functions, by identity."""
    filters: list[Filtered] = field(default_factory=list)
    """The results of filters on the history for the next agent."""

    @property
    def outer(self) -> api.Run | None:
        """Return the agent run whose code made the call."""
        return self.parent.run if self.parent is not None else None


class AgentRunLog:
    """Records the runner calls of one scenario."""

    def __init__(self, adapter_context: api.AdapterContext) -> None:
        self.adapter_context = adapter_context
        self.recorder, self.writing = adapter_context.recorder, adapter_context.writing
        self.names, self.loops = Names(self.recorder.handoff_tools.ruled), api.Loops()
        self._state = api.HeldState(self.recorder)
        self._parallel_groups = api.ParallelGroups[AgentRun](self.recorder)
        self.next_number = itertools.count(1).__next__
        """Returns a number in place of a random value."""
        self._reported_problem: BaseException | None = None
        """The last recorded exception, which passes through outer calls too."""

    def clear(self) -> None:
        """Drop open runner calls of the last turn, and its exception."""
        self._parallel_groups.clear()
        self._reported_problem = None

    # Runner calls

    def begin(self, parent: AgentRun | None, agent: Any, input: Any, context: Any) -> AgentRun:
        """Record a call of ``Runner.run``, by another call's code or by the pipeline's own."""
        if isinstance(context, agents.RunContextWrapper):
            context = context.context
        agent_run = AgentRun(parent, _words_of(input), context)
        with self.writing():
            self.names.meet(agent)
            self._parallel_groups.begin(agent_run, parent)
            self.look(agent_run)
        return agent_run

    def ended(self, agent_run: AgentRun, result: Any) -> None:
        """Close a returned call; an agent that still runs, without an output, was stopped."""
        with self.writing():
            self.look(agent_run)
            self._tell_refusals(agent_run, result)
            run = agent_run.run
            waits = [*map(_approval, result.interruptions or ())] if run is not None else []
            if waits and agent_run.parent is None and run is not None:
                self.recorder.interrupted(run, waits)
            otherwise = "cancelled" if result.final_output is None else "done"
            self._close(agent_run, "interrupted" if waits else otherwise)

    def failed(self, agent_run: AgentRun, problem: BaseException) -> None:
        """Close a call that has raised."""
        with self.writing():
            self.look(agent_run)
            if problem is not self._reported_problem:
                self._reported_problem = problem
                name, reason = _tripwire(problem)
                if name:
                    self._trip(name, reason, agent_run.run)
            self._close(agent_run, api.status_after(problem, InputGuardrailTripwireTriggered))

    def _close(self, agent_run: AgentRun, status: str) -> None:
        self._parallel_groups.ended(agent_run)
        if agent_run.run is not None:
            self.recorder.end_run(agent_run.run, status)

    def _tell_refusals(self, agent_run: AgentRun, result: Any) -> None:
        """Record refusals by guardrails of tools, which let the run continue."""
        for result_ in (
            *result.tool_input_guardrail_results,
            *result.tool_output_guardrail_results,
        ):
            behavior = result_.output.behavior
            if behavior["type"] == "reject_content":
                self._trip(result_.guardrail.get_name(), behavior["message"], agent_run.run)

    # Agents

    def agent_started(self, agent_run: AgentRun, agent: Any) -> None:
        """Record an agent's start: the call's first, or the target of a handoff."""
        with self.writing():
            self._start(agent_run, agent)
            self.look(agent_run)

    def _start(self, agent_run: AgentRun, agent: Any) -> None:
        if agent_run.run is not None:
            self.recorder.end_run(agent_run.run)
        is_first, outer = agent_run.run is None, agent_run.outer
        agent_run.run = self.recorder.begin_run(
            self.names.of(agent),
            agent_run.input if is_first else None,
            group=self._parallel_groups.starts(agent_run),
            parent=outer.id if outer is not None else "",
            channels=_channels_of(agent_run),
        )
        for before, after, by in agent_run.filters:
            self.recorder.filtered(agent_run.run, before, after, by, lasting=True)
        agent_run.filters.clear()

    def asks(self, agent_run: AgentRun, agent: Any) -> None:
        """Record a model call, which starts an agent whose run was resumed from a stored state."""
        with self.writing():
            if agent_run.run is None or agent_run.run.is_over:
                self._start(agent_run, agent)
            self.recorder.handoff_tools.see(tool.name for tool in agent.tools)
            self.recorder.handoff_tools.learn(self.names.handoffs_of(agent))
            self.recorder.handoff_tools.take(taken_by(agent))

    def agent_ended(self, agent_run: AgentRun, output: Any) -> None:
        """Record the final output of an agent."""
        with self.writing():
            self.look(agent_run)
            if agent_run.run is not None:
                self.recorder.end_run(agent_run.run, output=api.plain_or_text(output))

    def handed_off(self, agent_run: AgentRun, target: Any) -> None:
        """Record a handoff; other handoffs that the message asked for are rejected."""
        with self.writing():
            self.look(agent_run)
            run = agent_run.run
            if run is None:
                return
            to = self.names.of(target)
            requests = self.recorder.pending_handoffs(run)
            handoff = next((request for request in requests if request.to_agent == to), None)
            for request in requests:
                if request is not handoff:
                    self.recorder.refused(request, IGNORED)
            if handoff is None:
                self.recorder.hand_over(run.agent, to, run=run)
            self.recorder.end_run(run, "handed_off")

    def model_input(
        self,
        agent_run: AgentRun,
        agent: Any,
        before: Sequence[api.Message],
        after: Sequence[api.Message],
        by: str,
    ) -> None:
        """Record a filter's result on an agent's next model input."""
        with self.writing():
            if agent_run.run is None or agent_run.run.is_over:
                self._start(agent_run, agent)
            if agent_run.run is not None:
                self.recorder.filtered(agent_run.run, before, after, by)

    def _trip(self, guardrail: str, reason: str, run: api.Run | None) -> None:
        self.recorder.events.record_guardrail(
            self.recorder.at(run), guardrail=guardrail, reason=reason
        )

    # State

    def look(self, agent_run: AgentRun) -> None:
        """Record the changed fields of the context object."""
        self._state.look(agent_run.context, CONTEXT, agent_run.run or agent_run.outer)

    def session_used(
        self, agent_run: AgentRun | None, session: Any, record: Callable[..., None]
    ) -> None:
        """Record that a session's items were read, or that some were added."""
        run = agent_run.run if agent_run is not None else None
        with self.writing():
            record(session.session_id, "session", run.agent if run else "", run)


def _channels_of(agent_run: AgentRun) -> tuple[str, ...] | None:
    """Return the channels of a nested run's agents, if they have their own context object."""
    outer = agent_run.parent
    if outer is None or agent_run.context is None or agent_run.context is outer.context:
        return None
    return tuple(name for name, _ in api.fields_of(agent_run.context, CONTEXT))


def _words_of(input: Any) -> api.JsonValue:
    """Return the input of a runner call; of a list of items, the latest user message."""
    if isinstance(input, str):
        return input
    if isinstance(input, list):
        for item in reversed(input):
            if isinstance(item, dict) and item.get("role") == "user":
                content = item.get("content")
                return content if isinstance(content, str) else api.plain_or_text(content)
    return None


_TRIPWIRES: Final = (
    InputGuardrailTripwireTriggered,
    OutputGuardrailTripwireTriggered,
    ToolInputGuardrailTripwireTriggered,
    ToolOutputGuardrailTripwireTriggered,
)


def _tripwire(problem: BaseException) -> tuple[str, str]:
    """Return name and reason of the guardrail behind an exception; empty for none."""
    if not isinstance(problem, _TRIPWIRES):
        return "", ""
    # Those of tools have the guardrail and its output themselves.
    result: Any = getattr(problem, "guardrail_result", problem)
    info = result.output.output_info
    return result.guardrail.get_name(), "" if info is None else _text(api.plain_or_text(info))


def _text(value: api.JsonValue) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _approval(item: Any) -> api.JsonValue:
    """Return a tool call that waits for approval."""
    args = api.parse_arguments(item.arguments or "")
    return {"tool": item.tool_name, "args": args, "agent": item.agent.name}


_current_run: Final = api.ContextScope[AgentRun]("simkit_agent_run")
flight_now, inside = _current_run.now, _current_run.inside
listeners: Final = api.ContextListeners[AgentRunLog]("simkit_flight_log")
current_log = listeners.current
installation: Final = api.Installation()
"""The replacements in the SDK, installed while a turn of some scenario runs."""
