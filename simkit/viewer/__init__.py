"""A run as one HTML file: data for the page, and the page that shows it.

``document`` has the types of the data, ``run_data`` makes them of a view, ``page`` puts them into
the built page. Nothing here reads a clock, and nothing writes HTML: the page is made from
``viewer/`` at the top of the repository.
"""

from simkit.viewer.coverage_data import CoverageCollector, RunsCoverage, coverage_data
from simkit.viewer.document import CoverageData, Graph, RunData, ScenarioData
from simkit.viewer.page import Page, RunPage, page_html, run_page
from simkit.viewer.pipeline_graph import dot_text, graph_of, mermaid_text, sequence_text, together
from simkit.viewer.run_data import run_data

__all__ = [
    "CoverageCollector",
    "CoverageData",
    "Graph",
    "Page",
    "RunData",
    "RunPage",
    "RunsCoverage",
    "ScenarioData",
    "coverage_data",
    "dot_text",
    "graph_of",
    "mermaid_text",
    "page_html",
    "run_data",
    "run_page",
    "sequence_text",
    "together",
]
