"""Threads of LangChain and LangGraph.

Tools and parallel chains run one by one here, so that their order is the same every time. A thread
that waits for another one continues after a while. Checkpointers and caches save at once, in the
thread of the graph: a save that takes its turn waits until the step is over, and a turn of a thread
costs more than most saves. Only the first one through an SQLite connection is made in LangGraph's
thread, because a connection may be for the thread that opened it alone.
"""

from __future__ import annotations

import sqlite3
from asyncio import _get_running_loop
from collections.abc import Iterator
from concurrent.futures import Executor, Future, wait
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial
from typing import Any, Final
from weakref import WeakSet

from langgraph.cache.base import BaseCache
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.errors import GraphBubbleUp

from simkit.adapters.api import PATIENCE_S, Replacement, Row, threads_take_turns, wait_for_thread
from simkit.adapters.langgraph import compat
from simkit.adapters.langgraph.callbacks import listeners


def rows() -> list[Row]:
    """Return replacements that serialize threads while somebody observes."""
    executors: list[Row] = [(*slot, _in_step) for slot in compat.EXECUTORS]
    clients = ((*slot, _at_once) for slot in compat.client_threads())
    return [*executors, (*compat.IN_BACKGROUND, _save_at_once), *clients]


_SAVES: Final = (BaseCheckpointSaver, BaseCache, compat.loop_class)
"""The owners of the methods that LangGraph calls in the background to save something."""


@listeners.around
def _save_at_once(
    listener: Any, before: Replacement, self: Any, work: Any, *args: Any, **options: Any
) -> Any:
    owner = getattr(work, "__self__", None)
    if options or not isinstance(owner, _SAVES):
        return before(self, work, *args, **options)
    if _get_running_loop() is not None:
        return before(self, work, *args)  # A save may run a loop of its own.
    future: Future[Any]
    if (saver := _untried(owner)) is not None:
        future = before(self, work, *args)
        if future.exception() is None:
            _TRIED.add(saver)
        return future
    future = Future()
    try:
        future.set_result(copy_context().run(work, *args))
    except KeyboardInterrupt:
        raise
    except BaseException as problem:
        future.set_exception(problem)
        if not isinstance(problem, GraphBubbleUp):
            self.tasks[future] = False, True  # It is raised when the graph ends.
    return future


_TRIED: Final = WeakSet[BaseCheckpointSaver[Any]]()
"""Checkpointers that have saved in LangGraph's thread."""


def _untried(owner: Any) -> BaseCheckpointSaver[Any] | None:
    """Return the checkpointer that saves, if it has not shown yet that it may do so anywhere."""
    saver = getattr(owner, "checkpointer", owner)
    if not isinstance(getattr(saver, "conn", None), sqlite3.Connection) or saver in _TRIED:
        return None
    return saver


class _InStep:
    """An executor that runs its work one by one, in order; while one sleeps, the next begins."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._before: Future[Any] | None = None

    def submit(self, work: Any, *args: Any, **kwargs: Any) -> Future[Any]:
        """Submit work; wait for it if threads do not take turns."""
        before, is_timed = self._before, threads_take_turns()
        work = partial(_after, before, work) if before is not None and is_timed else work
        future = self._before = self._executor.submit(work, *args, **kwargs)
        if not is_timed:
            wait([future], PATIENCE_S)
        return future

    def map(self, work: Any, *items: Any, **options: Any) -> Iterator[Any]:
        """Submit work for each item."""
        futures = [self.submit(work, *each) for each in zip(*items, strict=False)]
        return (future.result() for future in futures)


def _after(before: Future[Any], work: Any, *args: Any, **kwargs: Any) -> Any:
    wait_for_thread(before.done)
    return work(*args, **kwargs)


@listeners.around
async def _at_once(
    listener: Any, before: Replacement, pool: Any, work: Any, *args: Any, **kwargs: Any
) -> Any:
    return work(*args, **kwargs)


@listeners.around
@contextmanager
def _in_step(listener: Any, before: Replacement, config: Any) -> Iterator[Any]:
    with before(config) as executor:
        yield _InStep(executor)
