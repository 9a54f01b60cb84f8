"""Steps of pydantic-graph as agent runs, except those inside agents."""

from __future__ import annotations

import asyncio
import functools
from typing import Any, Final

from simkit.adapters.api import Replacement, plain_or_text
from simkit.adapters.pydantic_ai.agent_runs import AgentRunLog, current_log, flight_now, inside

STATE: Final = "state"
"""The channel of a graph's state without fields."""
DEPS: Final = "deps"
"""The channel of dependencies without fields."""


def wrap_run(before: Any) -> Any:
    """Replace the property that gives a graph the function of a step."""

    def call(self: Any) -> Any:
        function = before.fget(self)
        log = current_log()
        return function if log is None else _with_step(log, self, function)

    return property(call)


def _with_step(log: AgentRunLog, step: Any, function: Replacement) -> Replacement:
    # A graph that is built meanwhile reads the function's annotations.
    @functools.wraps(function)
    async def run(ctx: Any) -> Any:
        if type(ctx.state).__module__.startswith("pydantic_ai."):
            return await function(ctx)
        holders = ((ctx.state, STATE), (ctx.deps, DEPS))
        agent_run = log.begin(flight_now(), _name_of(step), _input_of(ctx), holders)
        with inside(agent_run):
            try:
                await asyncio.sleep(0)
                log.started(agent_run)
                result = await function(ctx)
            except BaseException as problem:
                log.failed(agent_run, log.halted(problem))
                raise
            log.ended(agent_run, _output_of(result))
            return result

    return run


def _name_of(step: Any) -> str:
    return str(step.label or step.id)


def _input_of(ctx: Any) -> Any:
    """Return a step's input; of a node, its fields."""
    return plain_or_text(getattr(ctx, "inputs", None))


def _output_of(result: Any) -> Any:
    """Return a step's output: the value of an end, or the next node."""
    return result.data if type(result).__name__ == "End" else result
