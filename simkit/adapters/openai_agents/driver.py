"""The OpenAI Agents SDK: agents, and code that runs agents.

Calls of ``Runner.run``, ``run_sync`` and ``run_streamed`` are observed wherever a pipeline makes
them. For a pipeline that is an ``Agent``, simkit keeps each session's conversation, as its users
would.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from typing import Any, Final

import agents
import msgspec
from agents.exceptions import AgentsException
from agents.result import RunResultBase

from simkit.adapters import api
from simkit.adapters.openai_agents.agent_runs import AgentRunLog, Names, flight_now, reachable
from simkit.adapters.openai_agents.runner import listening, silence

WAYS: Final = ("run", "run_sync", "run_streamed")
"""Ways to run an agent: ``app: {call: …}``."""


def driver(subject: Any, app: api.App, adapter_context: api.AdapterContext) -> AgentPilot | None:
    """Return the driver for an agent; None for anything else."""
    return AgentPilot(subject, app, adapter_context) if isinstance(subject, agents.Agent) else None


class AgentsInstrument(api.Instrumentation):
    """Observes every call of ``Runner.run``."""

    observes = ("filters",)

    def __init__(self, adapter_context: api.AdapterContext) -> None:
        self._log = AgentRunLog(adapter_context)
        self._silence = ExitStack()
        self._silence.enter_context(silence)

    def at_work(self) -> AbstractContextManager[None]:
        """Observe the SDK in this context."""
        self._log.clear()
        return listening(self._log)

    def run_now(self) -> api.Run | None:
        """Return the run of the agent around this code."""
        agent_run = flight_now()
        return agent_run.run if agent_run is not None else None

    def failure(self, problem: Exception) -> api.PipelineError | None:
        """Return the SDK's exceptions under their own names."""
        if isinstance(problem, AgentsException):
            return api.FrameworkFailed(str(problem), type(problem).__name__)
        return None

    def reply(self, returned: Any) -> Any:
        """Return the reply in a result that the pipeline returns as it is."""
        is_result = isinstance(returned, RunResultBase)
        return api.plain_or_text(returned.final_output) if is_result else returned

    def close(self) -> None:
        """Close the objects made for the SDK."""
        with self._silence:
            self._log.loops.close()


instrumentation = AgentsInstrument


@dataclass(slots=True)
class _Conversation:
    """One session's conversation."""

    agent: Any
    options: dict[str, Any]
    items: list[Any] = field(default_factory=list)
    waiting: Any = None
    """The result whose tool calls wait for approval; None if none do."""

    def decided(self, approves: bool) -> Any:
        """Return the state with which a run continues after its calls are approved or rejected."""
        state = self.waiting.to_state()
        for item in self.waiting.interruptions:
            (state.approve if approves else state.reject)(item)
        return state


class AgentPilot(api.FrameworkDriver):
    """Runs an agent: the next message goes to the agent that answered the last one."""

    name = "openai-agents"
    app_options = ("call", "run_options")

    def __init__(self, agent: Any, app: api.App, adapter_context: api.AdapterContext) -> None:
        """Raise FunctionMissing for an unknown way to run agents."""
        self._agent, self._adapter_context = agent, adapter_context
        self._way = api.choose_method(app, WAYS)
        self._memory = api.SessionMemory(
            lambda turn: _Conversation(agent, api.make_run_options(app, turn.session))
        )

    def facts(self, facts: api.PipelineFacts) -> api.PipelineFacts:
        """Add the agents that handoffs can reach, and that their context is observed."""
        names = Names(self._adapter_context.recorder.handoff_tools.ruled)
        names.meet(self._agent)
        agents = {names.of(agent): _facts_of(agent, names) for agent in reachable(self._agent)}
        return msgspec.structs.replace(
            facts, agents={**agents, **facts.agents}, observes=(*facts.observes, "state")
        )

    def run_turn(self, turn: api.UserTurn) -> Any:
        """Run the current agent with the conversation."""
        conversation = self._memory.of(turn)
        result = self._adapter_context.caller.call(
            self._run, conversation, self._input_of(conversation, turn)
        )
        conversation.agent = result.last_agent
        conversation.items = result.to_input_list(mode="normalized")
        conversation.waiting = result if result.interruptions else None
        return api.plain_or_text(result.final_output)

    def _input_of(self, conversation: _Conversation, turn: api.UserTurn) -> Any:
        """Return the agent's input: a message with the conversation, or a decision."""
        if turn.resumes:
            if conversation.waiting is None:
                raise self._adapter_context.asks_nothing("and no tool call waits for approval.")
            return conversation.decided(bool(turn.value))
        if "session" in conversation.options:
            return turn.text
        return [*conversation.items, {"role": "user", "content": turn.text}]

    def _run(self, conversation: _Conversation, input: Any) -> Any:
        if self._way == "run_streamed":
            return _streamed(conversation, input)
        return getattr(agents.Runner, self._way)(conversation.agent, input, **conversation.options)


async def _streamed(conversation: _Conversation, input: Any) -> Any:
    result = agents.Runner.run_streamed(conversation.agent, input, **conversation.options)
    async for _ in result.stream_events():
        pass
    return result


def _facts_of(agent: Any, names: Names) -> api.AgentFacts:
    instructions = agent.instructions
    return api.AgentFacts(
        instructions=api.COMPUTED_PROMPT if callable(instructions) else instructions or "",
        tools=tuple(tool.name for tool in agent.tools),
        handoffs=tuple(names.handoffs_of(agent).values()),
    )
