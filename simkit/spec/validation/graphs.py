"""Graphs that can run, but have loops without a way out, or overlapping labels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from typing import Final

from simkit.spec.pipeline.graph_shape import AT, ELSE
from simkit.spec.pipeline.model import Edge, GraphFlow, Pipeline
from simkit.spec.validation.problems import Flaw

NODES_MAX: Final = 8
"""The number of nodes that a message names."""


def graph_flaws(pipeline: Pipeline) -> Iterator[Flaw]:
    """Yield VAL-11, loops without a way out, and VAL-12, labels that fit the same words."""
    graph = pipeline.flow.graph
    if graph is None:
        return
    trapped = _trapped(graph)
    if trapped:
        named = ", ".join(f"`{name}`" for name in trapped[:NODES_MAX])
        more = ", …" if len(trapped) > NODES_MAX else ""
        problem = (
            f"no way leads from {named}{more} to an end: only an interrupt, an error or "
            f"`agent_runs_per_turn` ({pipeline.limits.agent_runs_per_turn}) ends the turn"
        )
        yield Flaw("VAL-11", (*AT, "nodes", trapped[0]), problem, key=True)
    contains = graph.route_by is not None and "contains" in graph.route_by.model_fields_set
    for name, edges in _labelled(graph).items():
        yield from _label_flaws(name, edges, contains)


def _trapped(graph: GraphFlow) -> list[str]:
    """Return the nodes from which no path leads to an end, in the order of the file."""
    before: dict[str, list[str]] = defaultdict(list)
    edges: dict[str, list[Edge]] = defaultdict(list)
    for edge in graph.edges:
        before[edge.to].append(edge.from_)
        edges[edge.from_].append(edge)
    # An edge that can always be taken is taken; `exit: true` then has no effect.
    waiting = [
        name
        for name, node in graph.nodes.items()
        if not edges[name]
        or (node.exit and node.role == "decision" and ELSE not in [e.label for e in edges[name]])
    ]
    leaves: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in leaves:
            leaves.add(name)
            waiting += before[name]
    return [name for name in graph.nodes if name not in leaves]


def _labelled(graph: GraphFlow) -> dict[str, list[tuple[int, str]]]:
    by_label: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for place, edge in enumerate(graph.edges):
        if edge.label not in (None, ELSE) and graph.nodes[edge.from_].role == "decision":
            by_label[edge.from_].append((place, edge.label or ""))
    return by_label


def _label_flaws(node: str, edges: list[tuple[int, str]], contains: bool) -> Iterator[Flaw]:
    first: dict[str, int] = {}
    for place, label in edges:
        if label in first:
            problem = (
                f"edges[{first[label]}] of `{node}` has label `{label}` too, and is taken first"
            )
            yield Flaw("VAL-12", (*AT, "edges", place, "label"), problem)
        first.setdefault(label, place)
    for label, inner in _nested(first) if contains else ():
        place, other = first[label], first[inner]
        if other < place:
            problem = (
                f"this edge of `{node}` is never taken: label `{inner}`, which stands in "
                f"`{label}`, is that of edges[{other}] and is tried first"
            )
        else:
            problem = f"what holds label `{label}` of `{node}` holds `{inner}` too"
        yield Flaw("VAL-12", (*AT, "edges", max(place, other), "label"), problem)


def _nested(labels: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield each label with the first one that it contains; linear if lengths are few."""
    lengths = sorted({len(label) for label in labels})
    for label in labels:
        inner = next(
            (
                part
                for length in lengths
                if length < len(label)
                for start in range(len(label) - length + 1)
                if (part := label[start : start + length]) in labels
            ),
            None,
        )
        if inner is not None:
            yield label, inner
