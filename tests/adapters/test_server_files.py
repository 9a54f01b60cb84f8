"""What is said of the `langgraph.json` of an application."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from simkit.adapters.modules import graphs_of, hint_from, server_file


@pytest.fixture
def project(cwd: Path) -> Path:
    graphs = {"agent": "./src/shop/graph.py:g", "other": {"path": "./src/more.py:other"}}
    (cwd / "langgraph.json").write_text(json.dumps({"graphs": graphs}), "utf-8")
    (cwd / "tests").mkdir()
    return cwd


def test_the_nearest_file_above_is_taken(project: Path) -> None:
    assert server_file(project / "tests") == (project / "langgraph.json").resolve()


def test_where_there_is_no_file_nothing_is_offered(tmp_path: Path) -> None:
    assert hint_from(tmp_path) == ""


def test_an_entry_that_is_not_there_is_offered_the_graphs(project: Path) -> None:
    assert hint_from(project / "tests") == (
        "`../langgraph.json` names agent, other: "
        "`pipeline: graph:g` with `app: {path: [../src/shop]}` or "
        "`pipeline: more:other` with `app: {path: [../src]}`."
    )


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"graphs": 3}', '{"graphs": {"a": {}}}', "{"])
def test_a_file_that_says_nothing_offers_nothing(project: Path, text: str) -> None:
    (project / "langgraph.json").write_text(text, "utf-8")

    assert graphs_of(project / "langgraph.json") == {}
    assert hint_from(project) == ""
