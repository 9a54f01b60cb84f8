"""Hooks into runs of agents and graphs, wherever a pipeline makes them.

The replacements are for the whole process; the context decides which scenario's log gets a run.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final

from pydantic_ai import Agent

from simkit.adapters.api import Installation, Replacement, Row, plain_or_text
from simkit.adapters.pydantic_ai import compat
from simkit.adapters.pydantic_ai.agent_runs import (
    AgentRun,
    AgentRunLog,
    current_log,
    flight_now,
    inside,
    installation,
    leaving_now,
    listeners,
)
from simkit.adapters.pydantic_ai.capability import ObservingCapability
from simkit.adapters.pydantic_ai.messages import text_of


@contextmanager
def listening(log: AgentRunLog) -> Iterator[None]:
    """Report agents and graphs in this context, and in what it starts, to a log."""
    with (
        listeners.activate(log, installation, _functions),
        Agent.using_thread_executor(log.threads),
    ):
        yield


@listeners.around
@asynccontextmanager
async def _iterate(
    log: AgentRunLog, before: Replacement, self: Any, user_prompt: Any = None, **kwargs: Any
) -> AsyncIterator[Any]:
    """Wrap ``Agent.iter``, which runs, streams and iterations all use."""
    agent_run = _begin_run(log, self, user_prompt, kwargs)
    kwargs["capabilities"] = [
        *(kwargs.get("capabilities") or ()),
        ObservingCapability(log, agent_run),
    ]
    with inside(agent_run):
        try:
            async with before(self, user_prompt, **kwargs) as run:
                yield run
        except BaseException as problem:
            cause = log.halted(problem)
            log.failed(agent_run, cause)
            if cause is not problem:
                raise cause from None
            raise
        _end(log, agent_run, run)


def _named(before: Replacement) -> Replacement:
    """Record the holder of an agent at its call: its coroutine may run in a task."""

    @functools.wraps(before)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        log = current_log()
        if log is not None:
            log.names.hold(self)
        return before(self, *args, **kwargs)

    return run


def _begin_run(log: AgentRunLog, agent: Any, prompt: Any, kwargs: dict[str, Any]) -> AgentRun:
    holders = ((kwargs.get("deps"), DEPS),)
    text = _words_of(prompt)
    return log.begin(flight_now(), log.names.of(agent), text, holders, leaving_now())


def _words_of(prompt: str | Sequence[Any] | None) -> str | None:
    return None if prompt is None else text_of(prompt)


def _end(log: AgentRunLog, agent_run: AgentRun, run: Any) -> None:
    result = run.result
    if result is None:  # The reader has left the iteration, or the stream.
        log.failed(agent_run, GeneratorExit())
        return
    log.settled(agent_run, result.all_messages())
    log.ended(agent_run, result.output)


@listeners.around
def _lent(log: AgentRunLog, before: Replacement) -> Any:
    """Wrap ``run_sync`` with an event loop that ends with the scenario."""
    log.loops.lend()
    return before()


def _allowed(before: Any) -> Any:
    """Wrap the ban on real requests: the scenario answers them here."""
    return True


def _rows() -> Iterator[Row]:
    yield *compat.ITER, _iterate
    yield *compat.RUN, _named
    yield *compat.STEP_CALL, wrap_step
    yield *compat.MODEL_REQUESTS, _allowed
    yield from ((*slot, _lent) for slot in compat.EVENT_LOOPS)


_functions: Final = Installation(_rows)
"""The replacements that do not depend on the pipeline."""


STATE: Final = "state"
"""The channel of a graph's state without fields."""
DEPS: Final = "deps"
"""The channel of dependencies without fields."""


def wrap_step(before: Any) -> Any:
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
