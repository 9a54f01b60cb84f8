"""Hooks of one runner call: each reports to the log, then calls the user's hooks."""

from __future__ import annotations

from typing import Any

from agents import FunctionTool, RunHooks

from simkit.adapters.api import keep_in_step
from simkit.adapters.openai_agents.agent_runs import AgentRun, AgentRunLog
from simkit.adapters.openai_agents.filters import hear_handoffs
from simkit.adapters.openai_agents.tools import answered, tool_began, tool_ended


class FlightHooks(RunHooks[Any]):
    """Hooks that the SDK calls, partly by keyword, so that the parameters have the base's names.

    They run in tasks of their own: a context variable that they set would be lost.
    """

    def __init__(self, log: AgentRunLog, agent_run: AgentRun, inner: RunHooks[Any] | None) -> None:
        self._log, self._agent_run = log, agent_run
        self._inner: RunHooks[Any] = inner or RunHooks()

    async def on_agent_start(self, context: Any, agent: Any) -> None:
        """Record an agent's start."""
        self._log.agent_started(self._agent_run, agent)
        await self._inner.on_agent_start(context, agent)

    async def on_llm_start(
        self, context: Any, agent: Any, system_prompt: str | None, input_items: Any
    ) -> None:
        """Record its model call."""
        keep_in_step()
        self._log.asks(self._agent_run, agent)
        answered(agent.tools)
        hear_handoffs(agent.handoffs)
        await self._inner.on_llm_start(context, agent, system_prompt, input_items)

    async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
        """Do nothing: HTTP has shown the answer."""
        await self._inner.on_llm_end(context, agent, response)

    async def on_agent_end(self, context: Any, agent: Any, output: Any) -> None:
        """Record the agent's final output."""
        self._log.agent_ended(self._agent_run, output)
        await self._inner.on_agent_end(context, agent, output)

    async def on_handoff(self, context: Any, from_agent: Any, to_agent: Any) -> None:
        """Record a handoff, with the changes of its ``on_handoff``."""
        self._log.handed_off(self._agent_run, to_agent)
        await self._inner.on_handoff(context=context, from_agent=from_agent, to_agent=to_agent)

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        """Record the start of a tool that runs here; hosted tools do not."""
        if isinstance(tool, FunctionTool):
            answered([tool])
        else:
            tool_began(self._log, self._agent_run, tool)
        await self._inner.on_tool_start(context, agent, tool)

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
        """Record a tool's result."""
        if not isinstance(tool, FunctionTool):
            tool_ended(self._log, self._agent_run, tool, result)
        with self._log.writing():
            self._log.look(self._agent_run)
        await self._inner.on_tool_end(context, agent, tool, result)
