"""An agent whose tools read `deps` that nobody gives is no application that fails."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

if find_spec("pydantic_ai") is None:
    pytest.skip("pydantic-ai is not installed", allow_module_level=True)

from simkit.core.errors import SourceError
from tests.adapters.running import run_app

APP = """
from dataclasses import dataclass

from pydantic_ai import Agent, RunContext


@dataclass
class Patient:
    number: str


nurse = Agent("openai:gpt-5-mini", name="nurse", deps_type=Patient)


@nurse.tool
def look_up(context: RunContext[Patient]) -> str:
    return context.deps.number


@nurse.tool
def find_bed(context: RunContext[Patient]) -> str:
    bed = None
    return bed.place
"""
TURN = "turns: [{user: Hi, replies: {nurse: [{calls: [%s: {}]}, Done.]}}]\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "nurse_desk.py").write_text(APP, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_deps_that_nobody_gives_are_asked_for(folder: Path) -> None:
    with pytest.raises(SourceError) as caught:
        run_app("nurse_desk:nurse", TURN % "look_up", folder)

    assert "`deps` of class `Patient`, and none are given" in str(caught.value)
    assert "app: {run_options: module:function}" in str(caught.value)


def test_another_value_that_is_none_is_a_failure_of_the_application(folder: Path) -> None:
    error = run_app("nurse_desk:nurse", TURN % "find_bed", folder).error()

    assert error is not None
    assert "no attribute 'place'" in error[1]


def test_deps_that_are_given_are_used(folder: Path) -> None:
    (folder / "nurse_options.py").write_text(
        "from nurse_desk import Patient\n\n\ndef options():\n    return {'deps': Patient('P-1')}\n"
    )

    ran = run_app(
        "nurse_desk:nurse", "app: {run_options: nurse_options:options}\n" + TURN % "look_up", folder
    )

    assert ran.error() is None
