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
from simkit.viewer.document import CoverageData, Graph
from simkit.viewer.pipeline_graph import graph_of, together


class RunsCoverage(msgspec.Struct, frozen=True, omit_defaults=True):
    """The coverage of some runs; equal for the same runs in any order."""

    items: tuple[PlacedItem, ...] = ()
    graphs: tuple[Graph, ...] = ()
    """One for each pipeline, by name, with nodes and edges by name."""
    runs: int = 0

    def merged(self, other: RunsCoverage) -> RunsCoverage:
        """Return the coverage of both."""
        items = coverage_of((*self.items, *other.items), keeps_given=True).items
        graphs = sorted(together((*self.graphs, *other.graphs)), key=lambda graph: graph.name)
        return RunsCoverage(items, tuple(map(_sorted, graphs)), self.runs + other.runs)


class CoverageCollector:
    """Measures runs one after the other."""

    def __init__(self) -> None:
        self._measurement = Measurement()
        self._graphs: list[Graph] = []
        self._runs = 0

    def add(self, prepared: Prepared, view: View) -> None:
        """Take a run of a scenario into account."""
        self._measurement.add(prepared.pipeline, prepared.pipeline_document, view)
        self._graphs = together((*self._graphs, graph_of(view.pipeline, view)))
        self._runs += 1

    def coverage(self) -> RunsCoverage:
        """Return the coverage of the runs so far."""
        measured = tuple(self._measurement.items())
        return RunsCoverage().merged(RunsCoverage(measured, tuple(self._graphs), self._runs))


def _sorted(graph: Graph) -> Graph:
    """Return a graph in one order, in whatever order its runs were counted."""
    nodes = (replace(node, tools=tuple(sorted(node.tools))) for node in graph.nodes)
    return replace(
        graph,
        nodes=tuple(sorted(nodes, key=lambda node: node.name)),
        edges=tuple(sorted(graph.edges, key=lambda edge: (edge.source, edge.target, edge.label))),
    )


def coverage_data(
    collected: RunsCoverage, measured: str, notes: Iterable[str] = ()
) -> CoverageData:
    """Return the data of a page; ``measured`` says what was run, such as ``5 scenarios``."""
    items = coverage_of(collected.items).items
    parts = tuple(
        replace(item, hint="" if item.hits else item.hint, is_given=False) for item in items
    )
    return CoverageData(measured, KINDS, parts, collected.graphs, tuple(notes))
