"""PydanticAI: agents, code that runs agents, and graphs.

Runs of agents are observed wherever a pipeline makes them. For a pipeline that is an ``Agent``,
simkit keeps each session's messages, as its users would.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from types import SimpleNamespace
from typing import Any, Final

import msgspec
from pydantic_ai import (
    AgentRunResult,
    AgentRunResultEvent,
    DeferredToolRequests,
    DeferredToolResults,
    ToolApproved,
    ToolDenied,
)
from pydantic_ai.agent import AbstractAgent
from pydantic_ai.exceptions import AgentRunError, FallbackExceptionGroup, ModelAPIError, UserError

from simkit.adapters import api
from simkit.adapters.pydantic_ai import agent_runs
from simkit.adapters.pydantic_ai.runner import listening

WAYS: Final = ("run", "run_sync", "run_stream", "run_stream_events", "iter")
"""Ways to run an agent: ``app: {call: …}``."""
_FAILURES: Final = (AgentRunError, UserError, FallbackExceptionGroup)
"""Exceptions that the framework itself raises."""


def driver(subject: Any, app: api.App, adapter_context: api.AdapterContext) -> AgentPilot | None:
    """Return the driver for an agent; None for anything else."""
    return AgentPilot(subject, app, adapter_context) if isinstance(subject, AbstractAgent) else None


class AgentsInstrument(api.Instrumentation):
    """Observes every run of an agent and every step of a graph."""

    observes = ("filters",)
    """The aspects that claims can use wherever it is on."""

    def __init__(self, adapter_context: api.AdapterContext) -> None:
        self._log = agent_runs.AgentRunLog(adapter_context)

    def at_work(self) -> AbstractContextManager[None]:
        """Observe the framework in this context."""
        self._log.clear()
        return listening(self._log)

    def run_now(self) -> api.Run | None:
        """Return the run of the agent around this code."""
        agent_run = agent_runs.flight_now()
        return agent_run.run if agent_run is not None else None

    def failure(self, problem: Exception) -> api.PipelineError | None:
        """Return the framework's exceptions under their own names, except a provider's failure."""
        if isinstance(problem, ModelAPIError) or not isinstance(problem, _FAILURES):
            return None
        return api.FrameworkFailed(str(problem), type(problem).__name__)

    def reply(self, returned: Any) -> Any:
        """Return the reply in a result, or an output, that the pipeline returns as it is."""
        if isinstance(returned, AgentRunResultEvent):
            returned = returned.result
        if isinstance(returned, AgentRunResult):
            return api.plain_or_text(returned.output)
        try:
            return api.plain(returned) if self._log.has_flown else returned
        except api.NotPlain:
            return returned

    def close(self) -> None:
        """Close the objects made for the framework."""
        self._log.close()


instrumentation = AgentsInstrument


class _Conversation:
    """One session's conversation."""

    __slots__ = ("messages", "options", "waiting")

    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options
        self.messages: Any = options.pop("message_history", None)
        self.waiting: DeferredToolRequests | None = None
        """Tool calls that wait for approval, or for an external result; None if none do."""


class AgentPilot(api.FrameworkDriver):
    """Runs an agent: each message goes to it with the conversation."""

    name = "pydantic-ai"
    app_options = ("call", "run_options")

    def __init__(self, agent: Any, app: api.App, adapter_context: api.AdapterContext) -> None:
        """Raise FunctionMissing for an unknown way to run agents."""
        self._agent, self._adapter_context = agent, adapter_context
        self._entry = app.entry
        if agent.name is None:
            # The framework would infer this name from the variable that holds the agent.
            agent.name = app.entry.rpartition(":")[2].rpartition(".")[2]
        self._way = api.choose_method(app, WAYS)
        self._memory = api.SessionMemory(
            lambda turn: _Conversation(api.make_run_options(app, turn.session))
        )

    def facts(self, facts: api.PipelineFacts) -> api.PipelineFacts:
        """Add the agent, and that its dependencies are observed."""
        agents = {agent_runs.Names().of(self._agent): _facts_of(self._agent)}
        return msgspec.structs.replace(
            facts, agents={**agents, **facts.agents}, observes=(*facts.observes, "state")
        )

    def run_turn(self, turn: api.UserTurn) -> Any:
        """Run the agent with the conversation."""
        conversation = self._memory.of(turn)
        options = dict(conversation.options, message_history=conversation.messages)
        text: str | None = turn.text
        if turn.resumes:
            text, options["deferred_tool_results"] = None, self._decided(conversation, turn.value)
        try:
            result = self._adapter_context.caller.call(self._run, text, options)
        except AttributeError as problem:
            self._check_deps(problem, options)
            raise
        conversation.messages = result.all_messages()
        is_waiting = isinstance(result.output, DeferredToolRequests)
        conversation.waiting = result.output if is_waiting else None
        return None if is_waiting else api.plain_or_text(result.output)

    def _check_deps(self, problem: AttributeError, options: Mapping[str, Any]) -> None:
        """Raise FunctionMissing if an attribute is missing because no ``deps`` are given."""
        needed = self._agent.deps_type
        is_theirs = problem.name in (*dir(needed), *getattr(needed, "__annotations__", ()))
        if "deps" in options or problem.obj is not None or not is_theirs:
            return
        raise api.FunctionMissing(
            f"`{self._entry}` is run with `deps` of class `{needed.__name__}`, and none are given: "
            f"{problem}\n"
            "Name a function that returns them, `{'deps': …}`: `app: {run_options: "
            "module:function}`.",
            self._entry,
        ) from problem

    def _decided(self, conversation: _Conversation, value: Any) -> DeferredToolResults:
        """Return the results with which a run continues after its calls are decided."""
        waiting = conversation.waiting
        if waiting is None:
            raise self._adapter_context.asks_nothing("and no tool call waits for approval.")
        tools = {call.tool_name for call in (*waiting.approvals, *waiting.calls)}
        each = value if isinstance(value, dict) and value.keys() <= tools else {}
        return DeferredToolResults(
            approvals={
                approval.tool_call_id: _approval(each.get(approval.tool_name, value))
                for approval in waiting.approvals
            },
            calls={
                approval.tool_call_id: each.get(approval.tool_name, value)
                for approval in waiting.calls
            },
        )

    def _run(self, text: str | None, options: dict[str, Any]) -> Any:
        if self._way in ("run", "run_sync"):
            return getattr(self._agent, self._way)(text, **options)
        return _RUNS[self._way](self._agent, text, options)


def _approval(value: Any) -> bool | ToolApproved | ToolDenied:
    """Return a decision on a call: a truth value, or the fields of PydanticAI's own classes."""
    if isinstance(value, dict) and value.keys() == {"override_args"}:
        return ToolApproved(override_args=value["override_args"])
    if isinstance(value, dict) and value.keys() == {"message"}:
        return ToolDenied(value["message"])
    return bool(value)


async def _streamed(agent: Any, text: str | None, options: dict[str, Any]) -> Any:
    async with agent.run_stream(text, **options) as stream:
        await stream.get_output()
    return SimpleNamespace(output=stream.result.output, all_messages=stream.all_messages)


async def _events(agent: Any, text: str | None, options: dict[str, Any]) -> Any:
    async with agent.run_stream_events(text, **options) as stream:
        async for event in stream:
            if isinstance(event, AgentRunResultEvent):
                return event.result
    raise AssertionError("run_stream_events ended without a result")


async def _iterated(agent: Any, text: str | None, options: dict[str, Any]) -> Any:
    async with agent.iter(text, **options) as run:
        async for _ in run:
            pass
    return run.result


_RUNS: Final = {"run_stream": _streamed, "run_stream_events": _events, "iter": _iterated}


def _facts_of(agent: Any) -> api.AgentFacts:
    texts, functions = agent_runs.instructions_of(agent)
    aspects = [api.COMPUTED_PROMPT] if functions else []
    return api.AgentFacts(
        instructions="\n\n".join([*texts, *aspects]), tools=tuple(agent_runs.tools_of(agent))
    )
