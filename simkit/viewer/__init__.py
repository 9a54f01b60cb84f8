"""A run as one HTML file: data for the page, and the page that shows it.

``document`` has the types of the data, ``run_data`` makes them of a view, ``page`` puts them into
the built page. Nothing here reads a clock, and nothing writes HTML: the page is made from
``viewer/`` at the top of the repository.
"""

from simkit.viewer.document import Graph
from simkit.viewer.page import (
    CoverageCollector,
    Page,
    RunPage,
    RunsCoverage,
    coverage_data,
    page_html,
    run_page,
)
from simkit.viewer.pipeline_graph import dot_text, graph_of, mermaid_text, sequence_text, together
from simkit.viewer.run_data import run_data
