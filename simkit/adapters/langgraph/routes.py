"""Routes: a graph's edges, and the choices of its conditional ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from langgraph.graph import END, START
from langgraph.pregel import Pregel
from langgraph.types import Send

from simkit.adapters.api import Replacement, Run, TraceRecorder
from simkit.adapters.langgraph import compat

ReportRoute = Callable[[str, Sequence[str], Sequence[str]], None]
"""Receives a choice: the namespace of the code, the labels, their nodes."""
_ENDS: Final = (START, END)


def edges_of(graph: Pregel) -> tuple[tuple[str, str], ...]:
    """Return a graph's edges from node to node, conditional ones included, in order.

    Of a branch that does not declare its targets none are known.
    """
    order = {name: place for place, name in enumerate(graph.nodes)}
    edges = dict.fromkeys(edge for edge in _edges(graph) if not set(edge) & set(_ENDS))
    return tuple(sorted(edges, key=lambda edge: tuple(order.get(node, -1) for node in edge)))


def starts_of(graph: Pregel) -> tuple[str, ...]:
    """Return the nodes at which a run may start."""
    return tuple(sorted({to for source, to in _edges(graph) if source == START and to != END}))


def plain_edges_of(graph: Pregel | None) -> Iterator[tuple[str, str]]:
    """Yield the unconditional edges from node to node."""
    yield from (edge for edge in _plain_edges(graph) if not set(edge) & set(_ENDS))


def _plain_edges(graph: Pregel | None) -> Iterator[tuple[str, str]]:
    builder = getattr(graph, "builder", None)
    yield from getattr(builder, "edges", ())
    for sources, to in getattr(builder, "waiting_edges", ()):
        yield from ((source, to) for source in sources)


def _edges(graph: Pregel) -> Iterator[tuple[str, str]]:
    yield from _plain_edges(graph)
    builder = getattr(graph, "builder", None)
    for source, node in getattr(builder, "nodes", {}).items():
        yield from ((source, to) for to in node.ends or ())
    for source, branches in getattr(builder, "branches", {}).items():
        for branch in branches.values():
            yield from ((source, to) for to in (branch.ends or {}).values())


def routed(listening: Callable[[], Any]) -> Callable[[Replacement], Replacement]:
    """Return a replacement for LangGraph's end of a branch that reports its choice."""

    def wrapper(before: Replacement) -> Replacement:
        def finish(self: Any, writer: Any, input: Any, result: Any, config: Any) -> Any:
            listener = listening()
            if listener is not None:
                chosen = list(result) if isinstance(result, (list, tuple)) else [result]
                namespace = (config.get("metadata") or {}).get(compat.NAMESPACE, "")
                listener.routed(namespace, *_ways(chosen, self.ends or {}))
            return before(self, writer, input, result, config)

        return finish

    return wrapper


def _ways(chosen: Sequence[Any], ends: Mapping[Any, str]) -> tuple[list[str], list[str]]:
    labels = [str(target) for target in chosen if not isinstance(target, Send) and target in ends]
    nodes = [
        target.node if isinstance(target, Send) else ends.get(target, target) for target in chosen
    ]
    return labels, [str(node) for node in nodes]


class Routes:
    """Choices of running nodes, reported when the node ends."""

    def __init__(self, recorder: TraceRecorder) -> None:
        self._recorder = recorder
        self._chosen: dict[str, list[tuple[Sequence[str], Sequence[str]]]] = {}
        """Task to the choices of its code."""

    def forget(self) -> None:
        """Begin a turn."""
        self._chosen = {}

    def chose(self, task: str, labels: Sequence[str], targets: Sequence[str]) -> None:
        """Record the choice of a branch after a node."""
        self._chosen.setdefault(task, []).append((labels, targets))

    def tell(self, task: str, run: Run | None) -> None:
        """Report the choices of a node that has ended."""
        if task not in self._chosen:
            return
        for labels, targets in self._chosen.pop(task):
            agents = tuple(target for target in targets if target not in _ENDS)
            if agents:
                self._recorder.events.record_route(
                    self._recorder.at(run),
                    targets=agents,
                    # Several labels mean several targets, so that none is ambiguous.
                    labels=tuple(labels) if len(labels) < 2 else (),
                    parallel=len(agents) > 1,
                )
