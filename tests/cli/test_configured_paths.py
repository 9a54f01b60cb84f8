"""A call without paths means pytest's `testpaths`."""

from __future__ import annotations

from pathlib import Path

import pytest

from simkit.cli.selection import configured_paths, paths_or_default
from simkit.core.errors import SourceError


@pytest.fixture(autouse=True)
def _folders(cwd: Path) -> None:
    for folder in ("checks", "more", "empty"):
        Path(folder).mkdir()
    for folder in ("checks", "more"):
        Path(folder, "a.scenario.yaml").write_text("", encoding="utf-8")


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("pyproject.toml", '[tool.pytest.ini_options]\ntestpaths = ["checks", "empty", "gone"]\n'),
        ("pyproject.toml", '[tool.pytest.ini_options]\ntestpaths = "checks empty"\n'),
        ("pytest.ini", "[pytest]\ntestpaths = checks empty\n"),
        ("tox.ini", "[pytest]\ntestpaths =\n    chec*\n    empty\n"),
        ("setup.cfg", "[tool:pytest]\ntestpaths = checks\n"),
    ],
)
def test_the_folders_that_hold_scenarios_are_meant(file: str, text: str) -> None:
    Path(file).write_text(text, encoding="utf-8")

    assert list(paths_or_default(())) == ["checks"]
    assert list(paths_or_default(("more",))) == ["more"]


def test_pytest_ini_goes_before_pyproject() -> None:
    Path("pytest.ini").write_text("[pytest]\ntestpaths = more\n", encoding="utf-8")
    Path("pyproject.toml").write_text(
        '[tool.pytest.ini_options]\ntestpaths = ["checks"]\n', encoding="utf-8"
    )

    assert list(paths_or_default(())) == ["more"]


@pytest.mark.parametrize("text", ["", "[tool]\npytest = 1\n", "[tool.pytest]\n"])
def test_without_testpaths_it_is_the_folder_of_scenarios(text: str) -> None:
    Path("pyproject.toml").write_text(text, encoding="utf-8")

    with pytest.raises(SourceError, match="no such folder"):
        paths_or_default(())
    Path("scenarios").mkdir()
    assert list(paths_or_default(())) == ["scenarios"]


def test_testpaths_that_are_none_are_for_pytest_to_refuse(tmp_path: Path) -> None:
    text = "[tool.pytest.ini_options]\ntestpaths = 5\n"
    (tmp_path / "pyproject.toml").write_text(text, encoding="utf-8")

    assert configured_paths(str(tmp_path)) == []


def test_a_damaged_file_is_said() -> None:
    Path("pyproject.toml").write_text("[tool", encoding="utf-8")

    with pytest.raises(SourceError, match="it cannot be read"):
        paths_or_default(())
