"""The capability that simkit adds to each run of an agent, to observe it."""

from __future__ import annotations

from typing import Any

from pydantic_ai.capabilities import CapabilityOrdering
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.test import TestModel

from simkit.adapters.api import keep_in_step, let_others_begin, plain_or_text
from simkit.adapters.pydantic_ai import compat
from simkit.adapters.pydantic_ai.agent_runs import (
    AgentRun,
    AgentRunLog,
    Leaving,
    installation,
    leaving,
)
from simkit.adapters.pydantic_ai.filters import rows_for
from simkit.adapters.pydantic_ai.messages import args_of, sent_by
from simkit.adapters.pydantic_ai.tools import HeardToolset


class ObservingCapability(compat.SafeCapability):
    """A capability that reports one run to a log and changes nothing.

    It is the innermost capability, so that it sees the results of the application's own ones.
    """

    def __init__(self, log: AgentRunLog, agent_run: AgentRun) -> None:
        self._log, self._agent_run = log, agent_run

    def get_ordering(self) -> CapabilityOrdering:
        """Return the innermost place."""
        return CapabilityOrdering(position="innermost")

    def get_wrapper_toolset(self, toolset: Any) -> Any:
        """Let the scenario answer for the agent's tools."""
        return HeardToolset(toolset)

    async def wrap_run(self, ctx: Any, *, handler: Any) -> Any:
        """Record the run."""
        keep_in_step()
        await let_others_begin()
        installation.replace(rows_for(ctx.capabilities.values()))
        self._log.started(self._agent_run)
        return await handler()

    async def before_model_request(self, ctx: Any, request_context: Any) -> Any:
        """Handle a model call, with the offered tools for output."""
        parameters = request_context.model_request_parameters
        tools = tuple(tool.name for tool in parameters.output_tools)
        self._log.asks(self._agent_run, request_context.messages, tools)
        return request_context

    async def after_model_request(self, ctx: Any, *, request_context: Any, response: Any) -> Any:
        """Handle its answer, which is reported here if it did not use HTTP."""
        if _is_off_the_wire(request_context.model):
            parameters = request_context.model_request_parameters
            tools = [tool.name for tool in (*parameters.function_tools, *parameters.output_tools)]
            name = request_context.model.model_name
            self._log.answered(self._agent_run, sent_by(request_context), tools, name, response)
        return response

    async def wrap_output_process(
        self, ctx: Any, *, output_context: Any, output: Any, handler: Any
    ) -> Any:
        """Record that agents inside an output function take over."""
        if not output_context.has_function:
            return await handler(output)
        call = output_context.tool_call
        payload = args_of(call.args) if call is not None else plain_or_text(output)
        call_id = call.tool_call_id if call is not None else ""
        with leaving(Leaving(self._agent_run, payload, call_id)):
            return await handler(output)


def _is_off_the_wire(model: Any) -> bool:
    while hasattr(model, "wrapped"):
        model = model.wrapped
    is_users = not type(model).__module__.startswith("pydantic_ai.")
    return is_users or isinstance(model, (TestModel, FunctionModel))
