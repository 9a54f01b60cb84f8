"""The shape of a graph: its start, reachability, and that every node has a way out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from simkit.language.yaml import Document, SourcePath
from simkit.spec.pipeline.model import Edge, GraphFlow

AT: Final[SourcePath] = ("flow", "graph")
ELSE: Final = "else"
"""The label of the edge that is taken if no other matches."""


def reach(starts: Iterable[str], onward: Callable[[str], Iterable[str]]) -> set[str]:
    """Return all names reachable from some of them, with these."""
    names: set[str] = set()
    waiting = [*starts]
    while waiting:
        name = waiting.pop()
        if name not in names:
            names.add(name)
            waiting += onward(name)
    return names


def listed(names: Iterable[str]) -> str:
    """Return names as messages list them: `a`, `b`."""
    return ", ".join(f"`{name}`" for name in names)


class GraphCheck:
    """Checks of a graph against the roles of its nodes; its names are already checked."""

    def __init__(self, graph: GraphFlow, document: Document) -> None:
        self._graph, self._document = graph, document
        self._out: dict[str, list[tuple[int, Edge]]] = {name: [] for name in graph.nodes}
        for index, edge in enumerate(graph.edges):
            self._out[edge.from_].append((index, edge))

    def check(self) -> None:
        """Raise SourceError for missing parts, or for the first thing that could not run."""
        lacks = self._lacks()
        if len(lacks) > 1:
            advice = "\n  ".join(f"- {lack}" for lack in lacks)
            raise self._document.error(AT, "the graph is not whole", advice=advice, key=True)
        start = self._check_start()
        self._check_route()
        for name in self._graph.nodes:
            self._check_ways(name)
        self._check_reached(start)
        for name, node in self._graph.nodes.items():
            if not self._out[name] and not node.exit:
                raise self._problem(
                    ("nodes", name),
                    f"no edge leads on from node `{name}`, and it is no exit",
                    "Add an edge from it, or `exit: true` where a turn may end.",
                )

    def _problem(self, path: SourcePath, problem: str, advice: str = "") -> Exception:
        is_key = path[:1] == ("nodes",)
        return self._document.error((*AT, *path), problem, advice=advice, key=is_key)

    def _lacks(self) -> list[str]:
        """Describe what an incomplete graph needs: a start, and edges between all nodes."""
        nodes = self._graph.nodes
        reached = {edge.to for edge in self._graph.edges}
        starts = [name for name, node in nodes.items() if node.start]
        apart = [name for name, node in nodes.items() if name not in reached and not node.start]
        ends = [name for name, node in nodes.items() if not self._out[name] and not node.exit]
        lacks = [] if starts else ["no node has `start: true`"]
        if not starts:
            apart = apart[1:]
        if apart:
            lacks.append(f"no edge leads to {listed(apart)}")
        if ends:
            lacks.append(f"no edge leads on from {listed(ends)}: an end is `exit: true`")
        return lacks

    def _check_start(self) -> str:
        starts = [name for name, node in self._graph.nodes.items() if node.start]
        if not starts:
            raise self._document.error(
                (*AT, "nodes"),
                "the graph has no node with `start: true`",
                advice="Say at which node a turn begins.",
                key=True,
            )
        if len(starts) > 1:
            raise self._problem(
                ("nodes", starts[1]),
                f"a graph has one start, not {len(starts)}: {', '.join(starts)}",
                "A `role: split` node that leads to them starts several at once.",
            )
        return starts[0]

    def _check_route(self) -> None:
        route: Any = self._graph.route_by
        if route is not None and len(route.model_fields_set) != 1:
            raise self._document.error(
                (*AT, "route_by"), "`route_by` takes `equals` or `contains`, one of them", key=True
            )

    def _check_ways(self, name: str) -> None:
        role, ways = self._graph.nodes[name].role, self._out[name]
        self._check_twice(ways)
        if role == "decision":
            for place, edge in ways:
                if edge.label is None:
                    raise self._problem(
                        ("edges", place),
                        f"`{name}` decides, so its edge to `{edge.to}` needs a `label:`",
                        f"It is taken if the label matches; `{ELSE}` is taken if no other does.",
                    )
            if not ways:
                raise self._problem(("nodes", name), f"`{name}` decides, but no edge leaves it")
            return
        labelled = next(((place, edge) for place, edge in ways if edge.label is not None), None)
        if labelled is not None:
            place, edge = labelled
            raise self._problem(
                ("edges", place),
                f"nothing looks at label `{edge.label}`: node `{name}` has role {role}",
                "Labels are for nodes with `role: decision`.",
            )
        if role != "split" and len(ways) > 1:
            targets = ", ".join(edge.to for _, edge in ways)
            raise self._problem(
                ("nodes", name),
                f"node `{name}` has role {role}, but {len(ways)} ways on: {targets}",
                "`role: split` takes all of them at once, `role: decision` one, by its label.",
            )

    def _check_twice(self, ways: list[tuple[int, Edge]]) -> None:
        """Reject a duplicate edge: a split would take both."""
        first_places: dict[tuple[str, str | None], int] = {}
        for place, edge in ways:
            first = first_places.setdefault((edge.to, edge.label), place)
            if first != place:
                raise self._problem(
                    ("edges", place),
                    f"there are two edges from `{edge.from_}` to `{edge.to}`; the first is "
                    f"edges[{first}]",
                    "Remove one of them.",
                )

    def _check_reached(self, start: str) -> None:
        reached = reach([start], lambda name: (edge.to for _, edge in self._out[name]))
        for name in self._graph.nodes:
            if name not in reached:
                raise self._problem(
                    ("nodes", name),
                    f"nothing leads to node `{name}`",
                    f"Add an edge to it from what `{start}` leads to, or remove it.",
                )
