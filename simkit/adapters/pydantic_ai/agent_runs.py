"""Runs of agents and steps of graphs as agent runs: starts, ends, nesting; the names of agents."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType, ModuleType
from typing import Any, Final, TypeAlias

from pydantic_ai import DeferredToolRequests, ToolDefinition
from pydantic_ai import messages as m
from pydantic_ai.exceptions import RunCancelled

from simkit.adapters import api
from simkit.adapters.pydantic_ai import compat
from simkit.adapters.pydantic_ai.messages import args_of, as_message, reason_of, result_of

NAMELESS: Final = "agent"
"""PydanticAI's own name for an agent without one."""
_LIBRARIES: Final = frozenset(("simkit", "pydantic_ai", "pydantic_graph", "contextlib", "anyio"))
_SENTENCE: Final = re.compile(r"[.!?:](?=\s|$)|\n")

Kind: TypeAlias = tuple[Any, ...]
"""The key that two agents of one name share if they are the same."""


class Names:
    """The names of one scenario's agents.

    Agents with one name get numbers if they differ in their tools, their output or the first
    sentence of their instructions. Otherwise they are one agent: code may make its agents again for
    every message.
    """

    def __init__(self) -> None:
        self._known: dict[str, list[Kind]] = {}
        self._agents: dict[int, tuple[Any, str]] = {}
        """Agents without names, by identity; the agent is kept, so that no other gets its id."""

    def hold(self, agent: Any) -> None:
        """Record the variable in which the calling code holds an agent.

        The run itself may begin in a task, where that is not known.
        """
        if agent.name is None and id(agent) not in self._agents:
            self._agents[id(agent)] = agent, held_as(agent)

    def of(self, agent: Any) -> str:
        """Return an agent's name, for code that runs it now."""
        self.hold(agent)
        name = agent.name or self._agents[id(agent)][1] or NAMELESS
        kinds, kind = self._known.setdefault(name, []), _kind_of(agent)
        if kind not in kinds:
            kinds.append(kind)
        number = kinds.index(kind) + 1
        return name if number == 1 else f"{name} ({number})"


def held_as(agent: Any) -> str:
    """Return the variable name under which the calling code holds an agent; empty for none.

    PydanticAI itself infers a name from variables, but in no task, and not if an agent is iterated.
    Here an attribute (``self.triage``) and a key (``agents["triage"]``) are names too, and a
    module's name counts before the variable of a loop.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] not in _LIBRARIES:
            near, far = frame.f_locals, frame.f_globals
            for look, scope in ((_name_in, far), (_name_inside, near), (_name_inside, far)):
                name = look(scope, agent)
                if name:
                    return name
            name = _name_in(near, agent)
            if name:
                return name
        frame = frame.f_back
    return ""


def _name_in(scope: Mapping[Any, Any], agent: Any) -> str:
    """Return the key under which a mapping holds an agent."""
    return next((str(name) for name, value in [*scope.items()] if value is agent), "")


def _name_inside(scope: Mapping[str, Any], agent: Any) -> str:
    """Return the name under which one of the objects in a scope holds an agent."""
    for value in [*scope.values()]:
        inner = value if type(value) is dict else getattr(value, "__dict__", None)
        if type(inner) is dict and not isinstance(value, ModuleType):
            name = _name_in(inner, agent)
            if name:
                return name
    return ""


def _kind_of(agent: Any) -> Kind:
    texts, functions = instructions_of(agent)
    heads = tuple(_SENTENCE.split(text.strip(), maxsplit=1)[0] for text in texts)
    return heads, functions, tuple(tools_of(agent)), repr(agent.output_type)


def instructions_of(agent: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return an agent's own instructions: texts, and the names of functions that make some."""
    names = (compat.SYSTEM_PROMPTS, compat.INSTRUCTIONS, compat.PROMPT_FUNCTIONS)
    instructions = [item for name in names for item in getattr(agent, name, ())]
    texts, functions = [], []
    for instruction in instructions:
        function = getattr(
            instruction, "instruction", getattr(instruction, "function", instruction)
        )
        if isinstance(function, str):
            texts.append(function)
        else:
            functions.append(getattr(function, "__qualname__", type(function).__name__))
    return tuple(texts), tuple(functions)


def tools_of(agent: Any) -> list[str]:
    """Return the names of an agent's function tools, as far as they are known without a run."""
    tools: list[str] = []

    def look(toolset: Any) -> None:
        tools.extend(getattr(toolset, "tools", None) or ())

    for toolset in agent.toolsets:
        toolset.apply(look)
    return tools


OUTPUT: Final = "output"
"""The guardrail that rejects output: the agent's output type, and its validators."""

StateHolders: TypeAlias = tuple[tuple[Any, str], ...]
"""Objects whose fields are state, each with a channel name in case it has no fields."""


@dataclass(slots=True, eq=False)
class AgentRun:
    """One run of an agent, or one step of a graph."""

    parent: AgentRun | None
    name: str
    input: api.JsonValue
    holder: StateHolders
    leaves: Leaving | None
    """The output of another agent that this run takes over from."""
    run: api.Run | None = None
    is_over: bool = False
    unheard: int = 0
    """The number of known calls of its model when it was called last."""

    @property
    def outer(self) -> api.Run | None:
        """Return the agent run whose code runs the agent, or takes the step."""
        return self.parent.run if self.parent is not None else None


@dataclass(slots=True, eq=False)
class Leaving:
    """An output for an output function; the first agent that the function runs gets control."""

    agent_run: AgentRun
    payload: api.JsonValue
    call_id: str
    is_used: bool = False


class AgentRunLog:
    """Records the agent runs of one scenario."""

    def __init__(self, adapter_context: api.AdapterContext) -> None:
        self._adapter_context = adapter_context
        self.recorder, self.writing = adapter_context.recorder, adapter_context.writing
        self.names, self.loops = Names(), api.Loops()
        self.threads = api.SerialExecutor(thread_name_prefix="pydantic-ai")
        """The executor that runs synchronous functions one after another."""
        self._state = api.HeldState(self.recorder)
        self._parallel_groups = api.ParallelGroups[AgentRun](self.recorder)
        self.has_flown = False
        """Whether the framework was used in this turn."""

    def clear(self) -> None:
        """Drop the last turn's open runs."""
        self._parallel_groups.clear()
        self.has_flown = False

    def close(self) -> None:
        """Close the objects made for the framework."""
        self.threads.shutdown()
        self.loops.close()

    # Runs

    def begin(
        self,
        parent: AgentRun | None,
        name: str,
        input: api.JsonValue,
        holder: StateHolders,
        leaving: Leaving | None = None,
    ) -> AgentRun:
        """Record an agent's run, or a step, by another one's code or the pipeline's own."""
        leaves = None
        if leaving is not None and leaving.agent_run is parent and not leaving.is_used:
            leaving.is_used, leaves = True, leaving
        agent_run = AgentRun(parent, name, input, holder, leaves)
        with self.writing():
            if leaves is None:
                self._parallel_groups.begin(agent_run, parent)
            self.has_flown = True
            self.look(agent_run)
        return agent_run

    def started(self, agent_run: AgentRun) -> None:
        """Start an agent run; parallel ones are known by now."""
        with self.writing():
            if agent_run.run is None or agent_run.run.is_over:
                self._start(agent_run)
            self.look(agent_run)

    def _start(self, agent_run: AgentRun) -> None:
        """Start agent runs that began in parallel together, whenever each calls its model."""
        if agent_run.leaves is not None and agent_run.run is None:
            self._begin(agent_run, self._pass_control(agent_run, agent_run.leaves))
            return
        for agent_run_ in self._parallel_groups.those_with(agent_run) or [agent_run]:
            self._begin(agent_run_, agent_run_.outer)

    def _begin(self, agent_run: AgentRun, outer: api.Run | None) -> None:
        agent_run.run = self.recorder.begin_run(
            agent_run.name,
            agent_run.input if agent_run.run is None else None,
            group=self._parallel_groups.starts(agent_run),
            parent=outer.id if outer is not None else "",
        )

    def _pass_control(self, agent_run: AgentRun, leaves: Leaving) -> api.Run | None:
        """Report a handoff by an output function, if no rule has; return the run around both."""
        source = leaves.agent_run
        if source.run is not None:
            if not self.recorder.pending_handoffs(source.run):
                query = agent_run.input if isinstance(agent_run.input, str) else None
                self.recorder.hand_over(
                    source.name,
                    agent_run.name,
                    leaves.payload,
                    query=query,
                    run=source.run,
                    call_id=leaves.call_id,
                )
            self.recorder.end_run(source.run, "handed_off")
        return source.outer

    def ended(self, agent_run: AgentRun, output: Any = None) -> None:
        """Record that the agent run ended normally with its output."""
        with self.writing():
            self.look(agent_run)
            requests = _requests_in(output)
            if requests and agent_run.parent is None and agent_run.run is not None:
                self.recorder.interrupted(
                    agent_run.run, [_question(request, agent_run) for request in requests]
                )
            self._close(
                agent_run, "interrupted" if requests else "done", None if requests else output
            )

    def failed(self, agent_run: AgentRun, problem: BaseException) -> None:
        """Record that the agent run has raised."""
        with self.writing():
            self.look(agent_run)
            self._close(agent_run, api.status_after(problem, RunCancelled))

    def _close(self, agent_run: AgentRun, status: str, output: Any = None) -> None:
        agent_run.is_over = True
        self._parallel_groups.ended(agent_run)
        if agent_run.run is not None and not agent_run.run.is_over:
            self.recorder.end_run(agent_run.run, status, api.plain_or_text(output))

    # Models

    def asks(
        self, agent_run: AgentRun, messages: Sequence[m.ModelMessage], output_tools: Sequence[str]
    ) -> None:
        """Handle that an agent is about to call its model, with some tools for output."""
        self.started(agent_run)
        run = agent_run.run
        if run is not None:
            self.recorder.set_output_tools(run, dict.fromkeys(output_tools, ""))
            agent_run.unheard = run.model_calls
        if messages:
            self._tell_unmade(agent_run, messages[-1])

    def _tell_unmade(self, agent_run: AgentRun, last: m.ModelMessage) -> None:
        """Report answered calls without an executed tool: they were denied or rejected."""
        tools = agent_run.run.output_tools if agent_run.run is not None else ()
        for part in last.parts:
            if isinstance(part, m.RetryFeedbackPart):
                self._refuse_output(agent_run, part.content)
            elif isinstance(part, m.ToolReturnPart):
                if part.outcome in ("denied", "interrupted"):
                    self._not_carried_out(part.tool_call_id)
                elif part.outcome == "retried" and part.tool_name in tools:
                    self._refuse_output(agent_run, part.content)
                elif part.outcome == "retried":
                    self._refuse_call(part.tool_call_id, part.model_response_str())

    def _refuse_output(self, agent_run: AgentRun, reason: Any) -> None:
        """Report that a model's output was rejected, by its type or by a validator."""
        with self.writing():
            position = self.recorder.at(agent_run.run, agent_run.name)
            self.recorder.events.record_guardrail(
                position, guardrail=OUTPUT, reason=reason_of(reason)
            )

    def _refuse_call(self, call_id: str, problem: str) -> None:
        """Report that a call was rejected before its tool was executed."""
        with self.writing():
            request = self.recorder.call_request(call_id)
            if request is not None and not request.call.is_handoff:
                self.recorder.tool_answered(request, error=problem)

    def filtered(
        self,
        agent_run: AgentRun,
        before: Sequence[api.Message],
        after: Sequence[api.Message],
        by: str,
        lasting: bool,
    ) -> None:
        """Record a function's changes to the history for the model."""
        with self.writing():
            if agent_run.run is not None:
                self.recorder.filtered(agent_run.run, before, after, by, lasting=lasting)

    def answered(
        self,
        agent_run: AgentRun,
        messages: Sequence[api.Message],
        offers: Sequence[api.Offer],
        model: str,
        response: m.ModelResponse,
    ) -> None:
        """Handle a model's answer; report a call that did not use HTTP."""
        with self.writing():
            run = agent_run.run
            if run is None or run.model_calls != agent_run.unheard:
                return
            call = self.recorder.record_request(run, messages, offers, {"model": model})
            reply = as_message(response)
            usage = api.Usage(response.usage.input_tokens, response.usage.output_tokens)
            self.recorder.replied(run, call, reply, "calls" if reply.calls else "text", usage)

    def _not_carried_out(self, call_id: str) -> bool:
        """Mark a call as not executed; return whether the call is known."""
        request = self.recorder.call_request(call_id)
        if request is not None and not request.is_told:
            request.is_told = request.is_answered = True
        return request is not None

    def settled(self, agent_run: AgentRun, messages: Sequence[Any]) -> None:
        """Handle the end of a run with ``messages``: its model's output has its answer."""
        last = messages[-1] if messages else None
        if not isinstance(last, m.ModelRequest):
            return
        with self.writing():
            for part in last.parts:
                # A call without an executed tool was the output, or came too late.
                if isinstance(part, m.ToolReturnPart) and self._not_carried_out(part.tool_call_id):
                    self.recorder.known(result_of(part), agent_run.run)

    # Tools and state

    def note_edit(self, tool: str, args: Mapping[str, Any], call_id: str) -> None:
        """Record that a person approved another call than the model asked for."""
        with self.writing():
            request = self.recorder.call_request(call_id)
            if request is not None:
                self.recorder.note_edit_by_user(request, tool, api.plain_or_text(args))

    def is_scripted(self, tool: str) -> bool:
        """Return whether the scenario answers a tool."""
        return self._adapter_context.use_tool.is_scripted(tool)

    async def use_tool(
        self, tool: ToolDefinition, args: Mapping[str, Any], call_id: str, real: Callable[[], Any]
    ) -> Any:
        """Execute a call, by the scenario or for real; return the result."""
        with self.recorder.lock:
            request = self.recorder.call_request(call_id)
        if request is not None and isinstance(request.call.args, dict):
            args = request.call.args  # As the model wrote them, before they were validated.
        return await self._adapter_context.use_tool.in_loop(
            tool.name, args, real, request, tool.return_schema or None
        )

    def look(self, agent_run: AgentRun) -> None:
        """Record the changed fields of deps and of a graph's state."""
        for thing, otherwise in agent_run.holder:
            self._state.look(thing, otherwise, agent_run.run or agent_run.outer)


def _requests_in(output: Any) -> list[m.ToolCallPart]:
    if not isinstance(output, DeferredToolRequests):
        return []
    return [*output.approvals, *output.calls]


def _question(call: m.ToolCallPart, agent_run: AgentRun) -> api.JsonValue:
    """Return a tool call that waits for approval, or for a result."""
    return {
        "tool": call.tool_name,
        "args": api.plain_or_text(args_of(call.args)),
        "agent": agent_run.name,
    }


_agent_run: Final = api.ContextScope[AgentRun]("simkit_pydantic_ai_agent_run")
inside = _agent_run.inside
_output: Final = api.ContextScope[Leaving]("simkit_pydantic_ai_output")
leaving_now, leaving = _output.now, _output.inside
"""The current output for an output function: the first agent inside takes over from it."""
listeners: Final = api.ContextListeners[AgentRunLog]("simkit_pydantic_ai_log")
current_log = listeners.current
installation: Final = api.Installation()
"""The replacements in the framework, installed while a turn of some scenario runs."""


def flight_now() -> AgentRun | None:
    """Return the agent run around this code; None if there is none.

    A run that a stream left open may be over.
    """
    agent_run = _agent_run.now()
    while agent_run is not None and agent_run.is_over:
        agent_run = agent_run.parent
    return agent_run
