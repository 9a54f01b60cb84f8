"""The page: data, compressed run by run, in the place that the built page has for it.

The page reads the index first, and a run when somebody opens it, so that a report of a thousand
scenarios opens as fast as one of ten.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from simkit.checks.coverage import KINDS, Measurement, PlacedItem, coverage_of
from simkit.core.redact import Redactor
from simkit.language.yaml import Document
from simkit.report.last_run import slug
from simkit.report.results import Result
from simkit.spec.scenario.files import Prepared
from simkit.trace.views import View
from simkit.viewer.document import (
    VERSION,
    CoverageData,
    Graph,
    Index,
    RunData,
    ScenarioData,
    scenario_data,
)
from simkit.viewer.pipeline_graph import graph_of, together
from simkit.viewer.run_data import run_data
from simkit.viewer.tables import claim_lines


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


# The page


TEMPLATE: Final = "report.html"
PLACEHOLDER: Final = "{{simkit-data}}"
LEVEL: Final = 6
"""Of zlib: 9 takes three times as long for two percent."""

_encode: Final = msgspec.json.Encoder().encode


class RunPage(msgspec.Struct, frozen=True):
    """One scenario, ready for the page; processes send it to each other."""

    scenario: ScenarioData
    run: str = ""
    """The compressed data of its run; empty if it did not run."""
    graph: Graph | None = None
    file_text: str = ""
    base: RunPage | None = None
    """The same scenario on the other side of a comparison."""


class Page(msgspec.Struct, frozen=True):
    """All scenarios of a page."""

    title: str
    simkit: str
    """The version that made it."""
    scenarios: Sequence[RunPage]
    sides: tuple[str, str] = ("", "")
    coverage: CoverageData | None = None
    """Coverage to be shown in place of scenarios; it holds no secrets."""
    graphs: Sequence[Graph] = ()
    """Pipelines to be shown beside those of the scenarios."""


def run_page(
    result: Result,
    view: View | None,
    document: Document | None = None,
    redactor: Redactor | None = None,
) -> RunPage:
    """Return a scenario for the page; result and view hold no secrets.

    ``redactor`` takes secrets out of the document's file, which is as its author wrote it.
    """
    key = slug(result.id)
    if view is None:
        return RunPage(scenario_data(result, key))
    claims = [] if document is None else claim_lines(document, result)
    data = run_data(view, result, claims)
    agents = tuple(data.agents)
    file_text = "" if document is None else _file_text(document.file, redactor)
    return RunPage(scenario_data(result, key, agents), compressed(data), data.graph, file_text)


def _file_text(file: str, redactor: Redactor | None) -> str:
    """Return a file's text without secrets; empty if it is gone."""
    try:
        text = Path(file).read_text(encoding="utf-8-sig", errors="replace")
    except OSError:
        return ""
    return text if redactor is None else redactor.text(text)


def compressed(data: RunData | Index) -> str:
    """Return data as the page holds it: JSON, deflated, in base64."""
    return base64.b64encode(zlib.compress(_encode(data), LEVEL)).decode()


def page_html(page: Page) -> str:
    """Return the whole page: the built one, with the data in its place."""
    template = files(__package__).joinpath(TEMPLATE).read_text(encoding="utf-8")
    before, placeholder, after = template.partition(PLACEHOLDER)
    assert placeholder, f"{TEMPLATE} has no place for data: build it with `nox -s viewer`"
    return f"{before}{in_script(_data(page))}{after}"


def in_script(value: Any) -> str:
    """Return JSON that a script element may hold: nothing in it ends the element."""
    text = _encode(value).decode()
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _data(page: Page) -> Mapping[str, Any]:
    runs: list[str] = []
    scenarios, sources = [], {}
    for scenario in page.scenarios:
        base = None if scenario.base is None else _placed(scenario.base, runs)
        scenarios.append(msgspec.structs.replace(_placed(scenario, runs), base=base))
        if scenario.file_text:
            sources[scenario.scenario.file] = scenario.file_text
    of_runs = (scenario.graph for scenario in page.scenarios if scenario.graph is not None)
    graphs = together((*page.graphs, *of_runs))
    index = Index(
        VERSION, page.simkit, page.title, scenarios, graphs, sources, page.sides, page.coverage
    )
    return {"index": compressed(index), "runs": runs}


def _placed(page: RunPage, runs: list[str]) -> ScenarioData:
    """Return a scenario with the index of its run, which is added to the page's runs."""
    if not page.run:
        return msgspec.structs.replace(page.scenario, run=-1)
    runs.append(page.run)
    return msgspec.structs.replace(page.scenario, run=len(runs) - 1)
