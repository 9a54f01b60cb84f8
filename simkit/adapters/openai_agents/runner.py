"""Hooks into the SDK: its default runner, and its export of traces.

The replacements are for the whole process; the context decides which scenario's log gets a call.
"""

from __future__ import annotations

import functools
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, aclosing, contextmanager
from typing import Any, Final

import agents.run
from agents.lifecycle import RunHooksBase

from simkit.adapters.api import Installation, Replacement, Row, is_intercepted, keep_in_step
from simkit.adapters.openai_agents import compat
from simkit.adapters.openai_agents.agent_runs import (
    AgentRun,
    AgentRunLog,
    current_log,
    flight_now,
    inside,
    installation,
    told_to,
)
from simkit.adapters.openai_agents.filters import hear_filters, hear_nesting
from simkit.adapters.openai_agents.hooks import FlightHooks


def listening(log: AgentRunLog) -> AbstractContextManager[None]:
    """Report the SDK's actions in this context, and in what it starts, to a log."""
    return told_to(log, installation, _functions)


class _Runner(agents.run.AgentRunner):
    """The default runner, with simkit's hooks beside the caller's."""

    def __init__(self, before: Any) -> None:
        self._before = before

    async def run(self, starting_agent: Any, input: Any, **kwargs: Any) -> Any:
        """Run an agent, and those it hands off to."""
        log = current_log()
        if log is None:
            return await self._before.run(starting_agent, input, **kwargs)
        keep_in_step()
        with _flying(log, starting_agent, input, kwargs) as agent_run:
            result = await self._before.run(starting_agent, input, **kwargs)
            log.ended(agent_run, result)
            return result

    def run_sync(self, starting_agent: Any, input: Any, **kwargs: Any) -> Any:
        """Run an agent, for synchronous code."""
        log = current_log()
        if log is None:
            return self._before.run_sync(starting_agent, input, **kwargs)
        with _flying(log, starting_agent, input, kwargs) as agent_run:
            log.loops.lend()
            result = self._before.run_sync(starting_agent, input, **kwargs)
            log.ended(agent_run, result)
            return result

    def run_streamed(self, starting_agent: Any, input: Any, **kwargs: Any) -> Any:
        """Run an agent, streamed: it ends when its events are read."""
        log = current_log()
        if log is None:
            return self._before.run_streamed(starting_agent, input, **kwargs)
        with _flying(log, starting_agent, input, kwargs) as agent_run:
            # The task that starts here copies the context.
            result = self._before.run_streamed(starting_agent, input, **kwargs)
        _follow(log, agent_run, result)
        return result


@contextmanager
def _flying(log: AgentRunLog, agent: Any, input: Any, kwargs: dict[str, Any]) -> Iterator[AgentRun]:
    """Make code inside belong to a runner call, and add simkit's hooks to ``kwargs``."""
    agent_run = log.begin(flight_now(), agent, input, kwargs.get("context"))
    _hear_session(kwargs.get("session"))
    hear_filters(kwargs.get("run_config"))
    hooks = kwargs.get("hooks")
    if hooks is None or isinstance(hooks, RunHooksBase):
        kwargs["hooks"] = FlightHooks(log, agent_run, hooks)
    with inside(agent_run):
        try:
            yield agent_run
        except BaseException as problem:
            log.failed(agent_run, problem)
            raise


def _follow(log: AgentRunLog, agent_run: AgentRun, result: Any) -> None:
    events = result.stream_events

    async def stream_events() -> Any:
        try:
            async with aclosing(events()) as stream:
                async for event in stream:
                    yield event
        except GeneratorExit:
            # Unless it was cancelled, the SDK has run it to its end all the same.
            log.ended(agent_run, result)
            raise
        except BaseException as problem:
            log.failed(agent_run, problem)
            raise
        log.ended(agent_run, result)

    setattr(result, compat.STREAM_EVENTS, stream_events)


def _hear_session(session: Any) -> None:
    if session is not None and hasattr(session, "__dict__"):
        installation.replace(
            [
                (session, compat.GET_ITEMS, _read_of(session)),
                (session, compat.ADD_ITEMS, _write_of(session)),
            ]
        )


def _read_of(session: Any) -> Any:
    def wrapper(before: Replacement) -> Replacement:
        @functools.wraps(before)
        async def get_items(*args: Any, **kwargs: Any) -> Any:
            items = await before(*args, **kwargs)
            log = current_log()
            if log is not None:
                log.store_read(flight_now(), session)
            return items

        return get_items

    return wrapper


def _write_of(session: Any) -> Any:
    def wrapper(before: Replacement) -> Replacement:
        @functools.wraps(before)
        async def add_items(*args: Any, **kwargs: Any) -> Any:
            added = await before(*args, **kwargs)
            log = current_log()
            if log is not None:
                log.store_written(flight_now(), session)
            return added

        return add_items

    return wrapper


def _kept_here(before: Replacement) -> Replacement:
    """Wrap the export of traces: those of a scenario are not exported."""

    @functools.wraps(before)
    def tell(self: Any, item: Any) -> None:
        if not is_intercepted():
            before(self, item)

    return tell


silence: Final = Installation(
    lambda: ((*compat.TRACE_STARTS, _kept_here), (*compat.SPAN_ENDS, _kept_here))
)
"""Keeps traces from being exported, also those of tasks that outlive a turn."""


def _counted(before: Replacement) -> Replacement:
    """Wrap the random key for provider prompt caches, which is part of requests."""

    def uuid4() -> Any:
        log = current_log()
        return before() if log is None else uuid.UUID(int=log.next_number())

    return uuid4


def _wrap_run(before: Any) -> Any:
    return _Runner(before)


def _rows() -> Iterator[Row]:
    yield *compat.DEFAULT_RUNNER, _wrap_run
    yield *compat.RUN_KEYS, _counted
    yield *compat.NESTING, hear_nesting


_functions: Final = Installation(_rows)
"""The replacements that do not depend on the pipeline."""
