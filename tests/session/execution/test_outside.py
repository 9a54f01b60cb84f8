from __future__ import annotations

import os
from pathlib import Path

import pytest

from simkit.core.errors import SourceError
from simkit.session.execution.recorded import Recording, traffic_of
from simkit.spec.scenario.files import Library
from simkit.spec.scenario.items import items_in

NOW = "2026-01-05T09:00:00Z"


def prepared(root: Path, cassette: str):
    (root / "scenarios").mkdir(parents=True, exist_ok=True)
    (root / "pyproject.toml").touch()
    file = root / "scenarios/a.scenario.yaml"
    file.write_text(
        f"version: 1\nscenario: x\npipeline: builtins:str\ncassette: {cassette}\n"
        "turns: [{user: hi}]\n"
    )
    (item, *_) = items_in(str(file))
    return Library().prepared(item)


@pytest.mark.parametrize("name", ["../../x.yaml", "../../../../tmp/x.yaml", "link/x.yaml"])
def test_no_cassette_is_written_outside_the_project(tmp_path: Path, name: str) -> None:
    root, outside = tmp_path / "project", tmp_path / "outside"
    outside.mkdir()
    (root / "scenarios").mkdir(parents=True)
    os.symlink(outside, root / "scenarios/link")
    (outside / "x.yaml").write_text("interactions: []\nversion: 1\n")
    scenario = prepared(root, name)

    with pytest.raises(SourceError, match="would be written outside the project"):
        traffic_of(scenario, Recording("all", NOW))
    assert traffic_of(scenario, Recording("all", NOW, leaves_project=True)) is not None
    assert (outside / "x.yaml").read_text() == "interactions: []\nversion: 1\n"


@pytest.mark.parametrize("name", ["x", "../x.yaml", "../cassettes/x.yaml"])
def test_a_cassette_inside_is_written(tmp_path: Path, name: str) -> None:
    assert traffic_of(prepared(tmp_path / "p", name), Recording("all", NOW)) is not None


def test_validate_imports_and_runs_nothing(cwd: Path) -> None:
    from simkit.cli import main

    (cwd / "evil.py").write_text("open('ran', 'w').close()\ndef main(x): open('ran', 'w')\n")
    (cwd / "a.scenario.yaml").write_text(
        "version: 1\nscenario: x\npipeline: evil:main\napp: {path: .}\n"
        "turns: [{user: hi, expect: {satisfies: [evil:main]}}]\n"
    )

    with pytest.raises(SystemExit):
        main(["validate", "a.scenario.yaml"])

    assert not (cwd / "ran").exists()
