"""Coverage of many runs for a report: the items with their counts, and pictures of the pipelines.

Those of several processes are merged in any order.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from simkit.checks.coverage import KINDS, Measurement, PlacedItem, coverage_of
from simkit.spec.scenario.files import Prepared
from simkit.trace.views import View
from simkit.viewer.document import CoverageData, CoveredPart, Graph
from simkit.viewer.pipeline_graph import added, counted_graph, laid_out


class RunsCoverage(msgspec.Struct, frozen=True, omit_defaults=True):
    """The coverage of some runs; equal for the same runs in any order."""

    items: tuple[PlacedItem, ...] = ()
    graphs: tuple[Graph, ...] = ()
    """One for each pipeline, by name, with nodes and edges by name; no node has a place."""
    runs: int = 0

    def merged(self, other: RunsCoverage) -> RunsCoverage:
        """Return the coverage of both."""
        items = coverage_of((*self.items, *other.items), keeps_given=True).items
        graphs = _by_name((*self.graphs, *other.graphs))
        return RunsCoverage(items, graphs, self.runs + other.runs)


class CoverageCollector:
    """Measures runs one after the other."""

    def __init__(self) -> None:
        self._measurement = Measurement()
        self._graphs: dict[str, Graph] = {}
        self._runs = 0

    def add(self, prepared: Prepared, view: View) -> None:
        """Take a run of a scenario into account."""
        self._measurement.add(prepared.pipeline, prepared.pipeline_document, view)
        graph = counted_graph(view.pipeline, view)
        known = self._graphs.get(graph.name)
        self._graphs[graph.name] = graph if known is None else added(known, graph)
        self._runs += 1

    def coverage(self) -> RunsCoverage:
        """Return the coverage of the runs so far."""
        own = RunsCoverage(
            tuple(self._measurement.items()), tuple(self._graphs.values()), self._runs
        )
        return RunsCoverage().merged(own)


def _by_name(graphs: Iterable[Graph]) -> tuple[Graph, ...]:
    """Return one graph for each name, in one order, whatever order they come in."""
    merged: dict[str, Graph] = {}
    for graph in graphs:
        known = merged.get(graph.name)
        merged[graph.name] = graph if known is None else added(known, graph)
    return tuple(
        replace(
            merged[name],
            nodes=tuple(
                replace(node, tools=tuple(sorted(node.tools)))
                for node in sorted(merged[name].nodes, key=lambda node: node.name)
            ),
            edges=tuple(
                sorted(merged[name].edges, key=lambda edge: (edge.source, edge.target, edge.label))
            ),
        )
        for name in sorted(merged)
    )


def coverage_data(
    collected: RunsCoverage, measured: str, notes: Iterable[str] = ()
) -> CoverageData:
    """Return the data of a page; ``measured`` says what was run, such as ``5 scenarios``."""
    items = coverage_of(collected.items).items
    parts = tuple(
        CoveredPart(
            pipeline=item.pipeline,
            kind=item.kind,
            name=item.name,
            file=item.file,
            line=item.line,
            hits=item.hits,
            hint="" if item.hits else item.hint,
            code=item.code,
            agent=item.agent,
        )
        for item in items
    )
    graphs = tuple(laid_out(graph) for graph in collected.graphs)
    return CoverageData(measured, KINDS, parts, graphs, tuple(notes))
