"""Observation of a running graph: the events of its loop, its callbacks and its threads.

The configuration of a call is that of every graph inside it. simkit puts the receiver of events
there: so every event is observed at once, whichever method is called, whatever it streams, and in
every inner graph. The caller gets the same as always.

Tools and parallel chains run one by one here, so that their order is the same every time. A thread
that waits for another one continues after a while. Checkpointers and caches save at once, in the
thread of the graph: a save that takes its turn waits until the step is over, and a turn of a thread
costs more than most saves. Only the first one through an SQLite connection is made in LangGraph's
thread, because a connection may be for the thread that opened it alone.
"""

from __future__ import annotations

import sqlite3
from asyncio import _get_running_loop
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, wait
from contextlib import AbstractContextManager, contextmanager
from contextvars import copy_context
from functools import lru_cache, partial
from typing import Any, Final, TypeAlias, cast
from weakref import WeakSet

import msgspec
from langgraph.cache.base import BaseCache
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.errors import GraphBubbleUp, GraphInterrupt

from simkit.adapters import api
from simkit.adapters.langgraph import compat
from simkit.adapters.langgraph.filters import filter_rows
from simkit.adapters.langgraph.graphs import is_state
from simkit.adapters.langgraph.messages import callback_rows, listeners
from simkit.adapters.langgraph.routing import branch_ends


def thread_rows() -> list[api.Row]:
    """Return replacements that serialize threads while somebody observes."""
    executors: list[api.Row] = [(*slot, _in_step) for slot in compat.EXECUTORS]
    clients = ((*slot, _at_once) for slot in compat.client_threads())
    return [*executors, (*compat.IN_BACKGROUND, _save_at_once), *clients]


_SAVES: Final = (BaseCheckpointSaver, BaseCache, compat.loop_class)
"""The owners of the methods that LangGraph calls in the background to save something."""


@listeners.around
def _save_at_once(
    listener: Any, before: api.Replacement, self: Any, work: Any, *args: Any, **options: Any
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
        before, is_timed = self._before, api.threads_take_turns()
        work = partial(_after, before, work) if before is not None and is_timed else work
        future = self._before = self._executor.submit(work, *args, **kwargs)
        if not is_timed:
            wait([future], api.PATIENCE_S)
        return future

    def map(self, work: Any, *items: Any, **options: Any) -> Iterator[Any]:
        """Submit work for each item."""
        futures = [self.submit(work, *each) for each in zip(*items, strict=False)]
        return (future.result() for future in futures)


def _after(before: Future[Any], work: Any, *args: Any, **kwargs: Any) -> Any:
    api.wait_for_thread(before.done)
    return work(*args, **kwargs)


@listeners.around
async def _at_once(
    listener: Any, before: api.Replacement, pool: Any, work: Any, *args: Any, **kwargs: Any
) -> Any:
    return work(*args, **kwargs)


@listeners.around
@contextmanager
def _in_step(listener: Any, before: api.Replacement, config: Any) -> Iterator[Any]:
    with before(config) as executor:
        yield _InStep(executor)


TASKS, OUTPUT, SAVED = MODES = ("tasks", "values", "checkpoints")
"""The modes of streams in which a loop emits what simkit records: a task that begins or has ended,
a new output, and a checkpoint. Only tasks have a payload for simkit: to describe a checkpoint, as
its stream does, takes longer than all that simkit does at it."""
CHANNELS: Final = "channels"
"""The kind of simkit's own event: the values of channels (`ChannelValues`)."""
RECEIVER: Final = "__pregel_simkit_receiver"
"""The key of the receiver in the configuration; LangGraph hides keys with this beginning."""

Hear: TypeAlias = Callable[[tuple[str, ...], str, Any], None]
"""Receives an event of a loop: the namespace of its graph, the kind, and the payload."""
_STOPS: Final = {"interrupt_before": "before", "interrupt_after": "after"}


class ChannelValues(msgspec.Struct, frozen=True):
    """The channel values in one call of a graph."""

    channels: Mapping[str, Any]
    """The channels as the graph declares them."""
    values: Mapping[str, Any]
    output: Any
    """The graph's output; absent if the step has not changed it."""
    is_first: bool
    """The call begins."""


@listeners.around
def _suppress_interrupt(
    listener: Any, before: api.Replacement, self: Any, kind: Any, problem: Any, traceback: Any
) -> Any:
    where = _STOPS.get(self.status)
    if where and isinstance(problem, GraphInterrupt):
        nodes = [task.name for task in self.tasks.values()]
        listener.stopped(where, nodes, "|".join(self.checkpoint_ns))
    return before(self, kind, problem, traceback)


@listeners.around
def _reapply(listener: Any, before: api.Replacement, self: Any, tasks: Mapping[str, Any]) -> None:
    before(self, tasks)
    listener.looked_up(tasks, [name for name, task in tasks.items() if task.writes])


@listeners.around
def _output_writes(
    listener: Any, before: api.Replacement, self: Any, task_id: str,
    writes: Sequence[tuple[str, Any]], *, cached: bool = False,
) -> None:  # fmt: skip
    before(self, task_id, writes, cached=cached)
    task = self.tasks.get(task_id) if cached else None
    if task is not None:
        for result in compat.map_debug_task_results((task, writes), self.stream_keys):
            listener.known(result)


def _record_first_channels(before: api.Replacement) -> api.Replacement:
    def begin_loop(self: Any, **options: Any) -> Any:
        result = before(self, **options)
        _tell_channels(self, True)
        return result

    return begin_loop


def _record_channels_after_step(before: api.Replacement) -> api.Replacement:
    def after_tick(self: Any) -> None:
        try:
            before(self)
        except GraphInterrupt:  # The step is over all the same.
            _tell_channels(self, False)
            raise
        _tell_channels(self, False)

    return after_tick


def _record_events(before: api.Replacement) -> api.Replacement:
    def emit(self: Any, mode: str, values: Any, *args: Any, **options: Any) -> None:
        if mode in MODES and RECEIVER in (configured := self.config[compat.CONF]):
            hear: Hear = configured[RECEIVER]
            if mode == OUTPUT:
                self.simkit_has_output = True
            payloads = values(*args, **options) if mode == TASKS else _NO_PAYLOADS[mode]
            for payload in payloads:
                hear(self.checkpoint_ns, mode, payload)
        before(self, mode, values, *args, **options)

    return emit


_NO_PAYLOADS: Final[Mapping[str, Sequence[Any]]] = {OUTPUT: (), SAVED: (None,)}


def _tell_channels(loop: Any, is_first: bool) -> None:
    configured = loop.config[compat.CONF]
    if RECEIVER not in configured:
        return
    names, output = _names_of_state(tuple(loop.channels)), cast(Any, api.ABSENT)
    values = compat.read_channels(loop.channels, names)
    if "simkit_has_output" in loop.__dict__:
        del loop.simkit_has_output
        is_whole = loop.output_keys == names
        output = values if is_whole else compat.read_channels(loop.channels, loop.output_keys)
    state = ChannelValues(loop.specs, values, output, is_first)
    configured[RECEIVER](loop.checkpoint_ns, CHANNELS, state)


@lru_cache(maxsize=256)
def _names_of_state(channels: tuple[str, ...]) -> list[str]:
    return [name for name in channels if is_state(name)]


End: TypeAlias = Callable[[BaseException | None], None]
"""Receives the end of a call of a graph, or its exception."""


def heard_by(listener: Any) -> AbstractContextManager[None]:
    """Let a listener observe the graphs called in this context, and in what it starts."""
    return listeners.activate(listener, installation)


def namespace_now() -> str:
    """Return the namespace of the caller's node; empty outside nodes."""
    config = compat.var_child_runnable_config.get()
    if not config:
        return ""
    namespace = (config.get("metadata") or {}).get(compat.NAMESPACE)
    return str(namespace or config.get(compat.CONF, {}).get(compat.CONFIG_KEY_CHECKPOINT_NS) or "")


def _is_observed(graph: Any, config: Any) -> bool:
    """Return whether a call is part of an observed one: its configuration has the receiver."""
    around = compat.var_child_runnable_config.get()
    own = [part[compat.CONF] for part in (graph.config, config) if part and part.get(compat.CONF)]
    if around is not None and own:  # An own thread keeps the configuration from being inherited.
        own = [compat.ensure_config(graph.config, config)[compat.CONF]]
    elif around is not None:
        own = [around.get(compat.CONF) or {}]
    return any(RECEIVER in part for part in own)


def _with_receiver(listener: Any, graph: Any, config: Any) -> tuple[Any, End | None]:
    """Return a call's configuration with simkit's receiver, and the receiver of its end.

    The latter is None for a graph whose caller is observed already.
    """
    if _is_observed(graph, config):
        return config, None
    now = namespace_now()
    hear, end = listener.run_began(graph, tuple(now.split("|")) if now else ())
    config = config or {}
    configured = config.get(compat.CONF) or {}
    return {**config, compat.CONF: {**configured, RECEIVER: hear}}, end


@listeners.around
def _stream(
    listener: Any, before: api.Replacement, self: Any, input: Any, config: Any = None,
    **options: Any,
) -> Iterator[Any]:  # fmt: skip
    config, end = _with_receiver(listener, self, config)
    with _ending(end):
        yield from before(self, input, config, **options)


@listeners.around
async def _astream(
    listener: Any,
    before: api.Replacement,
    self: Any,
    input: Any,
    config: Any = None,
    **options: Any,
) -> AsyncIterator[Any]:
    config, end = _with_receiver(listener, self, config)
    with _ending(end):
        async for chunk in before(self, input, config, **options):
            yield chunk


@contextmanager
def _ending(end: End | None) -> Iterator[None]:
    """Report the end of a call of a graph, however it ends."""
    try:
        yield
    except BaseException as problem:
        if end is not None:
            end(problem)
        raise
    if end is not None:
        end(None)


@listeners.around
def _panic_or_proceed(listener: Any, before: api.Replacement, futs: Any, **options: Any) -> None:
    """Raise the one of several nodes' exceptions that came first."""
    ended = [future for future in futs if future.done() and not future.cancelled()]
    handled = options.get("handled_exception_ids") or (), options.get("handled_futures") or ()
    failed = [
        future
        for future in ended
        if future.exception() is not None
        and not isinstance(future.exception(), GraphInterrupt)
        and id(future.exception()) not in handled[0]
        and future not in handled[1]
    ]
    if len(failed) > 1:
        first = min(failed, key=lambda future: listener.place_of(future.exception()))
        before({first, *(future for future in futs if not future.done())}, **options)
    before(futs, **options)


installation: Final = api.Installation(
    lambda: [
        (*compat.STREAM, _stream),
        (*compat.ASTREAM, _astream),
        (*compat.PANIC, _panic_or_proceed),
        (*compat.BRANCH_ENDS, branch_ends),
        (*compat.LOOP_STOPS, _suppress_interrupt),
        (*compat.WRITES_ARE_SAVED, _reapply),
        (*compat.WRITES_ARE_KNOWN, _output_writes),
        (*compat.LOOP_BEGINS, _record_first_channels),
        (*compat.STEP_ENDS, _record_channels_after_step),
        (*compat.EMITS, _record_events),
        *callback_rows(),
        *filter_rows(),
        *thread_rows(),
    ]
)
"""The replacements in the framework, installed while a turn of some scenario runs."""
