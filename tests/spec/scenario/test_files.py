"""Scenarios written into another folder name the same files from there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simkit.core.errors import SourceError
from simkit.spec.scenario.apps import App
from simkit.spec.scenario.files import Library, moved_paths
from simkit.spec.scenario.items import items_in

DESK = "pipeline: desk\nagents: {desk: {instructions: Help.}}\nflow: {handoffs: {start: desk}}\n"
TURNS = "turns: [{user: Hello., replies: {desk: Hello!}}]\n"


def moved(root: Path, text: str, folder: str) -> dict[str, Any]:
    """The keys that change when a scenario in `tests/` is written into a folder beside it."""
    (root / "tests").mkdir(exist_ok=True)
    (root / "pyproject.toml").write_text("", encoding="utf-8")
    (root / "desk.py").write_text("def run(message):\n    return 'Hello.'\n", encoding="utf-8")
    (root / "desk.pipeline.yaml").write_text(DESK, encoding="utf-8")
    (root / "shared.yaml").write_text("given: {state: {}}\n", encoding="utf-8")
    file = root / "tests" / "a.scenario.yaml"
    file.write_text(f"scenario: a\n{text}{TURNS}", encoding="utf-8")
    library = Library()
    (item,) = items_in(str(file), library.cache)
    prepared = library.prepared(item)
    return dict(moved_paths(prepared.document.data, prepared, root / folder))


@pytest.mark.parametrize(
    ("text", "folder", "keys"),
    [
        (
            "pipeline: ../desk.pipeline.yaml\n",
            "found/new",
            {"pipeline": "../../desk.pipeline.yaml"},
        ),
        ("pipeline: ../desk.pipeline.yaml\n", "tests", {"pipeline": "../desk.pipeline.yaml"}),
        ("pipeline: desk:run\napp: {path: [..]}\n", "found/new", {"app": {"path": ["../.."]}}),
        (
            "pipeline: desk:run\napp: {path: [.., .], fresh: true}\n",
            "found",
            {"app": {"path": ["..", "../tests"], "fresh": True}},
        ),
        (
            "pipeline: ../desk.pipeline.yaml\nuse: [../shared.yaml]\n",
            "found/new",
            {"pipeline": "../../desk.pipeline.yaml", "use": ["../../shared.yaml"]},
        ),
        # It is found from there, too.
        ("pipeline: desk:run\n", "found", {}),
        ("pipeline: desk:run\n", "../elsewhere", {"app": {"path": ["../PROJECT"]}}),
    ],
)
def test_keys_that_name_files(text: str, folder: str, keys: dict[str, Any], tmp_path: Path) -> None:
    root = tmp_path / "PROJECT"
    root.mkdir()

    assert moved(root, text, folder) == keys


def test_the_options_of_a_scenario_add_to_those_of_its_pipelines_file(tmp_path: Path) -> None:
    (tmp_path / "shop.pipeline.yaml").write_text(
        "pipeline: shop\ncode: shop:app\napp: {post: /chat, headers: {a: b}}\n"
    )
    (tmp_path / "a.scenario.yaml").write_text(
        "scenario: a\npipeline: shop.pipeline.yaml\napp: {headers: {c: d}}\n"
        "turns: [{user: hi, replies: {desk: {items: []}}}]\n"
    )
    library = Library()
    (item,) = items_in(str(tmp_path / "a.scenario.yaml"), library.cache)
    with pytest.raises(SourceError, match=r"what the model answers, write `json: .* around it"):
        library.prepared(item)
    text = (tmp_path / "a.scenario.yaml").read_text()
    (tmp_path / "a.scenario.yaml").write_text(text.replace("{items: []}", "{txt: a}"))
    library = Library()
    with pytest.raises(SourceError, match="did you mean `text`") as near:
        library.prepared(item)
    (tmp_path / "a.scenario.yaml").write_text(text.replace("{items: []}", "hello"))

    app = Library().prepared(item).pipeline

    assert near.value.advice == ""
    assert isinstance(app, App)
    assert (app.options.post, app.options.headers) == ("/chat", {"c": "d"})
