"""Scenarios written into another folder name the same files from there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

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
