"""Tools of agents: answered by the scenario, or executed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from pydantic_ai import ToolDefinition, ToolReturn
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, ModelRetry, ToolFailed
from pydantic_ai.toolsets import WrapperToolset

from simkit.adapters.api import ToolFailure, plain_or_text
from simkit.adapters.pydantic_ai.agent_runs import AgentRunLog, current_log, flight_now

_RAISED: Final[dict[str, Callable[[str], Exception]]] = {
    "ModelRetry": ModelRetry,
    "ToolFailed": ToolFailed,
}
"""Exceptions of a tool for its model, by the beginning of a failure's text."""


@dataclass
class HeardToolset(WrapperToolset[Any]):
    """An agent's tools, except those for output, answered by the scenario."""

    async def get_tools(self, ctx: Any) -> dict[str, Any]:
        """Return the tools by their names."""
        tools, log = await super().get_tools(ctx), current_log()
        if log is not None:
            log.recorder.handoff_tools.see(tools)
        return tools

    async def call_tool(self, name: str, tool_args: dict[str, Any], ctx: Any, tool: Any) -> Any:
        """Execute a call, by the scenario or for real."""
        log, agent_run = current_log(), flight_now()
        real = super().call_tool
        if log is None or agent_run is None:
            return await real(name, tool_args, ctx, tool)
        try:
            if log.recorder.handoff_tools.target_of(name) is not None:
                return await real(name, tool_args, ctx, tool)
            return await _carried_out(
                log, tool.tool_def, tool_args, ctx, lambda: real(name, tool_args, ctx, tool)
            )
        finally:
            with log.writing():
                log.look(agent_run)


class _Put(BaseException):
    """A call was deferred: it has no answer and has not failed."""

    def __init__(self, problem: Exception) -> None:
        self.problem = problem


async def _carried_out(
    log: AgentRunLog, tool: ToolDefinition, args: dict[str, Any], ctx: Any, real: Callable[[], Any]
) -> Any:
    returned: list[Any] = []

    async def work() -> Any:
        try:
            returned.append(await real())
        except (ApprovalRequired, CallDeferred) as problem:
            raise _Put(problem) from None
        value = returned[0]
        return plain_or_text(value.return_value if isinstance(value, ToolReturn) else value)

    try:
        result = await log.use_tool(tool, args, ctx.tool_call_id or "", work)
        return returned[0] if returned else result
    except _Put as put:
        raise put.problem from None
    except ToolFailure as failure:
        kind, _, text = str(failure).partition(": ")
        if kind in _RAISED:
            raise _RAISED[kind](text) from None
        raise
