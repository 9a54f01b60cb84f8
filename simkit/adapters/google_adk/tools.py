"""Tools of agents: answered by the scenario, or executed."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.transfer_to_agent_tool import TransferToAgentTool

from simkit.adapters.api import Replacement, Row, returned_by
from simkit.adapters.google_adk import compat
from simkit.adapters.google_adk.log import TRANSFER
from simkit.adapters.google_adk.places import open_call


def answered(kind: type, current_log: Callable[[], Any]) -> Iterator[Row]:
    """Yield replacements that let the scenario answer for tools of a class.

    The application's callbacks stay outside: they are called as always.
    """
    owner = next((cls for cls in kind.__mro__ if compat.RUN_TOOL in vars(cls)), None)
    if owner is not None:
        yield owner, compat.RUN_TOOL, lambda before: _stood_in_for(before, current_log)


def _stood_in_for(before: Replacement, current_log: Callable[[], Any]) -> Replacement:
    @functools.wraps(before)
    async def run_async(self: Any, *, args: dict[str, Any], tool_context: Any) -> Any:
        log = current_log()
        call = id(self), tool_context.function_call_id or ""
        is_transfer = isinstance(self, TransferToAgentTool) or self.name == TRANSFER
        if log is None or is_transfer or open_call.get() == call:
            return await before(self, args=args, tool_context=tool_context)
        outer = open_call.get()
        open_call.set(call)
        try:
            return await log.adapter_context.carry_out(
                self.name,
                args,
                call[1],
                lambda: before(self, args=args, tool_context=tool_context),
                _returns(self),
            )
        finally:
            open_call.set(outer)

    return run_async


def _returns(tool: Any) -> Any:
    """Return a tool's declared result: its function's annotation, or its agent."""
    if isinstance(tool, AgentTool):
        return getattr(tool.agent, "output_schema", None)
    return returned_by(
        tool.func if isinstance(tool, FunctionTool) else getattr(type(tool), compat.RUN_TOOL)
    )
