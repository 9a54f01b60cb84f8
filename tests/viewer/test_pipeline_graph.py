"""The graph of a pipeline: its declared edges, and those that a run took beside them."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from simkit.session.simulate import simulate
from simkit.spec.scenario.files import Library
from simkit.spec.scenario.items import items_in
from simkit.viewer.document import Edge
from simkit.viewer.pipeline_graph import graph_of

PIPELINE = """\
version: 1
pipeline: two
agents: {reader: {instructions: Read.}, writer: {instructions: Write.}}
flow:
  graph:
    nodes: {read: {agent: reader, start: true}, write: {agent: writer, exit: true}}
    edges: [{from: read, to: write}]
---
version: 1
scenario: both run
pipeline: two
turns: [{user: Hello, replies: {read: R, write: W}}]
"""


def test_an_edge_that_a_run_took_and_nobody_declared_has_no_label(tmp_path: Path) -> None:
    file = tmp_path / "two.scenario.yaml"
    file.write_text(PIPELINE, encoding="utf-8")
    view = simulate(Library().prepared(items_in(str(file))[0])).view
    undeclared = replace(view.pipeline, edges=())

    declared, used = graph_of(view.pipeline, view), graph_of(undeclared, view)

    assert [(edge.source, edge.target, edge.count) for edge in declared.edges] == [
        ("read", "write", 1)
    ]
    assert used.edges == (Edge("read", "write", "", "edge", count=1),)
