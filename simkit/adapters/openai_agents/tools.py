"""Tools of agents: answered by the scenario, or executed."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import msgspec
from agents import FunctionTool
from agents.tool_context import ToolContext

from simkit.adapters.api import Replacement, Row, plain_or_text, returned_by
from simkit.adapters.openai_agents import compat
from simkit.adapters.openai_agents.agent_runs import (
    AgentRun,
    AgentRunLog,
    current_log,
    installation,
)


def answered(tools: Iterable[Any]) -> None:
    """Let the scenario answer for tools that are functions.

    A tool made from a function keeps its handling of failures: only the innermost call, of the
    function itself, is replaced.
    """
    installation.replace([_row(tool) for tool in tools if isinstance(tool, FunctionTool)])


def _row(tool: FunctionTool) -> Row:
    invoke: Any = tool.on_invoke_tool
    inner = getattr(invoke, "__dict__", {}).get(compat.INVOKE_TOOL)
    if inner is not None:
        returns = returned_by(getattr(inner, compat.WRAPPED_CALLABLE, None))
        return invoke, compat.INVOKE_TOOL, functools.partial(_stood_in_for, returns)
    return tool, compat.ON_INVOKE_TOOL, functools.partial(_stood_in_for, returned_by(invoke))


def _stood_in_for(returns: Any, before: Replacement) -> Replacement:
    @functools.wraps(before)
    async def invoke(context: ToolContext[Any], arguments: str) -> Any:
        log = current_log()
        if log is None:
            return await before(context, arguments)
        return await _carried_out(log, context, arguments, before, returns)

    return invoke


async def _carried_out(
    log: AgentRunLog, context: ToolContext[Any], arguments: str, before: Replacement, returns: Any
) -> Any:
    unread = object()
    args: Any = unread
    with suppress(msgspec.DecodeError):
        args = msgspec.json.decode(arguments) if arguments else {}
    if args is unread:
        # The tool itself reports the error.
        return await before(context, arguments)
    name, call_id = context.tool_name, context.tool_call_id
    return await log.adapter_context.carry_out(
        name, args, call_id, lambda: before(context, arguments), returns
    )


def tool_began(log: AgentRunLog, agent_run: AgentRun, tool: Any) -> None:
    """Record the start of a tool that is no function: a shell, a computer."""
    with log.writing():
        agent_run.open_tools[id(tool)] = request = log.recorder.called_by_code(
            tool.name, None, agent_run.run
        )
        log.recorder.tool_called(request)


def tool_ended(log: AgentRunLog, agent_run: AgentRun, tool: Any, result: Any) -> None:
    """Record a tool's result."""
    request = agent_run.open_tools.pop(id(tool), None)
    if request is not None:
        with log.writing():
            log.recorder.tool_answered(request, plain_or_text(result))
