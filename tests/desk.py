"""A desk with a clerk: scenarios that hold, fail and are broken, and runs of pytest on them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.plugins import OTHERS_OFF

ROOT = Path(__file__).resolve().parent.parent
PIPELINE = """\
version: 1
pipeline: desk
channels: {messages: {reducer: append, scope: session}}
defaults: {writes: {messages: ["${run.final_message}"]}}
agents:
  clerk: {instructions: You are a clerk.}
  manager: {instructions: You are a manager.}
flow: {handoffs: {start: clerk}}
"""
HOLDS = """\
version: 1
scenario: the clerk answers
pipeline: desk.pipeline.yaml
turns:
  - user: Hello
    replies: {clerk: Good day.}
    expect: {reply: Good day.}
"""
FAILS = HOLDS.replace("the clerk answers", "the clerk is late").replace(
    "reply: Good day.", "reply: Good evening."
)
BROKEN = HOLDS.replace("the clerk answers", "nobody knows the clerk").replace("clerk:", "clerc:")
SEVERAL = "---\n".join(
    HOLDS.replace("the clerk answers", name) for name in ("first", "second", "third")
)


def install(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """simkit as an installer leaves it: an entry point that pytest finds, and this tree's code."""
    site = pytester.mkdir(".site")
    info = site / "agent_simkit-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: agent-simkit\nVersion: 0\n")
    (info / "entry_points.txt").write_text("[pytest11]\nsimkit = simkit.pytest_plugin\n")
    monkeypatch.syspath_prepend(site)
    monkeypatch.setenv("PYTHONPATH", f"{site}:{ROOT}")
    monkeypatch.setenv("PYTEST_ADDOPTS", OTHERS_OFF)


def write(pytester: pytest.Pytester, **scenarios: str) -> None:
    """Write scenario files, `__` in a name being a folder's end, each beside the pipeline."""
    for name, text in scenarios.items():
        file = pytester.path / (name.replace("__", "/") + ".scenario.yaml")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        (file.parent / "desk.pipeline.yaml").write_text(PIPELINE, encoding="utf-8")


def named(text: str, *keys: str) -> str:
    """A scenario with more keys at its top level."""
    return text.replace("turns:", "\n".join((*keys, "turns:")))


def collected(result: pytest.RunResult) -> list[str]:
    """The node ids that `--collect-only -q` prints."""
    return [line for line in result.outlines if "::" in line]


def report_of(result: pytest.RunResult, title: str) -> str:
    """What the run prints of one failure: all between its headline and the next one."""
    lines = result.outlines
    start = next(place for place, line in enumerate(lines) if line.strip("_ ") == title) + 1
    end = next(
        place for place, line in enumerate(lines) if place > start and line[:3] in ("___", "===")
    )
    return "\n".join(lines[start:end]).strip()
