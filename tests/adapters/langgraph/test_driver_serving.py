"""The server's services are found for a graph without a look at every module that is loaded."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("langgraph")

from simkit.adapters.langgraph.driver import services_for


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose `langgraph.json` names an object of its one module."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "graph.py").touch()
    (tmp_path / "langgraph.json").write_text('{"graphs": {"a": "./src/graph.py:app"}}', "utf-8")
    loaded = ModuleType("served_graph")
    loaded.__file__ = str(tmp_path / "src" / "graph.py")
    vars(loaded)["app"] = "the graph"
    monkeypatch.setitem(sys.modules, "served_graph", loaded)
    return tmp_path


def test_it_resolves_no_path_of_a_module_that_cannot_be_the_one(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        other = ModuleType(f"other_{number}")
        other.__file__ = str(project / "src" / f"other_{number}.py")
        monkeypatch.setitem(sys.modules, other.__name__, other)
    resolved: list[Path] = []
    resolve = Path.resolve

    def resolve_and_count(path: Path) -> Path:
        resolved.append(path)
        return resolve(path)

    monkeypatch.setattr(Path, "resolve", resolve_and_count)

    server = services_for("the graph", "served_graph:app")

    assert server is not None
    assert [path for path in resolved if path.name.startswith("other_")] == []


def test_a_module_under_the_name_of_a_link_is_the_one(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "link.py").symlink_to(project / "src" / "graph.py")
    (project / "langgraph.json").write_text('{"graphs": {"a": "./link.py:app"}}', "utf-8")
    monkeypatch.setattr(sys.modules["served_graph"], "__file__", str(project / "link.py"))

    assert services_for("the graph", "served_graph:app") is not None


def test_a_file_with_the_same_name_elsewhere_is_not_the_one(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "src" / "inner").mkdir()
    (project / "src" / "inner" / "graph.py").touch()
    other_file = str(project / "src" / "inner" / "graph.py")
    monkeypatch.setattr(sys.modules["served_graph"], "__file__", other_file)

    assert services_for("the graph", "served_graph:app") is None
