"""Observation of a running graph: the events of its loop, and callbacks.

The configuration of a call is that of every graph inside it. simkit puts the receiver of events
there: so every event is observed at once, whichever method is called, whatever it streams, and in
every inner graph. The caller gets the same as always.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any, Final, TypeAlias, cast

import msgspec
from langgraph.errors import EmptyChannelError, GraphInterrupt

from simkit.adapters.api import ABSENT, ContextListeners, Installation, Replacement, Row
from simkit.adapters.langgraph import compat
from simkit.adapters.langgraph.callbacks import rows_for as rows_for_callbacks
from simkit.adapters.langgraph.channels import is_state
from simkit.adapters.langgraph.filters import rows_for as rows_for_filters
from simkit.adapters.langgraph.routing import routed
from simkit.adapters.langgraph.shared import rows_for as rows_for_pools

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


Wrapper: TypeAlias = Callable[[Replacement], Replacement]


def rows_for_loops(hears: Callable[[], Any]) -> list[Row]:
    """Return the replacements that call the listener. Values of channels go to streams."""
    return [
        (*compat.LOOP_STOPS, _stopped(hears)),
        (*compat.WRITES_ARE_SAVED, _saved(hears)),
        (*compat.WRITES_ARE_KNOWN, _known(hears)),
        (*compat.LOOP_BEGINS, _record_first_channels),
        (*compat.STEP_ENDS, _record_channels_after_step),
        (*compat.EMITS, _record_events),
    ]


def _stopped(hears: Callable[[], Any]) -> Wrapper:
    def wrapper(before: Replacement) -> Replacement:
        def suppress_interrupt(self: Any, kind: Any, problem: Any, traceback: Any) -> bool | None:
            hearer, where = hears(), _STOPS.get(self.status)
            if hearer is not None and where and isinstance(problem, GraphInterrupt):
                nodes = [task.name for task in self.tasks.values()]
                hearer.stopped(where, nodes, "|".join(self.checkpoint_ns))
            is_suppressed: bool | None = before(self, kind, problem, traceback)
            return is_suppressed

        return suppress_interrupt

    return wrapper


def _saved(hears: Callable[[], Any]) -> Wrapper:
    def wrapper(before: Replacement) -> Replacement:
        def reapply(self: Any, tasks: Mapping[str, Any]) -> None:
            before(self, tasks)
            hearer = hears()
            if hearer is not None:
                hearer.looked_up(tasks, [name for name, task in tasks.items() if task.writes])

        return reapply

    return wrapper


def _known(hears: Callable[[], Any]) -> Wrapper:
    def wrapper(before: Replacement) -> Replacement:
        def output_writes(
            self: Any, task_id: str, writes: Sequence[tuple[str, Any]], *, cached: bool = False
        ) -> None:
            before(self, task_id, writes, cached=cached)
            if not cached:
                return
            hearer, task = hears(), self.tasks.get(task_id)
            if hearer is not None and task is not None:
                for result in compat.map_debug_task_results((task, writes), self.stream_keys):
                    hearer.known(result)

        return output_writes

    return wrapper


def _record_first_channels(before: Replacement) -> Replacement:
    def begin_loop(self: Any, **options: Any) -> Any:
        result = before(self, **options)
        _tell_channels(self, True)
        return result

    return begin_loop


def _record_channels_after_step(before: Replacement) -> Replacement:
    def after_tick(self: Any) -> None:
        try:
            before(self)
        except GraphInterrupt:  # The step is over all the same.
            _tell_channels(self, False)
            raise
        _tell_channels(self, False)

    return after_tick


def _record_events(before: Replacement) -> Replacement:
    def emit(self: Any, mode: str, values: Any, *args: Any, **options: Any) -> None:
        if mode in MODES and RECEIVER in (configured := self.config[compat.CONF]):
            hear: Hear = configured[RECEIVER]
            if mode == OUTPUT:
                self.simkit_has_output = True
            if mode != TASKS:
                payloads = _NOTHING[mode]
            elif values is compat.map_debug_tasks:
                payloads = _payloads_of(*args)
            elif values is compat.map_debug_task_results:
                payloads = _results_of(*args)
            else:
                payloads = values(*args, **options)
            for payload in payloads:
                hear(self.checkpoint_ns, mode, payload)
        before(self, mode, values, *args, **options)

    return emit


_NOTHING: Final[Mapping[str, Sequence[Any]]] = {OUTPUT: (), SAVED: (None,)}


def _payloads_of(tasks: Iterable[Any]) -> list[Mapping[str, Any]]:
    """Return the payloads of tasks that begin, as the stream's but for their metadata."""
    payloads: list[Mapping[str, Any]] = []
    for task in tasks:
        config = task.config or _NO_CONFIG
        if "tags" in config and config["tags"] and compat.TAG_HIDDEN in config["tags"]:
            continue
        payloads += [
            {
                "id": task.id,
                "name": task.name,
                "input": task.input,
                "triggers": task.triggers,
                "metadata": config["metadata"] if "metadata" in config else None,
            }
        ]
    return payloads


def _results_of(
    ended: tuple[Any, Sequence[tuple[str, Any]]], stream_keys: str | Sequence[str]
) -> Sequence[Mapping[str, Any]]:
    """Return the payload of a task that has ended, as the stream's.

    LangGraph makes those of errors, of questions, and of several writes to one channel.
    """
    task, writes = ended
    channels = (stream_keys,) if isinstance(stream_keys, str) else stream_keys
    result: dict[str, Any] = {}
    for channel, value in writes:
        if channel in _UNUSUAL or channel in result:
            return [*compat.map_debug_task_results(ended, stream_keys)]
        if channel in channels or channel == compat.RETURN:
            result[channel] = value
    done = {"id": task.id, "name": task.name, "error": None, "result": result, "interrupts": ()}
    return (done,)


_UNUSUAL: Final = (compat.ERROR, compat.INTERRUPT)


_NO_CONFIG: Final[Mapping[str, Any]] = {}


def _tell_channels(loop: Any, is_first: bool) -> None:
    configured = loop.config[compat.CONF]
    if RECEIVER not in configured:
        return
    names, output = _names_of_state(tuple(loop.channels)), cast(Any, ABSENT)
    values = _values_of(loop.channels, names)
    if "simkit_has_output" in loop.__dict__:
        del loop.simkit_has_output
        is_whole = loop.output_keys == names
        output = values if is_whole else compat.read_channels(loop.channels, loop.output_keys)
    state = ChannelValues(loop.specs, values, output, is_first)
    configured[RECEIVER](loop.checkpoint_ns, CHANNELS, state)


def _values_of(channels: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return the values of channels that are not empty."""
    values: dict[str, Any] = {}
    for name in names:
        try:
            values[name] = channels[name].get()
        except EmptyChannelError:
            continue
    return values


@lru_cache(maxsize=256)
def _names_of_state(channels: tuple[str, ...]) -> list[str]:
    return [name for name in channels if is_state(name)]


End: TypeAlias = Callable[[BaseException | None], None]
"""Receives the end of a call of a graph, or its exception."""


_ears: Final = ContextListeners[Any]("simkit_graphs")
current_listener = _ears.current


def heard_by(listener: Any) -> AbstractContextManager[None]:
    """Let a listener observe the graphs called in this context, and in what it starts."""
    return _ears.activate(listener, installation)


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


def _with_receiver(graph: Any, config: Any, listener: Any) -> tuple[Any, End | None]:
    """Return a call's configuration with simkit's receiver, and the receiver of its end.

    The latter is None for a graph whose caller is observed already.
    """
    if listener is None or _is_observed(graph, config):
        return config, None
    now = namespace_now()
    hear, end = listener.run_began(graph, tuple(now.split("|")) if now else ())
    config = config or {}
    configured = config.get(compat.CONF) or {}
    return {**config, compat.CONF: {**configured, RECEIVER: hear}}, end


def _wrap(before: Replacement) -> Replacement:
    def stream(self: Any, input: Any, config: Any = None, **options: Any) -> Iterator[Any]:
        config, end = _with_receiver(self, config, current_listener())
        if end is None:
            yield from before(self, input, config, **options)
            return
        try:
            yield from before(self, input, config, **options)
        except BaseException as problem:
            end(problem)
            raise
        end(None)

    return stream


def _heard_async(before: Replacement) -> Replacement:
    async def astream(self: Any, input: Any, config: Any = None, **options: Any) -> Any:
        config, end = _with_receiver(self, config, current_listener())
        try:
            async for chunk in before(self, input, config, **options):
                yield chunk
        except BaseException as problem:
            if end is not None:
                end(problem)
            raise
        if end is not None:
            end(None)

    return astream


def _first(before: Replacement) -> Replacement:
    """Wrap the choice among several nodes' exceptions: raise the one that came first."""

    def panic_or_proceed(futs: Any, **options: Any) -> None:
        listener = current_listener()
        ended = [future for future in futs if future.done() and not future.cancelled()]
        known = options.get("handled_exception_ids") or (), options.get("handled_futures") or ()
        failed = [
            future
            for future in ended
            if future.exception() is not None
            and not isinstance(future.exception(), GraphInterrupt)
            and id(future.exception()) not in known[0]
            and future not in known[1]
        ]
        if listener is not None and len(failed) > 1:
            first = min(failed, key=lambda future: listener.place_of(future.exception()))
            before({first, *(future for future in futs if not future.done())}, **options)
        before(futs, **options)

    return panic_or_proceed


def _narrowed() -> Callable[[Any, Any, str], None] | None:
    listener = current_listener()
    return listener.narrowed if listener is not None else None


installation: Final = Installation(
    lambda: [
        (*compat.STREAM, _wrap),
        (*compat.ASTREAM, _heard_async),
        (*compat.PANIC, _first),
        (*compat.BRANCH_ENDS, routed(current_listener)),
        *rows_for_callbacks(_ears),
        *rows_for_filters(_narrowed),
        *rows_for_loops(current_listener),
        *rows_for_pools(current_listener),
    ]
)
"""The replacements in the framework, installed while a turn of some scenario runs."""
