"""Hooks into runs of agents and graphs, wherever a pipeline makes them.

The replacements are for the whole process; the context decides which scenario's log gets a run.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from pydantic_ai import Agent

from simkit.adapters.api import Installation, Replacement, Row
from simkit.adapters.pydantic_ai import compat, graphs
from simkit.adapters.pydantic_ai.agent_runs import (
    AgentRun,
    AgentRunLog,
    current_log,
    flight_now,
    inside,
    installation,
    leaving_now,
    told_to,
)
from simkit.adapters.pydantic_ai.capability import ObservingCapability
from simkit.adapters.pydantic_ai.messages import text_of


class Listening:
    """A context in which, and in what it starts, agents and graphs are reported to a log.

    Every turn enters one, so it is a class.
    """

    __slots__ = ("_active", "_executor")

    def __init__(self, log: AgentRunLog) -> None:
        self._active = told_to(log, installation, _functions)
        self._executor = Agent.using_thread_executor(log.threads)

    def __enter__(self) -> None:
        self._active.__enter__()
        try:
            self._executor.__enter__()
        except BaseException:
            self._active.__exit__(*sys.exc_info())
            raise

    def __exit__(self, *problem: Any) -> None:
        try:
            self._executor.__exit__(*problem)
        finally:
            self._active.__exit__(*problem)


def _wrap_run(before: Replacement) -> Replacement:
    """Wrap ``Agent.iter``, which runs, streams and iterations all use."""

    @functools.wraps(before)
    @asynccontextmanager
    async def iter(self: Any, user_prompt: Any = None, **kwargs: Any) -> AsyncIterator[Any]:
        log = current_log()
        if log is None:
            async with before(self, user_prompt, **kwargs) as run:
                yield run
            return
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

    return iter


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
    holders = ((kwargs.get("deps"), graphs.DEPS),)
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


def _lent(before: Replacement) -> Replacement:
    """Wrap ``run_sync`` with an event loop that ends with the scenario."""

    @functools.wraps(before)
    def get_event_loop() -> Any:
        log = current_log()
        if log is not None:
            log.loops.lend()
        return before()

    return get_event_loop


def _allowed(before: Any) -> Any:
    """Wrap the ban on real requests: the scenario answers them here."""
    return True


def _rows() -> Iterator[Row]:
    yield *compat.ITER, _wrap_run
    yield *compat.RUN, _named
    yield *compat.STEP_CALL, graphs.wrap_run
    yield *compat.MODEL_REQUESTS, _allowed
    yield from ((*slot, _lent) for slot in compat.EVENT_LOOPS)


_functions: Final = Installation(_rows)
"""The replacements that do not depend on the pipeline."""
