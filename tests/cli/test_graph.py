"""`simkit graph` as text, which takes no page."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.projects import Call
from tests.cli.test_view import DRAWN
from tests.cli.test_view import _desk as _desk


def test_a_pipeline_is_drawn_as_text(simkit: Call) -> None:
    assert simkit("graph", "desk.pipeline.yaml", "--format", "mermaid").out == (
        'flowchart TD\n    n0(["clerk"])\n    n1["manager"]\n    n0 ==> n1\n'
    )
    assert simkit("graph", "desk.pipeline.yaml", "--format", "dot").out == (
        'digraph "desk" {\n    rankdir=TB;\n    node [shape=box];\n    "clerk" [penwidth=2];\n'
        '    "manager";\n    "clerk" -> "manager" [style=bold];\n}\n'
    )


def test_a_scenario_and_traces_lead_to_their_pipeline(simkit: Call) -> None:
    simkit("replay", "-q")
    expected = simkit("graph", "desk.pipeline.yaml", "--format", "mermaid").out

    for path in ("scenarios/holds.scenario.yaml", ".simkit"):
        assert simkit("graph", path, "--format", "mermaid").out == expected


@pytest.mark.parametrize("form", ["mermaid", "dot"])
def test_a_picture_in_a_file_is_that_of_the_screen(
    simkit: Call, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DESK_TOKEN", "hunter2hunter2")
    text = DRAWN
    for end in ("]", ":"):
        text = text.replace(f"manager{end}", f'"manager \\e[31m\\u202E hunter2hunter2"{end}')
    Path("desk.pipeline.yaml").write_text(text, encoding="utf-8")

    screen = simkit("graph", "desk.pipeline.yaml", "--format", form)
    simkit("graph", "desk.pipeline.yaml", "--format", form, "-o", "picture")

    assert Path("picture").read_text(encoding="utf-8") == screen.out
    assert "\\u202e" in screen.out
    assert not set(screen.out) & set("\x1b\u202e")
    assert "hunter2" not in screen.out
