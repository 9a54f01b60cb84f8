"""Observation of a running graph: the events of its loop, and callbacks.

The configuration of a call is that of every graph inside it. simkit puts the receiver of events
there: so every event is observed at once, whichever method is called, whatever it streams, and in
every inner graph. The caller gets the same as always.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol, TypeAlias

from langgraph.errors import GraphInterrupt
from langgraph.pregel import Pregel

from simkit.adapters.api import ContextListeners, Installation, Replacement
from simkit.adapters.langgraph import compat
from simkit.adapters.langgraph.callbacks import HasCallbacks
from simkit.adapters.langgraph.callbacks import rows_for as rows_for_callbacks
from simkit.adapters.langgraph.filters import rows_for as rows_for_filters
from simkit.adapters.langgraph.loop_events import RECEIVER, Hear, LoopListener
from simkit.adapters.langgraph.loop_events import rows_for as rows_for_loops
from simkit.adapters.langgraph.routes import routed
from simkit.adapters.langgraph.shared import rows_for as rows_for_pools

End: TypeAlias = Callable[[BaseException | None], None]
"""Receives the end of a call of a graph, or its exception."""


class GraphListener(LoopListener, HasCallbacks, Protocol):
    """A listener for graphs; any thread may call it."""

    def run_began(self, graph: Pregel, within: tuple[str, ...]) -> tuple[Hear, End]:
        """Handle the call of an outermost graph; return receivers for its stream and its end.

        ``within`` is the namespace of the calling code, if it belongs to a node.
        """

    def place_of(self, problem: BaseException) -> int:
        """Return the index of an exception among those of nodes."""

    def routed(self, namespace: str, labels: Sequence[str], nodes: Sequence[str]) -> None:
        """Handle the choice of a conditional edge after the node of a namespace."""

    def narrowed(self, before: Any, after: Any, by: str) -> None:
        """Handle a filter that dropped messages; without a name it is middleware."""

    async def used_in_loop(self, tool: Any, args: dict[str, Any], real: Callable[[], Any]) -> Any:
        """Return the result of a tool's call that a task makes."""

    def used(self, tool: Any, args: dict[str, Any], real: Callable[[], Any]) -> Any:
        """Return the result of a tool's call, or an awaitable."""

    def stored(self, store: Any, operations: list[Any]) -> None:
        """Handle operations on a long-term store."""


_ears: Final = ContextListeners[GraphListener]("simkit_graphs")
current_listener = _ears.current


def heard_by(listener: GraphListener) -> AbstractContextManager[None]:
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


def _with_receiver(
    graph: Any, config: Any, listener: GraphListener | None
) -> tuple[Any, End | None]:
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
